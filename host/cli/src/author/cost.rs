//! The report of what requests cost, against what they might have used.

use std::fmt::Write as _;

use tidegate_model::number;
use tidegate_service::workbench::Outcome;

const HEAD: [&str; 8] =
    ["case", "instructions", "memory", "host calls", "statements", "rows read", "bytes read", "rows answered"];

/// A table with a line for each case.
pub(super) fn report(cases: &[(String, Outcome)]) -> String {
    let mut table = vec![HEAD.map(str::to_owned)];
    for (name, outcome) in cases {
        let (cost, limits) = (&outcome.cost, &outcome.limits);
        table.push([
            name.clone(),
            grouped(cost.instructions),
            of_limit(bytes(cost.guest_memory), cost.guest_memory, number(limits.guest_memory)),
            of_limit(grouped(cost.host_calls), cost.host_calls, limits.host_calls),
            of_limit(grouped(cost.statements), cost.statements, limits.statements.into()),
            of_limit(grouped(cost.guest_rows), cost.guest_rows, limits.guest_rows),
            of_limit(bytes(cost.guest_bytes), cost.guest_bytes, number(limits.guest_bytes)),
            of_limit(grouped(cost.answer_rows), cost.answer_rows, number(limits.rows)),
        ]);
    }
    let width = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for row in &table {
        let mut line = String::from("  ");
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let _ = if i == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    if let Some((_, outcome)) = cases.first() {
        let _ = writeln!(
            out,
            "  percent: of the limit of a request, as a server has it that nobody has configured, or of the endpoint's own; \
             instructions have none, but their time has: {} s",
            outcome.limits.cpu.as_secs_f64()
        );
    }
    out
}

fn of_limit(shown: String, used: u64, limit: u64) -> String {
    let percent = used as f64 * 100.0 / limit.max(1) as f64;
    match used {
        0 => shown,
        _ if percent < 0.1 => format!("{shown} (<0.1%)"),
        _ if percent < 10.0 => format!("{shown} ({percent:.1}%)"),
        _ => format!("{shown} ({percent:.0}%)"),
    }
}

/// A number with commas between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in the largest unit of which there is at least one.
pub(super) fn bytes(number: u64) -> String {
    match number {
        0..1024 => format!("{number} B"),
        1024..0x10_0000 => format!("{:.0} KiB", number as f64 / 1024.0),
        _ => format!("{:.1} MiB", number as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 65_536, 3 << 19].map(bytes), ["0 B", "1023 B", "64 KiB", "1.5 MiB"]);
        assert_eq!(of_limit("0".into(), 0, 10), "0");
        assert_eq!(of_limit("1".into(), 1, 10_000), "1 (<0.1%)");
        assert_eq!(of_limit("1".into(), 1, 32), "1 (3.1%)");
        assert_eq!(of_limit("500".into(), 500, 1000), "500 (50%)");
    }
}
