//! Whether a condition holds for an answer, and which of its rows are sent.
//!
//! What cannot be decided is an error and never "no": a column that is not there, a value that is no number, an answer that
//! was cut where the rest would decide.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};
use tidegate_model::{Code, Condition, Failure, Subject};

/// The most rows that a message has, and the most bytes of them as JSON.
const SAMPLE_ROWS: usize = 5;
const SAMPLE_BYTES: usize = 16 << 10;

/// What was found in an answer.
#[derive(Debug)]
pub(super) struct Finding {
    /// Whether the condition holds.
    pub(super) holds: bool,
    /// The number of rows.
    pub(super) rows: usize,
    /// Whether there were more rows than the endpoint may answer.
    pub(super) truncated: bool,
    /// What was compared: the number of rows, or of the column the value that the condition holds for, else the first.
    pub(super) value: Option<Number>,
    /// The first rows, as JSON.
    pub(super) sample: Vec<Box<RawValue>>,
}

/// Evaluates a condition on an answer in NDJSON. `truncated` says that rows were left out of it.
///
/// # Errors
/// It cannot be decided.
pub(super) fn evaluate(condition: &Condition, body: &[u8], truncated: bool) -> Result<Finding, Failure> {
    let lost = |error: serde_json::Error| Failure::new(Code::Internal, format!("the answer cannot be read: {error}"));
    let (mut rows, mut holds, mut value) = (0, false, None);
    let (mut sample, mut bytes, mut is_cut) = (Vec::new(), 0, false);
    for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        rows += 1;
        if sample.len() < SAMPLE_ROWS && !is_cut {
            bytes += line.len();
            is_cut = bytes > SAMPLE_BYTES;
            if !is_cut {
                sample.push(serde_json::from_slice::<Box<RawValue>>(line).map_err(lost)?);
            }
        }
        if let Subject::Column(column) = &condition.subject
            && let Some(found) = number_of(line, column, rows)?
        {
            let is_first = !holds && condition.comparison.holds(compare(&found, condition.number));
            if value.is_none() || is_first {
                value = Some(found);
            }
            holds |= is_first;
        }
    }
    if condition.subject == Subject::Rows {
        value = Some(Number::from(rows));
        // Of an answer that was cut it is known that there is one more at least.
        let least = rows + usize::from(truncated);
        let order = compare(&Number::from(least), condition.number);
        holds = condition.comparison.holds(order);
        if truncated && order.is_le() {
            return Err(undecided(rows));
        }
    } else if truncated && !holds {
        return Err(undecided(rows));
    }
    Ok(Finding { holds, rows, truncated, value, sample })
}

fn undecided(rows: usize) -> Failure {
    let message = format!(
        "the answer was cut after {rows} rows, and the condition does not hold for these: raise max_limit, or let the query \
         count or select what the condition is about"
    );
    Failure::new(Code::LimitExceeded, message)
}

/// The number in a column of a row; none for NULL.
fn number_of(line: &[u8], column: &str, row: usize) -> Result<Option<Number>, Failure> {
    let wrong = |message: String| Failure::new(Code::InvalidValue, message).about(column);
    let fields: HashMap<String, &RawValue> = serde_json::from_slice(line)
        .map_err(|_| wrong(format!("row {row} of the answer is no object, so it has no column {column}")))?;
    let Some(value) = fields.get(column) else {
        return Err(wrong(format!("row {row} of the answer has no column {column}")));
    };
    match serde_json::from_str(value.get()) {
        Ok(Value::Null) => Ok(None),
        Ok(Value::Number(number)) => Ok(Some(number)),
        _ => Err(wrong(format!("in row {row} of the answer, {column} is no number"))),
    }
}

/// Compares exactly, also integers that `f64` cannot hold.
fn compare(value: &Number, with: f64) -> Ordering {
    let integer = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    let Some(integer) = integer else {
        return value.as_f64().and_then(|value| value.partial_cmp(&with)).unwrap_or(Ordering::Less);
    };
    #[expect(clippy::cast_possible_truncation, reason = "conditions have numbers up to 2^53")]
    let floor = with.floor() as i128;
    let has_fraction = with.fract() != 0.0;
    integer.cmp(&floor).then(if has_fraction { Ordering::Less } else { Ordering::Equal })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn found(condition: &str, body: &str, truncated: bool) -> Result<(bool, usize, Option<String>), String> {
        let condition = Condition::try_from(condition.to_owned()).unwrap();
        let found = evaluate(&condition, body.as_bytes(), truncated).map_err(|failure| failure.message)?;
        Ok((found.holds, found.rows, found.value.map(|value| value.to_string())))
    }

    #[test]
    fn rows_are_counted_and_columns_compared() {
        let rows = "{\"n\":1,\"t\":\"x\"}\n{\"n\":null}\n{\"n\":7}\n{\"n\":9}\n";
        for (condition, holds, value) in [
            ("rows > 3", true, "4"),
            ("rows = 4", true, "4"),
            ("rows != 4", false, "4"),
            ("n > 5", true, "7"),
            ("n >= 9", true, "9"),
            ("n > 9", false, "1"),
            ("n < 1", false, "1"),
            ("n <= 1.5", true, "1"),
            ("n != 1", true, "7"),
        ] {
            assert_eq!(found(condition, rows, false).unwrap(), (holds, 4, Some(value.to_owned())), "{condition}");
        }
        assert_eq!(found("n > 5", "", false).unwrap(), (false, 0, None), "no row is no reason to fire");
        assert_eq!(found("rows < 1", "", false).unwrap(), (true, 0, Some("0".to_owned())));
    }

    #[test]
    fn integers_are_compared_exactly() {
        let big = "{\"n\":9007199254740993}\n";
        assert!(found("n > 9007199254740992", big, false).unwrap().0);
        assert!(!found("n = 9007199254740992", big, false).unwrap().0);
        assert!(found("n < -1.5", "{\"n\":-2}\n", false).unwrap().0);
        assert!(!found("n < -1.5", "{\"n\":-1}\n", false).unwrap().0);
        assert!(found("n > 0", "{\"n\":18446744073709551615}\n", false).unwrap().0);
    }

    #[test]
    fn what_cannot_be_decided_is_an_error() {
        assert!(found("m > 1", "{\"n\":1}\n", false).unwrap_err().contains("no column m"));
        assert!(found("n > 1", "{\"n\":\"5\"}\n", false).unwrap_err().contains("no number"));
        assert!(found("n > 1", "5\n", false).unwrap_err().contains("no object"));
        assert!(found("n > 1", "{\"n\":1}\n", true).unwrap_err().contains("cut after 1 rows"));
        assert!(found("n > 1", "{\"n\":2}\n", true).unwrap().0);
        assert!(found("rows < 1", "{\"n\":2}\n", true).is_ok_and(|(holds, ..)| !holds));
        assert!(found("rows < 2", "{\"n\":2}\n", true).is_err());
    }

    #[test]
    fn few_rows_and_bytes_are_sent() {
        let condition = Condition::try_from("rows > 0".to_owned()).unwrap();
        let sample = |body: String| evaluate(&condition, body.as_bytes(), false).unwrap().sample.len();
        assert_eq!(sample("{\"n\":1}\n".repeat(9)), SAMPLE_ROWS);
        let long = format!("{{\"n\":\"{}\"}}\n", "x".repeat(SAMPLE_BYTES / 2));
        assert_eq!(sample(long.repeat(3)), 1);
        assert_eq!(sample(format!("{{\"n\":\"{}\"}}\n{{}}\n", "x".repeat(SAMPLE_BYTES))), 0);
    }
}
