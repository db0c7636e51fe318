//! Times of a whole batch at once: cutting to a unit, and moving between UTC and UTC. Nearly every chart groups by such
//! a time, and a row at a time it takes longer than all the rest of the query.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::binary;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::scalar::ScalarValue;

use super::calendar::Part;
use super::zone::Zone;
use crate::arrays::arity;
use crate::rows::MOMENTS;

/// `floor_time` for a constant part, where no time is outside the bounds of the type, nor begins its part outside them.
pub(super) fn floored(arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    let [part, times] = arguments else { return None };
    let part = Part::read(constant(part)?)?;
    let times = moments(times)?;
    if let Part::Micros(unit) = part {
        return Some(floored_to(unit, times));
    }
    let mut held = 0..0;
    let floor = |time: &i64| {
        // Rows are mostly ordered by time, so that the part is mostly that of the row before.
        if !held.contains(time) {
            let index = part.index(*time)?;
            held = part.start(index)?..part.start(index + 1)?;
        }
        (held.start >= *MOMENTS.start()).then_some(held.start)
    };
    let floored: Vec<i64> = times.values().iter().map(floor).collect::<Option<_>>()?;
    Some(Arc::new(TimestampMicrosecondArray::new(floored.into(), times.nulls().cloned())))
}

/// `floor_to_unit` for a constant unit.
pub(super) fn floored_to_unit(arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    let [ColumnarValue::Scalar(ScalarValue::Int64(Some(unit))), ColumnarValue::Array(times)] = arguments else {
        return None;
    };
    Some(floored_to(*unit, times.as_primitive_opt()?))
}

/// `floor_to_unit` for any arguments.
pub(super) fn floored_to_units(arguments: &[ArrayRef], _: bool) -> Result<ArrayRef> {
    let [units, times] = arguments else { return Err(arity()) };
    let (units, times) = (units.as_primitive_opt::<Int64Type>(), times.as_primitive_opt::<TimestampMicrosecondType>());
    let (Some(units), Some(times)) = (units, times) else { return internal_err!("floor_to_unit takes microseconds") };
    let floored: TimestampMicrosecondArray = binary(units, times, |unit, time| start_of(unit.max(1), time))?;
    Ok(Arc::new(floored))
}

fn floored_to(unit: i64, times: &TimestampMicrosecondArray) -> ArrayRef {
    let unit = unit.max(1);
    let mut start = 0_i64;
    let floor = |time: &i64| {
        if !(0..unit).contains(&time.wrapping_sub(start)) {
            start = start_of(unit, *time);
        }
        start
    };
    let floored: Vec<i64> = times.values().iter().map(floor).collect();
    Arc::new(TimestampMicrosecondArray::new(floored.into(), times.nulls().cloned()))
}

/// The first microsecond of the unit of a time; another one for what begins before the first that there is.
fn start_of(unit: i64, time: i64) -> i64 {
    time.div_euclid(unit).wrapping_mul(unit)
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
        let values = |cut: &ArrayRef| cut.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>();
        for name in [
            "MICROSECOND",
            "MILLISECOND",
            "SECOND",
            "MINUTE",
            "HOUR",
            "DAY",
            "WEEK(MONDAY)",
            "MONTH",
            "QUARTER",
            "YEAR",
            "ISOYEAR",
        ] {
            let cut = floored(&[text(name), times(&given)]).unwrap();
            let part = Part::read(name).unwrap();
            let expected: Vec<_> = given.iter().map(|time| time.and_then(|time| part.floor(time))).collect();
            assert_eq!(values(&cut), expected, "{name}");
            let Part::Micros(unit) = part else { continue };
            let literal = ColumnarValue::Scalar(ScalarValue::from(unit));
            assert_eq!(values(&floored_to_unit(&[literal.clone(), times(&given)]).unwrap()), expected, "{name}");
            let arrays = [literal, times(&given)].map(|argument| argument.to_array(given.len()).unwrap());
            assert_eq!(values(&floored_to_units(&arrays, false).unwrap()), expected, "{name}");
        }
        // The week of the first day begins before it.
        assert!(floored(&[text("WEEK"), times(&given)]).is_none());
        let far = times(&[Some(i64::MIN), Some(i64::MAX)]);
        assert!(floored_to_unit(&[ColumnarValue::Scalar(ScalarValue::from(7_i64)), far]).is_some());
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
