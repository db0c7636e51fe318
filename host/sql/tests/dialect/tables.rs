//! Cases that are data: files of sections, each with lines of what is asked and what is expected of it.

use serde_json::Value;

/// What is asked and what is expected in the lines of a section.
pub(crate) fn text_cases(file: &'static str, section: &str) -> Vec<(&'static str, &'static str)> {
    let mut of_section = file.split("\n== ").filter_map(|text| text.strip_prefix(section)?.strip_prefix('\n'));
    let lines = of_section.next().unwrap_or_else(|| panic!("there is no section {section}")).lines();
    assert!(of_section.next().is_none(), "there are two sections {section}");
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("# "));
    let cases = lines.map(|line| line.split_once(" ==> ").unwrap_or_else(|| panic!("{section}: {line}")));
    let cases: Vec<_> = cases.collect();
    assert!(!cases.is_empty(), "the section {section} is empty");
    cases
}

/// The same where JSON is expected.
pub(crate) fn json_cases(file: &'static str, section: &str) -> Vec<(&'static str, Value)> {
    let read = |(asked, expected): (_, &str)| (asked, serde_json::from_str(expected).unwrap());
    text_cases(file, section).into_iter().map(read).collect()
}
