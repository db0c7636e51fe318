//! Which texts of a dictionary a group has already.
//!
//! A column that repeats its texts has each of them at one place of one buffer, for all batches that are read of the same
//! dictionary: the same place and length is the same text, which need not be looked at again. What is not known here is looked
//! up in the set of its group.

use datafusion::arrow::array::{Array, ByteView, StringViewArray};
use datafusion::arrow::buffer::Buffer;

/// Buffers of more bytes are no dictionaries: those of segments have a MiB at most.
const LARGEST: usize = 1 << 20;

/// Bytes of a text as they are guessed. A buffer of so many for each second row has hardly a text twice, such as one that was
/// made for the batch alone.
const TEXT: usize = 36;

/// Texts of at most so many bytes are in their view, as the format of Arrow has it, and in no buffer.
const IN_VIEW: u32 = 12;

/// How many bytes of a buffer share a cell. Texts of a dictionary begin farther apart: each is longer than what a view
/// holds itself, and has its length of 4 bytes before it. Where two texts share a cell, the later one is known.
const CELL: usize = 16;

/// Cells of all groups, 256 KiB. Groups that find no room have all their texts looked up, and find some in the next batch.
const MOST_CELLS: usize = 1 << 16;

/// The texts of one buffer that groups have. Groups are numbers, which begin with 0.
#[derive(Debug, Default)]
pub(super) struct SeenTexts {
    /// The buffer, which is held so that no other one comes to lie at its place.
    buffer: Option<Buffer>,
    /// Which one it is of the buffers of the batch at hand.
    index: u32,
    /// A part for each group, of one cell for each [`CELL`] bytes of the buffer.
    cells: Vec<u32>,
    /// How many cells a part has.
    part: usize,
    /// For each group, where its part begins, and in which turn.
    parts: Vec<Part>,
    /// How often the parts were dealt out anew.
    turn: u64,
    /// Whether a group found no room.
    is_full: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Part {
    start: usize,
    turn: u64,
}

impl SeenTexts {
    /// Begins a batch.
    pub(super) fn begin(&mut self, texts: &StringViewArray) {
        if self.is_full {
            self.deal();
        }
        let buffers = texts.data_buffers();
        let mut place = buffers.iter().position(|buffer| self.is_of(buffer));
        if place.is_none() {
            self.deal();
            let rows = texts.len() - texts.null_count();
            // The largest has the most texts; it may go on in the next batch.
            let fits = |(_, buffer): &(usize, &Buffer)| buffer.len() <= LARGEST.min(rows / 2 * TEXT);
            let largest = buffers.iter().enumerate().filter(fits).max_by_key(|(_, buffer)| buffer.len());
            place = largest.map(|(place, _)| place);
            self.part = largest.map_or(0, |(_, buffer)| buffer.len().div_ceil(CELL));
            self.buffer = largest.map(|(_, buffer)| buffer.clone());
        }
        self.index = place.and_then(|place| u32::try_from(place).ok()).unwrap_or(u32::MAX);
    }

    fn is_of(&self, buffer: &Buffer) -> bool {
        let known = self.buffer.as_ref();
        known.is_some_and(|known| known.as_ptr() == buffer.as_ptr() && known.len() == buffer.len())
    }

    /// Takes the parts back. Once in a batch at most, since making them costs as much as many look-ups.
    fn deal(&mut self) {
        self.cells.clear();
        self.turn += 1;
        self.is_full = false;
    }

    /// The texts of a group; `None` if nothing is kept of it.
    pub(super) fn of_group(&mut self, group: usize) -> Option<SeenOfGroup<'_>> {
        self.buffer.as_ref()?;
        if self.parts.len() <= group {
            self.parts.resize(group + 1, Part::default());
        }
        let part = self.parts.get_mut(group)?;
        if part.turn != self.turn {
            let start = self.cells.len();
            if start + self.part > MOST_CELLS {
                self.is_full = true;
                return None;
            }
            self.cells.resize(start + self.part, 0);
            *part = Part { start, turn: self.turn };
        }
        let cells = self.cells.get_mut(part.start..part.start + self.part)?;
        Some(SeenOfGroup { index: self.index, cells })
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        let buffer = self.buffer.as_ref().map_or(0, Buffer::capacity);
        buffer + self.cells.capacity() * size_of::<u32>() + self.parts.capacity() * size_of::<Part>()
    }
}

/// The texts of the buffer that one group has.
pub(super) struct SeenOfGroup<'s> {
    index: u32,
    cells: &'s mut [u32],
}

impl SeenOfGroup<'_> {
    /// Whether the group is not known to have the text of a view. It is known then.
    pub(super) fn is_new(&mut self, view: u128) -> bool {
        let view = ByteView::from(view);
        if view.length <= IN_VIEW || view.buffer_index != self.index {
            return true;
        }
        let offset = view.offset as usize;
        let Some(cell) = self.cells.get_mut(offset / CELL) else { return true };
        // Never 0. Lengths have 21 bits at most, since the text is in the buffer.
        let text = view.length << CELL.ilog2() | (offset % CELL) as u32;
        std::mem::replace(cell, text) != text
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::collections::HashSet;

    use datafusion::arrow::array::StringViewBuilder;

    use super::*;

    /// Texts of a buffer at these places, each with its length.
    fn texts(buffer: &Buffer, places: &[(u32, u32)]) -> StringViewArray {
        let mut texts = StringViewBuilder::new();
        let block = texts.append_block(buffer.clone());
        places.iter().for_each(|(offset, length)| texts.try_append_view(block, *offset, *length).unwrap());
        texts.finish()
    }

    fn news(seen: &mut SeenTexts, group: usize, texts: &StringViewArray) -> Vec<bool> {
        seen.begin(texts);
        let mut of_group = seen.of_group(group);
        texts.views().iter().map(|view| of_group.as_mut().is_none_or(|group| group.is_new(*view))).collect()
    }

    #[test]
    fn a_text_is_new_once_in_each_group_and_buffer() {
        let buffer = Buffer::from_vec(vec![b'a'; 100]);
        let repeated = texts(&buffer, &[(4, 36), (44, 36), (4, 36), (44, 36), (4, 12), (44, 36), (4, 36), (4, 36)]);
        let mut seen = SeenTexts::default();
        assert_eq!(news(&mut seen, 3, &repeated), [true, true, false, false, true, false, false, false]);
        assert_eq!(news(&mut seen, 3, &repeated.slice(1, 3)), [false; 3], "another batch of the buffer");
        assert_eq!(news(&mut seen, 0, &repeated.slice(0, 2)), [true; 2], "another group");
        let other = Buffer::from_vec(vec![b'b'; 400]);
        assert_eq!(news(&mut seen, 3, &texts(&other, &[(4, 36)])), [true], "another buffer");
        assert_eq!(news(&mut seen, 3, &repeated.slice(0, 2)), [true; 2]);
    }

    /// Texts that begin at the same place, or lie over each other, are different ones.
    #[test]
    fn texts_that_overlap_are_not_mistaken_for_each_other() {
        let buffer = Buffer::from_vec(vec![b'a'; 100]);
        let places: Vec<(u32, u32)> = (0..60).flat_map(|offset| (13..40).map(move |length| (offset, length))).collect();
        let rows: Vec<(u32, u32)> = places.iter().chain(places.iter().rev()).copied().collect();
        let news = news(&mut SeenTexts::default(), 1, &texts(&buffer, &rows));
        let mut known = HashSet::new();
        for (place, is_new) in rows.iter().zip(&news) {
            assert!(*is_new || known.contains(place), "{place:?}");
            known.insert(place);
        }
        assert!(news.contains(&false), "nothing was known");
    }

    /// A buffer that was made for its batch has each text once: nothing is kept of it.
    #[test]
    fn buffers_without_repetition_are_not_kept() {
        let buffer = Buffer::from_vec(vec![b'a'; 3_600]);
        let rows: Vec<(u32, u32)> = (0..100).map(|row| (row * 36, 36)).collect();
        let mut seen = SeenTexts::default();
        assert_eq!(news(&mut seen, 0, &texts(&buffer, &rows)), [true; 100]);
        assert!(seen.buffer.is_none() && seen.cells.is_empty());
    }

    /// What is held is bounded, and more groups or larger buffers are no errors: a group waits for its part, others have none.
    #[test]
    fn many_groups_and_large_buffers_are_not_kept() {
        let mut seen = SeenTexts::default();
        let buffer = Buffer::from_vec(vec![b'a'; LARGEST / 4]);
        let rows = [(4, 36); 60_000];
        let repeated = texts(&buffer, &rows);
        let is_kept = |news: &[bool]| news.iter().filter(|is_new| **is_new).count() == 1;
        let kept: Vec<bool> = (0..12).map(|group| is_kept(&news(&mut seen, group, &repeated))).collect();
        assert_eq!(kept, [true, true, true, true, false, true, true, true, true, false, true, true]);
        assert!(seen.held() <= 2 * (LARGEST + MOST_CELLS * size_of::<u32>()), "{}", seen.held());
        let larger = texts(&Buffer::from_vec(vec![b'a'; LARGEST + 1]), &rows);
        assert!(!is_kept(&news(&mut seen, 0, &larger)) && seen.buffer.is_none());
    }
}
