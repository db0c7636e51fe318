//! Which columns of its queries a set operation puts together.

use std::collections::{HashMap, HashSet};

use sqlparser::ast::SetOperator;
use tidegate_functions::context::planning;
use tidegate_model::{Code, Failure, Position};

use crate::fail::{Result, fail, invalid, place_of};
use crate::resolve::resolved::{Resolved, Row};
use crate::text::{Matching, MatchingMode};

/// A column of the result of a set operation.
pub(super) struct OutputColumn {
    pub(super) name: String,
    pub(super) written: Option<String>,
    /// Which column of each query it has; none where the query has none, and the values are NULL.
    pub(super) from: Vec<Option<usize>>,
}

/// Columns at the same places.
///
/// # Errors
/// If the queries have different numbers of columns.
pub(super) fn by_place(queries: &[Resolved], op: SetOperator, at: Option<Position>) -> Result<Vec<OutputColumn>> {
    let Some(first) = queries.first() else { return Ok(Vec::new()) };
    let width = first.columns.len();
    if let Some(other) = queries.iter().find(|other| other.columns.len() != width) {
        let message = format!("the queries of the {op} have {width} and {} columns", other.columns.len());
        return Err(invalid(message, at));
    }
    let columns = first.columns.iter().enumerate().map(|(place, column)| OutputColumn {
        name: column.name.clone(),
        written: column.written.clone(),
        from: vec![Some(place); queries.len()],
    });
    Ok(columns.collect())
}

/// Columns of the same names, in any case.
///
/// # Errors
/// If a name is missing where it must be, is there twice, or a query has a column without a name that would be lost.
pub(super) fn by_name(
    queries: &[Resolved],
    matching: &Matching,
    op: SetOperator,
    at: Option<Position>,
) -> Result<Vec<OutputColumn>> {
    let Matching { mode, columns } = matching;
    if queries.iter().any(|query| query.row != Row::Columns) {
        return Err(invalid(format!("{op} BY NAME takes no SELECT AS STRUCT or AS VALUE"), at));
    }
    let places: Vec<Places> = queries.iter().map(places).collect();
    let from = |name: &str, at| -> Result<Vec<Option<usize>>> {
        // One for each query: n queries with a column each have n * n.
        planning::charge(places.len() * size_of::<Option<usize>>());
        planning::check()?;
        places.iter().map(|places| place_of_name(places, name, op, at)).collect()
    };
    let mut outputs: Vec<OutputColumn> = Vec::new();
    if let Some(columns) = columns {
        let mut listed = HashSet::new();
        for column in columns {
            let (name, at) = (&column.value, place_of(column.span));
            if !listed.insert(name.to_lowercase()) {
                return Err(invalid(format!("the column {name} is listed twice"), at));
            }
            let from = from(name, at)?;
            let must_have = match mode {
                MatchingMode::Strict | MatchingMode::Inner => from.as_slice(),
                MatchingMode::Left => from.get(..1).unwrap_or_default(),
                MatchingMode::Full => &[],
            };
            if must_have.contains(&None) || from.iter().all(Option::is_none) {
                return Err(unmatched(name, op, at));
            }
            outputs.push(OutputColumn { name: name.clone(), written: Some(name.clone()), from });
        }
        let is_listed = |name: &Option<String>| name.as_ref().is_some_and(|name| listed.contains(&name.to_lowercase()));
        let mut all = queries.iter().flat_map(|query| &query.columns);
        if *mode == MatchingMode::Strict
            && let Some(other) = all.find(|column| !is_listed(&column.written))
        {
            let message =
                format!("the column {} of the {op} BY NAME is not listed; INNER leaves such columns out", other.name);
            return Err(invalid(message, at).about(&other.name));
        }
        return Ok(outputs);
    }
    if queries.iter().flat_map(|query| &query.columns).any(|column| column.written.is_none()) {
        return Err(invalid(format!("a column of the {op} BY NAME has no name; write AS name"), at));
    }
    // Strict takes all, to find those that are missing in one of them.
    let sources = match mode {
        MatchingMode::Full | MatchingMode::Strict => queries,
        MatchingMode::Inner | MatchingMode::Left => queries.get(..1).unwrap_or_default(),
    };
    let mut seen = HashSet::new();
    for name in sources.iter().flat_map(|query| &query.columns).filter_map(|column| column.written.as_ref()) {
        if !seen.insert(name.to_lowercase()) {
            continue;
        }
        let from = from(name, at)?;
        match mode {
            MatchingMode::Inner if from.contains(&None) => continue,
            MatchingMode::Strict if from.contains(&None) => return Err(unmatched(name, op, at)),
            _ => outputs.push(OutputColumn { name: name.clone(), written: Some(name.clone()), from }),
        }
    }
    // Of a query that has none of the columns nothing would be left.
    let nothing = |query: usize| !outputs.iter().any(|output| output.from.get(query).is_some_and(Option::is_some));
    if outputs.is_empty() || *mode == MatchingMode::Left && (0..queries.len()).any(nothing) {
        return Err(invalid(format!("the queries of the {op} BY NAME have no column in common"), at));
    }
    Ok(outputs)
}

/// The places of a query's columns by their names in lower case; none of a name that is there twice.
type Places = HashMap<String, Option<usize>>;

fn places(query: &Resolved) -> Places {
    let mut places = Places::new();
    for (place, column) in query.columns.iter().enumerate() {
        if let Some(name) = &column.written {
            places.entry(name.to_lowercase()).and_modify(|known| *known = None).or_insert(Some(place));
        }
    }
    places
}

/// Which column of a query has a name.
fn place_of_name(places: &Places, name: &str, op: SetOperator, at: Option<Position>) -> Result<Option<usize>> {
    match places.get(&name.to_lowercase()) {
        Some(None) => {
            Err(invalid(format!("a query of the {op} has two columns {name}, so none can be found by its name"), at))
        }
        Some(Some(place)) => Ok(Some(*place)),
        None => Ok(None),
    }
}

fn unmatched(name: &str, op: SetOperator, at: Option<Position>) -> Failure {
    let message = format!(
        "the column {name} is not in each query of the {op} BY NAME; FULL before the {op} fills in NULL, INNER leaves such columns out"
    );
    fail(Code::UnknownColumn, message, at).about(name)
}
