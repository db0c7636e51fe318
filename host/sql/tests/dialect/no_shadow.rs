//! What also runs the statements of the tests elsewhere: here nothing does. The crate `tidegate-cluster` has the same tests
//! with a shadow that cuts them.

use serde_json::Value as Json;
use tidegate_model::Arguments;
use tidegate_sql::Tables;

#[derive(Debug, Default)]
pub(crate) struct Shadow {}

impl Shadow {
    pub(crate) fn source(&mut self, _name: &str, _rows: &[Json]) {}
    pub(crate) fn endpoint(&mut self, _name: &str, _saved: &str) {}
    pub(crate) fn without(&mut self) {}
    pub(crate) fn compare(&self, _sql: &str, _tables: Tables<'_>, _arguments: &Arguments, _now: i64) {}
}
