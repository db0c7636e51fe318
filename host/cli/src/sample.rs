//! stub
pub(crate) fn source_names() -> [&'static str; 0] { [] }
pub(crate) fn events(_: &str, _: usize, _: i64, _: std::time::Duration, _: u64) -> impl Iterator<Item = serde_json::Value> { std::iter::empty() }
