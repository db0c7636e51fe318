//! JSON as people read it: what fits on a line stands on one, so that a row is a line; and what
//! differs between two values, line by line.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

/// Columns of a line, where it can be broken.
const WIDTH: usize = 160;
/// Lines that are the same, before and after those that differ.
const CONTEXT: usize = 3;
/// The most lines of a difference.
const MOST_LINES: usize = 200;

/// A value as text that begins in a line indented by `indent`, at column `column`; no newline at its
/// end.
pub(super) fn laid_out(value: &Value, indent: usize, column: usize) -> String {
    let mut out = String::new();
    write(value, 0, indent, column, &mut out);
    out
}

/// The same for the body of an answer: each of its rows begins a line, however few they are, so that a
/// change of one is a change of a line.
pub(super) fn rows_laid_out(body: &Value, indent: usize, column: usize) -> String {
    let has_rows = body.get("result").and_then(Value::as_array).is_some_and(|rows| !rows.is_empty());
    let mut out = String::new();
    write(body, if has_rows { 2 } else { 0 }, indent, column, &mut out);
    out
}

/// The first `broken` levels are broken into lines, even where they would fit on one.
fn write(value: &Value, broken: usize, indent: usize, column: usize, out: &mut String) {
    let line = on_a_line(value);
    let (open, close, items): (_, _, Vec<(Option<&str>, &Value)>) = match value {
        Value::Array(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
        Value::Object(fields) => ('{', '}', fields.iter().map(|(key, item)| (Some(key.as_str()), item)).collect()),
        _ => (' ', ' ', Vec::new()),
    };
    if items.is_empty() || broken == 0 && column + line.chars().count() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let inner = indent + 2;
    out.push(open);
    for (i, (key, item)) in items.into_iter().enumerate() {
        out.push_str(if i == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n(' ', inner));
        let key = key.map_or_else(String::new, |key| format!("{}: ", Value::from(key)));
        out.push_str(&key);
        write(item, broken.saturating_sub(1), inner, inner + key.chars().count(), out);
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(close);
}

/// The value on one line, with blanks after commas and colons.
fn on_a_line(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(on_a_line).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, item)| format!("{}: {}", Value::from(key.as_str()), on_a_line(item)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// What differs: lines of the expected value that are missing begin with `-`, lines of the actual one
/// that are too many with `+`. Empty if nothing does.
pub(super) fn difference(expected: &Value, actual: &Value, colour: bool) -> String {
    // An object around an array: its elements have lines of their own, so that only some of them differ.
    let [expected, actual] = [expected, actual].map(|value| {
        let mut text = String::new();
        write(value, 2, 0, 0, &mut text);
        text + "\n"
    });
    let diff = TextDiff::from_lines(&expected, &actual);
    let mut lines = Vec::new();
    for (i, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if i > 0 {
            lines.push("  ...".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, paint) = match change.tag() {
                ChangeTag::Equal => (' ', ""),
                ChangeTag::Delete => ('-', "\x1b[31m"),
                ChangeTag::Insert => ('+', "\x1b[32m"),
            };
            let line = change.value().trim_end_matches('\n');
            lines.push(match colour && !paint.is_empty() {
                true => format!("{paint}{sign} {line}\x1b[0m"),
                false => format!("{sign} {line}"),
            });
        }
    }
    let more = lines.len().saturating_sub(MOST_LINES);
    if more > 0 {
        lines.truncate(MOST_LINES);
        lines.push(format!("  ... {more} more lines"));
    }
    lines.join("\n")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(count: usize, change: impl Fn(usize) -> &'static str) -> Value {
        let row = |i| json!({"timestamp": format!("2026-01-31T12:{i:02}:00"), "event_message": change(i)});
        json!({"result": (0..count).map(row).collect::<Vec<_>>()})
    }

    #[test]
    fn a_row_is_a_line_and_the_text_is_the_value() {
        let value = rows(3, |_| "some message \u{1f980} \"quoted\"");
        let text = laid_out(&value, 2, 12);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(text.lines().count(), 7, "{text}");
        assert!(text.lines().nth(2).unwrap().starts_with("      {\"timestamp\": "), "{text}");
        assert!(text.ends_with("\n  }"), "{text}");
        for short in [json!([]), json!({}), json!(null), json!({"result": [{"a": 1}]})] {
            assert_eq!(laid_out(&short, 0, 0).lines().count(), 1);
        }
    }

    #[test]
    fn a_difference_shows_what_changed_and_little_else() {
        let before = rows(30, |_| "as ever and always");
        let after = rows(30, |i| if i == 4 || i == 25 { "changed" } else { "as ever and always" });
        let told = difference(&before, &after, false);
        let changed: Vec<&str> = told.lines().filter(|line| line.starts_with('+')).collect();
        assert_eq!(changed.len(), 2, "{told}");
        assert!(changed.iter().all(|line| line.contains("changed")), "{told}");
        assert_eq!(told.lines().filter(|line| line.starts_with('-')).count(), 2, "{told}");
        assert!(told.lines().any(|line| line == "  ...") && told.lines().count() < 25, "{told}");
        assert_eq!(difference(&before, &before, false), "");
        assert!(!told.contains('\x1b') && difference(&before, &after, true).contains("\x1b[32m+ "));
    }

    #[test]
    fn a_difference_has_an_end() {
        let told = difference(&rows(0, |_| ""), &rows(60 * 10, |_| "a message"), false);
        assert_eq!(told.lines().count(), MOST_LINES + 1);
        assert!(told.ends_with("more lines"), "{told}");
    }
}
