//! The report of a run of retention.

/// What retention dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Segments.
    pub segments: usize,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

impl Dropped {
    pub(crate) fn add(&mut self, other: Dropped) {
        self.segments += other.segments;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}
