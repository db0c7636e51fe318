//! Cases that are data: files of sections, each with lines of what is asked and what is expected of it.

use serde_json::Value;

/// What is asked and what is expected in the lines of a section.
pub(crate) fn text_cases(file: &'static str, section: &str) -> Vec<(&'static str, &'static str)> {
    let of_section = file.split("\n== ").find_map(|text| text.strip_prefix(section)?.strip_prefix('\n'));
    let lines = of_section.unwrap_or_else(|| panic!("there is no section {section}")).lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("# "));
    lines.map(|line| line.split_once(" ==> ").unwrap_or_else(|| panic!("{section}: {line}"))).collect()
}

/// The same where JSON is expected.
pub(crate) fn json_cases(file: &'static str, section: &str) -> Vec<(&'static str, Value)> {
    let read = |(asked, expected): (_, &str)| (asked, serde_json::from_str(expected).unwrap());
    text_cases(file, section).into_iter().map(read).collect()
}
