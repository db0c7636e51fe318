//! The share of failed requests by method: what a statement cannot do in one pass stays small here,
//! but it shows all of the contract that an endpoint with code needs.

use std::collections::BTreeMap;

use tidegate_sdk::{Kind, Problem, Request, Response, Table, Value, batches, endpoint, run};

/// Rows that enter the guest at once.
const BATCH_ROWS: u32 = 8192;

/// Columns of the statement.
const METHOD: usize = 0;
const STATUS: usize = 1;

#[derive(Default)]
struct Count {
    requests: i64,
    errors: i64,
}

fn handle(_: &Request) -> Result<Response, Problem> {
    let requests = run("default", &[])?;
    let mut counts: BTreeMap<Option<String>, Count> = BTreeMap::new();
    for batch in batches(&requests, BATCH_ROWS) {
        let batch = batch?;
        for row in 0..usize::try_from(batch.rows).unwrap_or(0) {
            let count = counts.entry(batch.text(METHOD, row).map(str::to_owned)).or_default();
            count.requests += 1;
            count.errors += i64::from(batch.int64(STATUS, row).is_some_and(|status| status >= 500));
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| -count.requests);

    let columns =
        [("method", Kind::Text), ("requests", Kind::Int64), ("errors", Kind::Int64), ("error_share", Kind::Float64)];
    let mut table = Table::new(&columns);
    for (method, Count { requests, errors }) in counts {
        let share = errors as f64 / requests as f64;
        let method = method.map_or(Value::Null, Value::Text);
        table.push([method, Value::Int64(requests), Value::Int64(errors), Value::Float64(share)])?;
    }
    Ok(Response::rows(table.finish()?))
}

endpoint!(handle);
