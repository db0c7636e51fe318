//! Times of senders who count in nanoseconds.

use serde_json::Value;

/// The smallest number that the store reads as nanoseconds, in 1973. It reads smaller numbers in another unit.
const PLAIN_NANOS: i64 = 100_000_000_000_000_000;

/// The smallest number that the store reads as microseconds.
const PLAIN_MICROS: i64 = 100_000_000_000_000;

/// A time in nanoseconds since 1970 as the store reads it. Nanoseconds decide which of two events of one microsecond comes
/// first, so they are handed on where the store reads them, up to the year 2262.
pub(crate) fn of_nanos(nanos: i128) -> Option<Value> {
    if let Ok(nanos) = i64::try_from(nanos) {
        return Some(match nanos {
            PLAIN_NANOS.. => Value::from(nanos),
            // The store would read a number this small in another unit, so the time is written as text.
            _ => Value::String(chrono::DateTime::from_timestamp_nanos(nanos).to_rfc3339()),
        });
    }
    let micros = i64::try_from(nanos.div_euclid(1000)).ok()?;
    if micros >= PLAIN_MICROS {
        return Some(Value::from(micros));
    }
    Some(Value::String(chrono::DateTime::from_timestamp_micros(micros)?.to_rfc3339()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nanoseconds_are_read_in_every_magnitude() {
        assert_eq!(of_nanos(1_763_633_702_123_456_789), Some(json!(1_763_633_702_123_456_789_u64)));
        assert_eq!(of_nanos(1_000_001), Some(json!("1970-01-01T00:00:00.001000001+00:00")));
        assert_eq!(of_nanos(-1_000_000_000), Some(json!("1969-12-31T23:59:59+00:00")));
        assert_eq!(of_nanos(i128::from(u64::MAX)), Some(json!(u64::MAX / 1000)));
        assert_eq!(of_nanos(i128::from(i64::MIN) - 1), Some(json!("1677-09-21T00:12:43.145224+00:00")));
        assert_eq!(of_nanos(i128::MAX), None);
    }
}
