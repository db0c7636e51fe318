//! Which rows of a segment have their place ([`crate::memory::places`]), by its footer.
//!
//! Files of versions without places have none, and a merged segment has those that its inputs had. The catalog does not
//! say so; the footer is read once for each segment that a follower comes back to.

use uuid::Uuid;

use crate::segment::{
    file_error::SegmentFileError,
    footer::{self, Footer},
    footer_entry::RowPlaces,
    handle::Segment,
};

impl Footer {
    /// Which rows of the file have their place, for the catalog with this identity.
    pub(crate) fn row_places(&self, catalog: Uuid) -> RowPlaces {
        self.entry.as_ref().map_or(RowPlaces::After(i64::MAX), |entry| entry.row_places(catalog))
    }
}

impl Segment {
    /// Which of its rows have their place, for the catalog with this identity. Reads the footer at the first call.
    pub(crate) fn row_places(&self, catalog: Uuid) -> Result<RowPlaces, SegmentFileError> {
        if let Some(known) = self.row_places.get() {
            return Ok(*known);
        }
        let Some(path) = self.path() else { return Ok(RowPlaces::After(i64::MAX)) };
        let known = footer::read(path, self.id, self.checksum)?.row_places(catalog);
        Ok(*self.row_places.get_or_init(|| known))
    }
}
