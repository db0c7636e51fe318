//! The place of a value among the elements of a sorted array. That the array is sorted is looked at once: it mostly is the same
//! for all rows.

use std::cmp::Ordering;

use super::arguments::{Column, Row};
use super::out::RowResult;
use crate::wording::{NULL_BOUND, UNSORTED_BOUNDS};

impl Column {
    /// The order of two values that are not NULL; `None` if they have none.
    fn ordered(&self, row: usize, other: &Self, of_other: usize) -> Option<Ordering> {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => Some(one.value(row).cmp(other.value(of_other))),
            (Self::Int(one), Self::Int(other)) => Some(one.value(row).cmp(&other.value(of_other))),
            (Self::Float(one), Self::Float(other)) => one.value(row).partial_cmp(&other.value(of_other)),
            (Self::Bool(one), Self::Bool(other)) => Some(one.value(row).cmp(&other.value(of_other))),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.value(row).cmp(other.value(of_other))),
            _ => None,
        }
    }
}

impl Row {
    /// How many elements of an argument, which is a sorted array, are less than or equal to the value of another; `None`
    /// for a NaN.
    pub(crate) fn rank(&self, array: usize, value: usize) -> RowResult<usize> {
        let (items, span) = self.span(array);
        let (point, row) = self.column(value);
        if point.ordered(row, point, row).is_none() {
            return Ok(None);
        }
        let mut memo = self.memo.borrow_mut();
        if memo.sorted.as_ref() != Some(&span) {
            for at in span.clone() {
                if items.is_null(at) {
                    return Err(NULL_BOUND.into());
                }
                // The first one has no other before it, but it may be a NaN.
                let before = at.saturating_sub(1).max(span.start);
                if items.ordered(before, items, at).is_none_or(Ordering::is_gt) {
                    return Err(UNSORTED_BOUNDS.into());
                }
            }
            memo.sorted = Some(span.clone());
        }
        let (mut low, mut high) = (span.start, span.end);
        while low < high {
            let middle = low.midpoint(high);
            match items.ordered(middle, point, row) {
                Some(Ordering::Greater) | None => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(Some(low - span.start))
    }
}
