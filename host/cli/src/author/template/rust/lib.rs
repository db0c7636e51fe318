//! Counts requests by the first part of their path: /rest/v1/users is in the section "rest".

use std::collections::BTreeMap;

use tidegate_sdk::{Problem, Request, Response, Table, endpoint, statement};

fn handle(_: &Request) -> Result<Response, Problem> {
    // The parameters of the request are those of the statement, too.
    let mut rows = statement("default").run()?.rows();
    let path = rows.column::<str>("path")?;
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        *counts.entry(section(row.get(path).unwrap_or_default()).to_owned()).or_default() += 1;
    }
    let mut table = Table::new(["section", "requests"]);
    table.extend(counts);
    Response::table(table)
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
