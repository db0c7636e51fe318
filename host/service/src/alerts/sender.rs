//! One attempt to send a message.
//!
//! The address is hostile: whoever saves an endpoint chooses it. So it is sent to as [`crate::outbound`] says, and of the
//! answer only the status counts.

use std::io::{self, Read};
use std::time::Instant;

use tidegate_model::milliseconds;
use ureq::{Agent, Error, http};

use super::message::signature;
use crate::options::AlertOptions;
use crate::outbound::{Outbound, told};

/// The most bytes of an answer that are read.
const MOST_ANSWER: u64 = 4 << 10;

/// A client for messages.
#[derive(Debug)]
pub(super) struct Sender {
    agent: Agent,
}

/// A message with the address and the secret of its alert.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) url: &'a str,
    pub(super) secret: &'a str,
    pub(super) body: &'a str,
    /// The time of the attempt, in seconds since 1970.
    pub(super) seconds: i64,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    /// The status that was answered, or why there is none.
    pub(super) status: Result<u16, String>,
    /// How long it took.
    pub(super) milliseconds: u64,
}

impl Attempt {
    /// Whether the receiver confirmed the message.
    pub(super) fn is_confirmed(&self) -> bool {
        self.status.as_ref().is_ok_and(|status| (200..300).contains(status))
    }
}

impl Sender {
    pub(super) fn new(options: &AlertOptions) -> Self {
        let outbound = Outbound {
            time: options.send_time,
            connect_time: options.connect_time,
            allowed: options.allow_networks.clone(),
            setting: "[alerts] allow_networks",
        };
        Self { agent: outbound.agent() }
    }

    /// Sends a message. Blocks, for the time that a receiver may take.
    pub(super) fn send(&self, message: &Outgoing<'_>) -> Attempt {
        let began = Instant::now();
        let status = self.post(message).map_err(|error| told(&error, "receiver"));
        Attempt { status, milliseconds: milliseconds(began.elapsed()) }
    }

    fn post(&self, message: &Outgoing<'_>) -> Result<u16, Error> {
        let Outgoing { url, secret, body, seconds } = message;
        let request = http::Request::post(*url)
            .header("content-type", "application/json")
            .header("x-tidegate-timestamp", seconds.to_string())
            .header("x-tidegate-signature", signature(secret, *seconds, body))
            .body(*body)?;
        let mut answer = self.agent.run(request)?;
        // Some servers take a request as broken off if nobody reads their answer. What it says does not matter.
        let _ = io::copy(&mut answer.body_mut().as_reader().take(MOST_ANSWER), &mut io::sink());
        Ok(answer.status().as_u16())
    }
}
