//! The newest rows of one statement, encoded once for all of its followers.
//!
//! A ring holds a bounded number of bytes. Each follower reads at its own pace; one that is slower than the rows come finds
//! that the oldest were overwritten, and how many. The bytes of a chunk count until the last follower has sent them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use super::event::{self, End};
use super::position::Position;

/// The most bytes of a chunk, unless one row has more.
const CHUNK: usize = 64 << 10;
/// Bytes that a row takes besides its event.
const ROW_BYTES: usize = size_of::<Position>() + size_of::<usize>();

/// A number of bytes among those that are held together, until it is dropped.
#[derive(Debug)]
struct Held(Arc<AtomicUsize>, usize);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct HeldBytes {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Some rows as events.
#[derive(Debug)]
struct Chunk {
    /// The number of its first row among all rows of the ring.
    first: u64,
    events: Bytes,
    /// For each row, its place and where its event ends.
    rows: Vec<(Position, usize)>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.first + tidegate_model::number(self.rows.len())
    }

    fn bytes(&self) -> usize {
        self.events.len() + self.rows.len() * ROW_BYTES
    }
}

/// The newest rows of a statement.
#[derive(Debug)]
pub(super) struct Ring {
    state: Mutex<State>,
    /// Changes whenever there is something new.
    changed: watch::Sender<u64>,
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    /// The number of the next row.
    next: u64,
    /// All rows after this place are in the ring, as far as they are computed.
    floor: Position,
    /// The rows of all calls up to this one are computed.
    computed: i64,
    end: Option<End>,
}

/// How far a follower has read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// The number of the next row to read.
    next: u64,
    /// Rows up to this place are known to the follower.
    pub(super) after: Position,
}

/// What a follower gets from a ring.
#[derive(Debug)]
pub(super) enum Read {
    /// Rows were overwritten that the follower did not have.
    Missed(u64),
    /// Events of so many rows.
    Rows(Bytes, u64),
    /// There is no more, now or ever.
    Nothing(Option<End>),
}

/// Rows on their way into a ring.
#[derive(Debug, Default)]
pub(super) struct Batch {
    events: Vec<u8>,
    rows: Vec<(Position, usize)>,
}

impl Batch {
    pub(super) fn add(&mut self, position: Position, json: &[u8]) {
        event::row(&mut self.events, &position.to_string(), json);
        self.rows.push((position, self.events.len()));
    }

    /// Whether it is time to push it.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= CHUNK
    }

    /// Bytes that the rows take.
    pub(super) fn bytes(&self) -> usize {
        self.events.len() + self.rows.len() * ROW_BYTES
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The place of the last row.
    pub(super) fn last(&self) -> Option<Position> {
        self.rows.last().map(|(position, _)| *position)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The events, and how many they are.
    pub(super) fn into_events(mut self) -> (Vec<u8>, u64) {
        self.events.shrink_to_fit();
        (self.events, tidegate_model::number(self.rows.len()))
    }
}

impl Ring {
    /// A ring of the rows of calls after `computed`.
    pub(super) fn new(computed: i64, held: Arc<AtomicUsize>) -> Self {
        let (chunks, floor) = (VecDeque::new(), Position::whole(computed));
        let state = State { chunks, bytes: 0, next: 0, floor, computed, end: None };
        Self { state: Mutex::new(state), changed: watch::Sender::new(0), held }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Told of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The rows of all calls up to this one are computed.
    pub(super) fn computed(&self) -> i64 {
        self.state().computed
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state().end.is_some()
    }

    /// Adds rows, and lets the oldest go beyond `most` bytes.
    pub(super) fn push(&self, batch: Batch, most: usize) {
        if batch.is_empty() {
            return;
        }
        let Batch { events, rows } = batch;
        let mut state = self.state();
        let size = events.len() + rows.len() * ROW_BYTES;
        self.held.fetch_add(size, Ordering::Relaxed);
        let held = Held(Arc::clone(&self.held), size);
        let chunk =
            Chunk { first: state.next, events: Bytes::from_owner(HeldBytes { bytes: events, _held: held }), rows };
        state.next = chunk.end();
        state.bytes += chunk.bytes();
        state.chunks.push_back(Arc::new(chunk));
        state.trim(most);
        drop(state);
        self.tell();
    }

    /// Lets the oldest rows go beyond `most` bytes.
    pub(super) fn trim(&self, most: usize) {
        self.state().trim(most);
    }

    /// The rows of all calls up to `call` are computed and pushed.
    pub(super) fn has_computed(&self, call: i64) {
        let mut state = self.state();
        state.computed = state.computed.max(call);
        drop(state);
        self.tell();
    }

    /// The rows of calls up to `call` cannot be computed any more.
    pub(super) fn skip_to(&self, call: i64) {
        let mut state = self.state();
        state.computed = state.computed.max(call);
        let position = Position::whole(call);
        let events = event::gap("rows came faster than they could be looked at; ask the query itself for them");
        let end = events.len();
        let chunk = Chunk { first: state.next, events: events.into(), rows: vec![(position, end)] };
        state.next = chunk.end();
        state.bytes += chunk.bytes();
        state.chunks.push_back(Arc::new(chunk));
        drop(state);
        self.tell();
    }

    /// Ends the ring: its followers get what is in it, and then the reason.
    pub(super) fn end(&self, end: End) {
        self.state().end.get_or_insert(end);
        self.tell();
    }

    /// Where a follower begins that has all rows up to `after`. `None` if rows after that were overwritten.
    pub(super) fn join(&self, after: Position) -> Option<Cursor> {
        let state = self.state();
        let first = state.chunks.front().map_or(state.next, |chunk| chunk.first);
        (state.floor <= after).then_some(Cursor { next: first, after })
    }

    /// What comes next for a follower.
    pub(super) fn read(&self, cursor: &mut Cursor) -> Read {
        let state = self.state();
        let first = state.chunks.front().map_or(state.next, |chunk| chunk.first);
        if cursor.next < first {
            let missed = first - cursor.next;
            cursor.next = first;
            // What was overwritten may be what the follower had from elsewhere.
            if state.floor > cursor.after {
                return Read::Missed(missed);
            }
        }
        let from = state.chunks.partition_point(|chunk| chunk.end() <= cursor.next);
        for chunk in state.chunks.range(from..) {
            let read = usize::try_from(cursor.next - chunk.first.min(cursor.next)).unwrap_or(usize::MAX);
            let known = chunk.rows.partition_point(|(position, _)| *position <= cursor.after).max(read);
            cursor.next = chunk.end();
            let Some((last, _)) = chunk.rows.last().filter(|_| known < chunk.rows.len()) else { continue };
            let begin = known.checked_sub(1).and_then(|row| chunk.rows.get(row)).map_or(0, |(_, end)| *end);
            cursor.after = *last;
            return Read::Rows(chunk.events.slice(begin..), tidegate_model::number(chunk.rows.len() - known));
        }
        // All that is computed is read.
        cursor.after = cursor.after.max(Position::whole(state.computed));
        Read::Nothing(state.end.clone())
    }
}

impl State {
    fn trim(&mut self, most: usize) {
        // The newest chunk stays, so that whoever is fast enough gets every row.
        while self.bytes > most
            && self.chunks.len() > 1
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.bytes -= chunk.bytes();
            if let Some((last, _)) = chunk.rows.last() {
                self.floor = self.floor.max(*last);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn batch(call: i64, rows: std::ops::Range<usize>) -> Batch {
        let mut batch = Batch::default();
        rows.for_each(|row| batch.add(Position::row(call, row, 0), b"{}"));
        batch
    }

    fn rows(ring: &Ring, cursor: &mut Cursor) -> (u64, String) {
        match ring.read(cursor) {
            Read::Rows(bytes, rows) => (rows, String::from_utf8(bytes.to_vec()).unwrap()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_row_is_read_once_from_where_a_follower_begins() {
        let held = Arc::new(AtomicUsize::new(0));
        let ring = Ring::new(4, Arc::clone(&held));
        ring.push(batch(5, 0..3), 1 << 20);
        ring.push(batch(6, 0..2), 1 << 20);
        ring.has_computed(6);
        let mut all = ring.join(Position::whole(4)).unwrap();
        assert_eq!(rows(&ring, &mut all).0, 3);
        assert_eq!(rows(&ring, &mut all).0, 2);
        assert!(matches!(ring.read(&mut all), Read::Nothing(None)));
        assert_eq!(all.after, Position::whole(6));
        let mut some = ring.join(Position::row(5, 1, 0)).unwrap();
        assert_eq!(rows(&ring, &mut some), (1, "id: 5.2.0\ndata: {}\n\n".to_owned()));
        assert_eq!(rows(&ring, &mut some).0, 2);
        let mut later = ring.join(Position::whole(7)).unwrap();
        ring.push(batch(7, 0..1), 1 << 20);
        ring.push(batch(8, 0..1), 1 << 20);
        assert!(rows(&ring, &mut later).1.starts_with("id: 8.0.0"), "it had the rows of call 7 before");
        drop(ring);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_slow_follower_learns_how_many_rows_it_missed() {
        let held = Arc::new(AtomicUsize::new(0));
        let ring = Ring::new(0, Arc::clone(&held));
        let mut slow = ring.join(Position::whole(0)).unwrap();
        for call in 1..100 {
            ring.push(batch(call, 0..10), 1 << 10);
        }
        assert!(held.load(Ordering::Relaxed) <= (1 << 10) + 1000);
        let Read::Missed(missed) = ring.read(&mut slow) else { panic!("it missed some") };
        let mut got = 0;
        loop {
            match ring.read(&mut slow) {
                Read::Rows(_, rows) => got += rows,
                Read::Nothing(None) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(missed + got, 990);
        assert!(ring.join(Position::whole(0)).is_none(), "not all rows are there");
        ring.end(End::Shutdown);
        assert!(matches!(ring.read(&mut slow), Read::Nothing(Some(End::Shutdown))));
    }

    #[test]
    fn what_a_reader_still_sends_counts() {
        let held = Arc::new(AtomicUsize::new(0));
        let ring = Ring::new(0, Arc::clone(&held));
        let mut cursor = ring.join(Position::whole(0)).unwrap();
        ring.push(batch(1, 0..1), 1 << 20);
        let Read::Rows(bytes, _) = ring.read(&mut cursor) else { panic!("a row") };
        drop(ring);
        assert!(held.load(Ordering::Relaxed) > 0);
        drop(bytes);
        assert_eq!(held.load(Ordering::Relaxed), 0);
    }
}
