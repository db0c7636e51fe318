//! Times of a whole batch at once: cutting to a unit, and moving between UTC and UTC. Nearly every chart groups by such
//! a time, and a row at a time it takes longer than all the rest of the query.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::logical_expr::ColumnarValue;

use super::calendar::Part;
use super::zone::Zone;
use crate::rows::MOMENTS;

/// `floor_time` for a constant unit of at most a day.
pub(super) fn floored(arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    let [part, times] = arguments else { return None };
    let Part::Micros(unit) = Part::read(constant(part)?)? else { return None };
    let times = moments(times)?;
    let mut start = 0_i64;
    let floor = |time: &i64| {
        // Rows are mostly ordered by time, so that the unit is mostly that of the row before.
        if !(0..unit).contains(&time.wrapping_sub(start)) {
            start = time.div_euclid(unit) * unit;
        }
        start
    };
    let floored: Vec<i64> = times.values().iter().map(floor).collect();
    Some(Arc::new(TimestampMicrosecondArray::new(floored.into(), times.nulls().cloned())))
}

/// `zone_local` and `zone_instant` for UTC.
pub(super) fn unmoved(arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    let [times, zone] = arguments else { return None };
    if !Zone::read(constant(zone)?).ok()?.is_utc() {
        return None;
    }
    Some(Arc::new(moments(times)?.clone()))
}

fn constant(argument: &ColumnarValue) -> Option<&str> {
    match argument {
        ColumnarValue::Scalar(scalar) => scalar.try_as_str().flatten(),
        ColumnarValue::Array(_) => None,
    }
}

/// The times of an argument, if all are within the bounds of the type. So are then the starts of their units.
fn moments(argument: &ColumnarValue) -> Option<&TimestampMicrosecondArray> {
    let ColumnarValue::Array(times) = argument else { return None };
    if *times.data_type() != DataType::Timestamp(TimeUnit::Microsecond, None) {
        return None;
    }
    let times = times.as_primitive::<TimestampMicrosecondType>();
    // Without a branch for each row. What is below NULL counts too: then each row is looked at by itself.
    let (low, high) = times.values().iter().fold((0, 0), |(low, high), time| (low.min(*time), high.max(*time)));
    (*MOMENTS.start() <= low && high <= *MOMENTS.end()).then_some(times)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::scalar::ScalarValue;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8View(Some(text.to_owned())))
    }

    fn times(times: &[Option<i64>]) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(TimestampMicrosecondArray::from(times.to_vec())))
    }

    #[test]
    fn units_are_cut_like_row_by_row() {
        let given = [-1, 0, 59_999_999, 60_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999, 61_000_000, 5];
        let given: Vec<Option<i64>> = given.map(Some).into_iter().chain([None]).collect();
        for name in ["MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY"] {
            let cut = floored(&[text(name), times(&given)]).unwrap();
            let part = Part::read(name).unwrap();
            let expected: Vec<_> = given.iter().map(|time| time.and_then(|time| part.floor(time))).collect();
            assert_eq!(cut.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>(), expected, "{name}");
        }
        assert!(floored(&[text("MONTH"), times(&given)]).is_none());
        assert!(floored(&[text("DAY"), times(&[Some(i64::MAX)])]).is_none());
        assert!(floored(&[text("nothing"), times(&given)]).is_none());
    }

    #[test]
    fn utc_is_not_moved() {
        let given = times(&[Some(1), None]);
        for (zone, unchanged) in [("UTC", true), ("Z", true), ("+00:00", true), ("Europe/Berlin", false), ("?", false)]
        {
            assert_eq!(unmoved(&[given.clone(), text(zone)]).is_some(), unchanged, "{zone}");
        }
        assert!(unmoved(&[times(&[Some(i64::MIN)]), text("UTC")]).is_none());
    }
}
