//! Counts requests by the first part of their path: /rest/v1/users is in the section "rest".

use std::collections::BTreeMap;

use tidegate_sdk::{Kind, Problem, Request, Response, Table, Value, batches, endpoint, run};

/// Rows that are held at once.
const BATCH_ROWS: u32 = 8192;

/// The column of the statement.
const PATH: usize = 0;

fn handle(_: &Request) -> Result<Response, Problem> {
    // The parameters of the request are those of the statement, too.
    let requests = run("default", &[])?;
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for batch in batches(&requests, BATCH_ROWS) {
        let batch = batch?;
        for row in 0..usize::try_from(batch.rows).unwrap_or(0) {
            let path = batch.text(PATH, row).unwrap_or_default();
            *counts.entry(section(path).to_owned()).or_default() += 1;
        }
    }
    let mut table = Table::new(&[("section", Kind::Text), ("requests", Kind::Int64)]);
    for (section, requests) in counts {
        table.push([Value::Text(section), Value::Int64(requests)])?;
    }
    Ok(Response::rows(table.finish()?))
}

/// The first part of a path; empty for the root.
fn section(path: &str) -> &str {
    path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default()
}

endpoint!(handle);

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn the_section_is_the_first_part_of_the_path() {
        assert_eq!(section("/rest/v1/users?id=1"), "rest");
        assert_eq!(section("/auth?next=/rest"), "auth");
        assert_eq!(section("/"), "");
    }
}
