//! Reads a body as a door does, and stores nothing: for the fuzz target over all doors. The events are shown as they would be
//! stored, also those of a sender that sends logs of one tenant.

use bytes::Bytes;
use http::{Request, header};
use serde_json::Value;
use tidegate_model::{Audience, Code, Failure, SenderPolicy};
use tidegate_store::Intake;

use super::batch::Batch;
use super::body::unpack_snappy;
use super::body_memory::BodyMemory;
use super::events::Events;
use super::protocols::DOORS;

/// The most bytes of a body, after decompression.
const LONGEST: usize = 16 << 20;
/// The most bytes of an event.
const LONGEST_EVENT: usize = 64 << 10;
/// The media types that any of the doors reads.
const KINDS: [&str; 9] = [
    "application/grpc",
    "application/json",
    "application/x-ndjson",
    "application/x-protobuf",
    "application/logplex-1",
    "application/msgpack",
    "application/vnd.fdo.journal",
    "text/plain",
    "snappy",
];

/// What is in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyContent {
    /// The events that can be stored.
    pub events: Vec<Value>,
    /// Why each of the others is refused.
    pub refused: Vec<String>,
}

/// The forms in which bodies are read: the path of each door with each media type.
pub fn body_forms() -> Vec<(&'static str, &'static str)> {
    DOORS.iter().flat_map(|door| door.profile().paths.iter().flat_map(|path| KINDS.map(|kind| (*path, kind)))).collect()
}

/// Reads a body in one of the [`body_forms`], from a sender whose events must have these values. The media type `snappy` stands for Protocol Buffers in a block of Snappy.
///
/// # Errors
/// Why the request would be refused as a whole.
pub fn read_body(
    (path, kind): (&str, &str),
    body: &[u8],
    policy: Option<SenderPolicy>,
) -> Result<BodyContent, Failure> {
    let internal = |what: &str| Failure::new(Code::Internal, what);
    let door = DOORS
        .iter()
        .find(|door| door.profile().paths.contains(&path))
        .ok_or_else(|| internal("there is no such door"))?;
    let (kind, is_packed) = if kind == "snappy" { ("application/x-protobuf", true) } else { (kind, false) };
    let request = Request::post(path).header(header::CONTENT_TYPE, kind).body(());
    let (head, ()) = request.map_err(|_| internal("the path is no path"))?.into_parts();
    let mut reservation = BodyMemory::new(2 * LONGEST).reservation();
    let body = match is_packed {
        true => unpack_snappy(body, LONGEST, &mut reservation)?.freeze(),
        false => Bytes::copy_from_slice(body),
    };
    let intake = Intake::new(0, LONGEST_EVENT, Audience::All).held_to(policy);
    let batch = Batch::new(intake, reservation, body.len());
    door.check(&head)?;
    let mut events = Events::new(batch, LONGEST, None);
    door.read(&head, &body, &mut events)?;
    let events = events.checked()?;
    let (intake, _) = events.own.into_parts();
    let refused = intake.refused().iter().map(|refused| refused.reason.clone());
    let others = events.items.iter().filter_map(|item| item.fate.as_ref().err().map(|failure| failure.message.clone()));
    Ok(BodyContent { events: intake.stored(), refused: refused.chain(others).collect() })
}
