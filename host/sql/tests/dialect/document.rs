//! The document of the dialect, run: every row of its tables is an example that must give what
//! it says, and every function must be in it.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::super::support::World;

const DOCUMENT: &str = include_str!("../../../../docs/dialect.md");

/// A row of a table, with its line and the headings above it.
struct Row {
    line: usize,
    section: &'static str,
    cells: Vec<String>,
}

/// The cells of a line of a table; `\|` is a bar inside a cell.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut rest = line.trim().trim_start_matches('|').chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('\\', Some('|')) => cells.last_mut().unwrap().extend(rest.next()),
            ('|', _) => cells.push(String::new()),
            _ => cells.last_mut().unwrap().push(c),
        }
    }
    cells.pop();
    cells.into_iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The text of a cell that is code, between one or more backticks.
fn code(cell: &str) -> &str {
    let ticks = cell.len() - cell.trim_start_matches('`').len();
    cell.get(ticks..cell.len() - ticks).unwrap_or_else(|| panic!("{cell} is no code")).trim()
}

fn rows() -> Vec<Row> {
    let mut section = "";
    let mut rows = Vec::new();
    for (i, line) in DOCUMENT.lines().enumerate() {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        } else if line.starts_with('|') && !line.starts_with("| What") && !line.starts_with("|---") {
            rows.push(Row { line: i + 1, section, cells: cells(line) });
        }
    }
    rows
}

/// The functions that a row is about: `NAME()` in its first cell.
fn named(row: &Row) -> Vec<String> {
    row.cells[0].split('`').filter_map(|word| word.strip_suffix("()")).map(str::to_owned).collect()
}

fn run(world: &World, example: &str) -> Result<Json, tidegate_model::Failure> {
    let first = example.split([' ', '\n']).next().unwrap_or_default().to_uppercase();
    if matches!(first.as_str(), "SELECT" | "WITH" | "FROM") {
        return world.attempt(example);
    }
    Ok(world.attempt(&format!("SELECT {example} AS v"))?[0]["v"].clone())
}

#[test]
fn every_example_gives_what_the_document_says() {
    let world = World::new();
    let mut wrong = Vec::new();
    for row in rows() {
        let [_, example, expected, ..] = row.cells.as_slice() else { panic!("line {} lacks a cell", row.line) };
        let complaint = match (row.section, run(&world, code(example))) {
            ("Refused", Err(failure)) if failure.to_string().contains(expected.as_str()) => continue,
            ("Runs" | "Differs", Ok(value))
                if serde_json::from_str::<Json>(code(expected)).ok().as_ref() == Some(&value) =>
            {
                continue;
            }
            ("Runs" | "Differs" | "Refused", Ok(value)) => format!("gives `{value}`"),
            ("Runs" | "Differs" | "Refused", Err(failure)) => format!("fails: {failure}"),
            (section, _) => format!("stands under {section}; rows stand under Runs, Differs or Refused"),
        };
        wrong.push(format!("line {}: {example} {complaint}", row.line));
    }
    assert!(wrong.is_empty(), "docs/dialect.md:\n{}", wrong.join("\n"));
}

#[test]
fn every_function_is_in_the_document_and_the_document_names_no_other() {
    let known: BTreeSet<String> = tidegate_sql::functions().into_iter().map(str::to_owned).collect();
    let rows = rows();
    let written: BTreeSet<String> = rows.iter().flat_map(named).collect();
    let missing: Vec<_> = known.difference(&written).collect();
    assert!(missing.is_empty(), "docs/dialect.md lacks {missing:?}");
    for row in rows.iter().filter(|row| row.section != "Refused") {
        for name in named(row) {
            assert!(known.contains(&name), "line {} of docs/dialect.md: there is no {name}", row.line);
        }
    }
}

#[test]
fn bars_in_cells_are_read() {
    assert_eq!(cells(r"| a | `x \|\| y` | `1` |"), ["a", "`x || y`", "`1`"]);
    assert_eq!(code("`` `a` ``"), "`a`");
}
