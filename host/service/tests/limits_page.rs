//! `docs/limits.md` against the tables of settings, so that it says what holds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use std::collections::BTreeSet;

use tidegate_model::{Access, LIMITS, LimitSet, Limits};
use tidegate_service::Options;
use tidegate_service::settings::SECTIONS;

const PAGE: &str = include_str!("../../../docs/limits.md");

/// The rows of the table below a headline, without its head, each as its cells.
fn table(headline: &str) -> Vec<Vec<&'static str>> {
    let (_, below) = PAGE.split_once(&format!("## {headline}\n")).unwrap();
    let lines = below.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect();
    lines.skip(2).map(cells).collect()
}

/// The codes of failures that a cell names with a status: `504 `timeout``.
fn are_true(when: &str) {
    let codes = [
        ("422", "limit_exceeded"),
        ("422", "refused"),
        ("413", "too_large"),
        ("504", "timeout"),
        ("503", "overloaded"),
        ("429", "too_many_requests"),
    ];
    let words: Vec<&str> = when.split([' ', ',', ';']).collect();
    for pair in words.windows(2) {
        let &[status, code] = pair else { unreachable!("windows of two") };
        if status.len() == 3 && status.parse::<u16>().is_ok() {
            assert!(codes.contains(&(status, code.trim_matches('`'))), "{when}");
        }
    }
    assert!(!when.is_empty());
}

#[test]
fn every_limit_of_a_request_is_told_as_it_is() {
    let rows = table("Of one request");
    let settable: BTreeSet<&str> = LimitSet::names().collect();
    assert_eq!(rows.len(), LIMITS.len());
    for (row, setting) in rows.iter().zip(LIMITS) {
        let Access::Number { unit, least, most, .. } = setting.access else { unreachable!("limits are numbers") };
        let &[name, what, default, bounds, lowered, when] = row.as_slice() else { panic!("{row:?} has other cells") };
        assert_eq!(name, format!("`{}`", setting.name));
        assert_eq!(what, setting.what, "{name}");
        assert_eq!(default, setting.show(&Limits::default()), "{name}");
        assert_eq!(bounds, format!("{} to {}", unit.show(least), unit.show(most)), "{name}");
        let by = if settable.contains(setting.name) { "endpoint, token" } else { "" };
        assert_eq!(lowered, by, "{name}");
        are_true(when);
    }
}

#[test]
fn every_limit_of_all_requests_is_told_as_it_is() {
    let rows = table("Of all requests together");
    let told: BTreeSet<&str> = rows.iter().filter_map(|row| row.first().copied()).collect();
    for section in SECTIONS.iter().filter(|section| ["admission", "components"].contains(&section.name())) {
        for name in section.settings() {
            assert!(told.contains(format!("`[{}] {name}`", section.name()).as_str()), "{name} is not told");
        }
    }
    for row in &rows {
        let &[name, what, default, bounds, when] = row.as_slice() else { panic!("{row:?} has other cells") };
        let (of, setting) = name.trim_matches('`').split_once(' ').unwrap();
        let section = SECTIONS.iter().find(|section| format!("[{}]", section.name()) == of).unwrap();
        let defaults = Options::default();
        assert_eq!(default, section.show(&defaults, setting).unwrap(), "{name}");
        let told = section.tell(&defaults, setting).unwrap();
        assert_eq!(told, format!("{what}; default {default}, from {bounds}"), "{name}");
        are_true(when);
    }
}
