//! The share of failed requests by method: what a statement cannot do in one pass stays small here,
//! but it shows all of the contract that an endpoint with code needs.

use std::collections::BTreeMap;

use tidegate_sdk::{Problem, Request, Response, Table, endpoint, statement};

#[derive(Default)]
struct Count {
    requests: i64,
    errors: i64,
}

fn handle(_: &Request) -> Result<Response, Problem> {
    let mut rows = statement("default").run()?.rows();
    let (method, status) = (rows.column::<str>("method")?, rows.column::<i64>("status")?);
    let mut counts: BTreeMap<Option<String>, Count> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let count = counts.entry(row.get(method).map(str::to_owned)).or_default();
        count.requests += 1;
        count.errors += i64::from(row.get(status).is_some_and(|status| status >= 500));
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| -count.requests);

    let mut table = Table::new(["method", "requests", "errors", "error_share"]);
    for (method, Count { requests, errors }) in counts {
        table.push((method, requests, errors, errors as f64 / requests as f64));
    }
    Response::table(table)
}

endpoint!(handle);
