//! One connection of syslog: reads messages, and stores them in batches.
//!
//! A message that arrives slowly holds only the bytes that are there, and has its time. Whatever happens, the messages
//! that were read are stored before the connection is closed; the sender is never told, because syslog has no answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tidegate_service::{AnonymousConnection, Options};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::batch::{Batch, is_compressed};
use super::frames::{Cut, Frames, Rest};
use super::refusal::{Reason, Refusals};
use super::sender::Sender;
use super::stream::SenderStream;
use crate::body_memory::{BodyMemory, BodyReservation};
use crate::service::DoorService;

/// The room for bytes that are read at once: while nothing is held, and within a message.
const FIRST_READ: usize = 4 << 10;
const NEXT_READ: usize = 32 << 10;
/// A buffer with more room than this is not kept when it is empty.
const KEPT_BUFFER: usize = 64 << 10;
/// How many messages that are not taken end a connection on which none was taken.
const MOST_STRANGE: usize = 10;
/// How much memory is asked for at once while messages are taken.
const MEMORY_STEP: usize = 64 << 10;
/// How often memory is asked for again that is not there.
const MEMORY_PAUSE: Duration = Duration::from_millis(50);
/// When the service stops, senders are told by the end of the stream. What they have sent until then is read for so long
/// at most, and until nothing has come for so long.
const LAST_TIME: Duration = Duration::from_secs(3);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// How long the end of the stream may take to be sent.
const END_TIME: Duration = Duration::from_secs(1);

/// What the connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) service: Arc<dyn DoorService>,
    pub(super) refusals: Refusals,
    /// The part of the memory for bodies that syslog may use: messages that arrive slowly must not take what requests need.
    pub(super) memory: BodyMemory,
}

impl Shared {
    pub(super) fn new(service: Arc<dyn DoorService>) -> Self {
        let memory = BodyMemory::new(service.options().ingest.body_memory / 2);
        Self { service, refusals: Refusals::default(), memory }
    }

    pub(super) fn options(&self) -> &Options {
        self.service.options()
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    sender: Sender,
    frames: Frames,
    buffer: BytesMut,
    batch: Batch,
    /// What the buffer and the batch hold, of the memory for all bodies and of that for syslog.
    memory: [BodyReservation; 2],
    /// The bytes that are reserved in both.
    reserved: usize,
    /// When the message began to arrive of which a part is there.
    partial: Option<Instant>,
    /// The place among the connections without a token, until a message was taken.
    stranger: Option<Arc<AnonymousConnection>>,
    began: Instant,
    /// Messages that were not taken, while none was.
    strange: usize,
    /// Whether the sender has ended.
    ended: bool,
}

/// Whether more is read from the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    End,
}

impl Connection {
    /// A connection of this sender. `stranger` is its place among those that have yet to send a token.
    pub(super) fn new(shared: Arc<Shared>, sender: Sender, stranger: Option<Arc<AnonymousConnection>>) -> Self {
        Self {
            frames: Frames::new(shared.options().store.max_event_bytes),
            memory: [shared.service.bodies().reservation(), shared.memory.reservation()],
            reserved: 0,
            shared,
            sender,
            buffer: BytesMut::new(),
            batch: Batch::default(),
            partial: None,
            stranger,
            began: Instant::now(),
            strange: 0,
            ended: false,
        }
    }

    /// Reads until the sender ends, a limit ends the connection, or the service stops; stores what was read.
    pub(super) async fn run(mut self, mut stream: impl SenderStream, mut stopping: watch::Receiver<bool>) {
        loop {
            if *stopping.borrow_and_update() {
                self.last(&mut stream).await;
                break;
            }
            if !self.has_memory().await {
                self.refuse(Reason::NoMemory);
                break;
            }
            let (deadline, late) = self.deadline();
            let read = tokio::select! {
                read = stream.read_buf(&mut self.buffer) => Some(read),
                () = sleep_until(deadline) => None,
                _ = stopping.changed() => continue,
            };
            let flow = match read {
                Some(Ok(0)) => {
                    self.end();
                    Flow::End
                }
                Some(Ok(_)) => self.cut().await,
                Some(Err(error)) => {
                    tracing::debug!(%error, peer = %self.sender.peer, "a connection of syslog ended early");
                    self.broken();
                    Flow::End
                }
                None => match late {
                    Late::Batch => {
                        self.store().await;
                        Flow::On
                    }
                    Late::Message => {
                        self.refuse(Reason::TooSlow);
                        Flow::End
                    }
                    Late::Sender | Late::Idle => Flow::End,
                },
            };
            if flow == Flow::End {
                break;
            }
        }
        self.store().await;
        if !self.ended
            && let Err(error) = stream.reset()
        {
            tracing::debug!(%error, peer = %self.sender.peer, "a connection of syslog cannot be reset");
        }
    }

    /// Takes the messages in the buffer.
    async fn cut(&mut self) -> Flow {
        let mut taken = false;
        loop {
            let (used, cut) = self.frames.next(&self.buffer);
            let refused = match cut {
                // What follows on the connection cannot be read either.
                Cut::Message(message) if is_compressed(message) => {
                    self.refuse(Reason::Compressed);
                    return Flow::End;
                }
                Cut::Message(message) => {
                    taken = true;
                    self.batch.take(&*self.shared.service, &self.sender, message).err()
                }
                Cut::TooLong => Some(Reason::TooLong),
                Cut::More => {
                    self.buffer.advance(used);
                    break;
                }
                Cut::Lost => {
                    self.refuse(Reason::WrongLength);
                    return Flow::End;
                }
            };
            self.buffer.advance(used);
            match refused {
                Some(reason) => self.refuse(reason),
                None => drop(self.stranger.take()),
            }
            if self.strange >= MOST_STRANGE {
                return Flow::End;
            }
            if self.batch.is_full() || !self.has_room() {
                self.store().await;
            }
        }
        let is_partial = !self.buffer.is_empty() || self.frames.is_skipping();
        if taken || !is_partial {
            self.partial = None;
        }
        if is_partial {
            self.partial.get_or_insert_with(Instant::now);
        } else if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = BytesMut::new();
        }
        Flow::On
    }

    /// Stores the batch. The time that this takes is not the sender's.
    async fn store(&mut self) {
        self.batch.store(&*self.shared.service, &self.sender, &self.shared.refusals).await;
        if let Some(since) = &mut self.partial {
            *since = Instant::now();
        }
    }

    fn refuse(&mut self, reason: Reason) {
        if self.stranger.is_some() {
            self.strange += 1;
        }
        self.shared.refusals.count(&*self.shared.service, reason, 1, self.sender.peer);
    }

    /// Makes room for what is read next, and reserves memory for it. Where there is none, what is held is stored first.
    async fn has_memory(&mut self) -> bool {
        let more = if self.buffer.is_empty() { FIRST_READ } else { NEXT_READ };
        let until = Instant::now() + self.shared.options().syslog.message_timeout;
        loop {
            let room = self.buffer.len().saturating_add(more).max(self.buffer.capacity());
            let held = room.saturating_add(self.batch.held());
            if self.reserve(held) {
                self.buffer.reserve(more);
                return true;
            }
            if self.batch.since().is_some() {
                self.store().await;
            } else if Instant::now() >= until {
                return false;
            } else {
                sleep(MEMORY_PAUSE).await;
            }
        }
    }

    /// Whether there is memory for what is held. It is asked for in steps, so that not every message asks.
    fn has_room(&mut self) -> bool {
        let held = self.buffer.capacity().saturating_add(self.batch.held());
        held <= self.reserved || self.reserve(held.saturating_add(MEMORY_STEP))
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let good = self.memory.iter_mut().all(|memory| memory.hold(bytes).is_ok());
        if good {
            self.reserved = bytes;
        }
        good
    }

    /// When something is to be done if nothing comes, and what.
    fn deadline(&self) -> (Instant, Late) {
        let options = &self.shared.options().syslog;
        let all = [
            Some((Instant::now() + options.idle_timeout, Late::Idle)),
            self.partial.map(|since| (since + options.message_timeout, Late::Message)),
            self.stranger.as_ref().map(|_| (self.began + options.message_timeout, Late::Sender)),
            self.batch.since().map(|since| (Instant::from_std(since) + options.batch_time, Late::Batch)),
        ];
        let first = all.into_iter().flatten().min_by_key(|(at, _)| *at);
        first.unwrap_or((Instant::now(), Late::Idle))
    }

    /// The sender has ended: a line without an end is a message.
    fn end(&mut self) {
        self.ended = true;
        let rest = std::mem::take(&mut self.buffer);
        let refused = match self.frames.end(&rest) {
            Rest::Nothing => None,
            Rest::Line(line) => self.batch.take(&*self.shared.service, &self.sender, line).err(),
            Rest::Part => Some(Reason::Incomplete),
        };
        if let Some(reason) = refused {
            self.refuse(reason);
        }
    }

    /// The connection has ended without its sender: a part of a message is not one.
    fn broken(&mut self) {
        if self.frames.end(&self.buffer) != Rest::Nothing {
            self.refuse(Reason::Incomplete);
        }
    }

    /// The service stops: the sender is told by the end of the stream, and what it has sent before it knows is read.
    async fn last(&mut self, stream: &mut impl SenderStream) {
        let _ = timeout(END_TIME, stream.end()).await;
        let until = Instant::now() + LAST_TIME;
        while self.has_memory().await {
            match timeout_at(until.min(Instant::now() + LAST_PAUSE), stream.read_buf(&mut self.buffer)).await {
                Ok(Ok(0)) => return self.end(),
                Ok(Ok(_)) => {
                    if self.cut().await == Flow::End {
                        return;
                    }
                }
                Ok(Err(_)) | Err(_) => break,
            }
        }
        self.broken();
    }
}

/// What has taken its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    /// The messages that wait to be stored.
    Batch,
    /// A message that does not arrive whole.
    Message,
    /// The first message of a sender that needs a token.
    Sender,
    /// Whatever would come next.
    Idle,
}
