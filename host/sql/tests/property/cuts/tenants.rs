//! Which of the random rows are a tenant's, worked out from the events alone.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use serde_json::Value as Json;
use tidegate_model::RowPolicy;

/// The tenants: the path of the key, and a value that some rows have there.
const TENANTS: [(&str, &str); 6] = [
    ("project", "p1"),
    ("metadata.o.x", "1"),
    ("metadata.web.url", "GET 1"),
    ("metadata.status", "404"),
    ("late", "a"),
    ("n", "20"),
];

/// A tenant, and a table of its rows alone.
#[derive(Debug)]
pub(super) struct Tenant {
    pub(super) policy: RowPolicy,
    pub(super) rows: Arc<dyn TableProvider>,
}

/// The tenants of a table, whose rows were made of these events.
pub(super) async fn tenants(table: &Arc<dyn TableProvider>, events: &[Json]) -> Vec<Tenant> {
    let context = SessionContext::new();
    let scan = table.scan(&context.state(), None, &[], None).await.unwrap();
    let batches = collect(scan, context.task_ctx()).await.unwrap();
    let mut tenants = Vec::new();
    for (path, value) in TENANTS {
        let names: Vec<&str> = path.split('.').collect();
        let own = events.iter().filter(|event| found(event, &names) == Found::One(value.to_owned()));
        let own: HashSet<&str> = own.map(|event| event["id"].as_str().unwrap()).collect();
        let mut kept = Vec::new();
        for batch in &batches {
            let ids = cast(batch.column_by_name("id").unwrap(), &DataType::Utf8).unwrap();
            let mask: BooleanArray = ids.as_string::<i32>().iter().map(|id| id.map(|id| own.contains(id))).collect();
            kept.push(filter_record_batch(batch, &mask).unwrap());
        }
        assert_eq!(kept.iter().map(|batch| batch.num_rows()).sum::<usize>(), own.len(), "ids are not unique");
        let rows = Arc::new(MemTable::try_new(table.schema(), vec![kept]).unwrap());
        let policy = RowPolicy { values: vec![(path.parse().unwrap(), value.to_owned())] };
        tenants.push(Tenant { policy, rows });
    }
    tenants
}

#[derive(Debug, Clone, PartialEq)]
enum Found {
    Nothing,
    One(String),
    Nobody,
}

/// What stands at a path of an event: of lists of records, what all that have it agree on.
fn found(event: &Json, names: &[&str]) -> Found {
    match (event, names) {
        (Json::Null, _) => Found::Nothing,
        (Json::String(text), []) => Found::One(text.clone()),
        (Json::Bool(_), []) => Found::One(event.to_string()),
        (Json::Number(number), []) if number.is_i64() => Found::One(number.to_string()),
        (_, []) => Found::Nobody,
        (Json::Object(fields), [name, rest @ ..]) => {
            fields.get(*name).map_or(Found::Nothing, |field| found(field, rest))
        }
        (Json::Array(items), _) => {
            let there = items.iter().map(|item| found(item, names)).filter(|found| *found != Found::Nothing);
            there.reduce(|one, other| if one == other { one } else { Found::Nobody }).unwrap_or(Found::Nothing)
        }
        _ => Found::Nothing,
    }
}
