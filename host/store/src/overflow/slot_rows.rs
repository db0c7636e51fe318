//! Which row and which JSON pointer belong to a slot of an array: a slot is a row, or an element of a list of records.

/// The rows and pointers of the slots of an array.
#[derive(Debug)]
pub(crate) enum SlotRows {
    /// One slot for each row. The pointer is the path of the column.
    Rows,
    /// Slots are elements of lists. For each: the row, and the pointer of the element, which replaces the first so many
    /// bytes of the path of the column.
    Elements(Vec<(u32, Box<str>)>, usize),
}

impl SlotRows {
    pub(crate) fn row(&self, slot: usize) -> Option<u32> {
        match self {
            SlotRows::Rows => u32::try_from(slot).ok(),
            SlotRows::Elements(elements, _) => Some(elements.get(slot)?.0),
        }
    }

    /// The pointer of the value in a slot of the column at `path`.
    pub(crate) fn pointer(&self, slot: usize, path: &str) -> String {
        match self {
            SlotRows::Rows => path.to_owned(),
            SlotRows::Elements(elements, list) => {
                let element = elements.get(slot).map_or("", |(_, pointer)| pointer.as_ref());
                format!("{element}{}", path.get(*list..).unwrap_or_default())
            }
        }
    }

    /// The rows and pointers of the elements of the list column at `path`.
    pub(crate) fn elements(&self, offsets: &[i32], path: &str) -> SlotRows {
        let mut elements = Vec::new();
        for (slot, bounds) in offsets.windows(2).enumerate() {
            let (&[start, end], Some(row)) = (bounds, self.row(slot)) else { continue };
            let pointer = self.pointer(slot, path);
            elements.extend((0..end - start).map(|index| match end - start {
                1 => (row, pointer.as_str().into()),
                _ => (row, format!("{pointer}/{index}").into()),
            }));
        }
        SlotRows::Elements(elements, path.len())
    }
}
