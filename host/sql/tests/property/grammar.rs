//! What is generated: records, and statements with their text.

use std::fmt;

use serde_json::{Map, Value as Json, json};

use super::tape::Tape;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Text,
    Bool,
}

/// An UNNEST after the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `UNNEST(t.m) AS m1`, a record.
    Record,
    /// `UNNEST(m1.o) AS o1`, a record in a record.
    Inner,
    /// `UNNEST(m1.tags) AS tag`, a list of numbers.
    Tags,
    /// `UNNEST(m1.items) AS it`, a list of records.
    Items,
}

#[derive(Debug, Clone)]
pub(crate) struct From {
    /// Each with whether it is a LEFT JOIN.
    pub(crate) steps: Vec<(Step, bool)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Null,
    Int(i64),
    Text(&'static str),
    Path(&'static str),
    Add(Box<Expr>, Box<Expr>),
    Concat(Box<Expr>, Box<Expr>),
    Upper(Box<Expr>),
    Coalesce(Box<Expr>, Box<Expr>),
    Case(Box<Expr>, Box<Expr>, Box<Expr>),
    Compare(&'static str, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    In(Box<Expr>, Vec<Expr>, bool),
    IsNull(Box<Expr>, bool),
    Like(Box<Expr>, &'static str, bool),
    Between(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `EXISTS (SELECT 1 FROM UNNEST(t.m) AS q WHERE ...)`
    Exists(Box<Expr>),
    /// `COALESCE(... IN (SELECT q.a FROM UNNEST(t.m) AS q), FALSE)`: see `known_divergences`.
    InRecord(Box<Expr>),
    /// `(SELECT q.a FROM UNNEST(t.m) AS q WHERE ...)`
    Scalar(Box<Expr>),
    /// `COALESCE(... IN UNNEST(m1.tags), FALSE)`: see `known_divergences`.
    InTags(Box<Expr>),
}

#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) distinct: bool,
    /// The values of `c0`, `c1`, ...
    pub(crate) values: Vec<Expr>,
    pub(crate) from: From,
    pub(crate) condition: Option<Expr>,
    /// ORDER BY c0, id LIMIT: descending, rows.
    pub(crate) limit: Option<(bool, usize)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub(crate) key: Expr,
    pub(crate) number: Expr,
    pub(crate) truth: Expr,
    pub(crate) from: From,
    pub(crate) condition: Option<Expr>,
    /// HAVING COUNT(*) > n
    pub(crate) having: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Statement {
    Rows(Rows),
    Groups(Groups),
    Union(Rows, Rows),
    /// WITH w AS (...) SELECT c0 FROM w WHERE ...
    Cte(Rows, Expr),
}

impl Statement {
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::Rows(Rows { limit: Some(_), .. }))
    }
}

const TEXTS: [&str; 5] = ["a", "b", "ab", "", "Ba"];

/// Records; the first two have everything, so that every path has its type in either of two sources.
pub(crate) fn records(tape: &mut Tape<'_>) -> Vec<Json> {
    let mut records: Vec<Json> = [("r0", "a"), ("r1", "b")].into_iter().map(|(id, s)| json!({
        "id": id, "n": 1, "s": s,
        "m": {"z": 1, "a": 1, "b": "a", "o": {"z": 1, "x": 1, "y": "b"}, "tags": [1, 2], "items": [{"z": 1, "k": "a", "v": 1}]},
    })).collect();
    for i in 2..=1 + tape.below(6) {
        let mut record = Map::new();
        record.insert("id".to_owned(), json!(format!("r{i}")));
        number(tape, &mut record, "n");
        text(tape, &mut record, "s");
        if tape.below(4) > 0 {
            record.insert("m".to_owned(), nested(tape));
        }
        records.push(Json::Object(record));
    }
    records
}

/// The records in two sources: every other one, and the rest, whose records have
/// their fields in another order, one that no other has, and some without a column.
pub(crate) fn parted(records: &[Json]) -> (Vec<Json>, Vec<Json>) {
    let (here, there): (Vec<_>, Vec<_>) = records.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    let elsewhere = |(_, record): (usize, &Json)| {
        let mut record = record.clone();
        if let Some(m) = record.get_mut("m") {
            if let Some(o) = m.get_mut("o") {
                *o = stored_elsewhere(o, &["y"]);
            }
            if let Some(items) = m.get_mut("items").and_then(Json::as_array_mut) {
                items.iter_mut().for_each(|item| *item = stored_elsewhere(item, &[]));
            }
            *m = stored_elsewhere(m, &["b"]);
        }
        record
    };
    (here.into_iter().map(|(_, record)| record.clone()).collect(), there.into_iter().map(elsewhere).collect())
}

/// A record as a source holds it in which these fields have no column.
fn stored_elsewhere(record: &Json, kept: &[&str]) -> Json {
    let fields = record.as_object().into_iter().flatten();
    let (kept, own): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| kept.contains(&name.as_str()));
    let owned = |(name, value): (&String, &Json)| (name.clone(), value.clone());
    let kept: Map<String, Json> = kept.into_iter().map(owned).collect();
    let mut stored: Map<String, Json> = own.into_iter().rev().map(owned).collect();
    stored.insert("elsewhere".to_owned(), json!(true));
    stored.insert(
        "_overflow_fields".to_owned(),
        if kept.is_empty() { Json::Null } else { json!(Json::Object(kept).to_string()) },
    );
    stored.insert("_present".to_owned(), json!(true));
    Json::Object(stored)
}

fn nested(tape: &mut Tape<'_>) -> Json {
    let mut m = Map::from_iter([("z".to_owned(), json!(1))]);
    number(tape, &mut m, "a");
    text(tape, &mut m, "b");
    if tape.below(3) > 0 {
        let mut o = Map::from_iter([("z".to_owned(), json!(1))]);
        number(tape, &mut o, "x");
        text(tape, &mut o, "y");
        m.insert("o".to_owned(), Json::Object(o));
    }
    if tape.below(3) > 0 {
        let tags = (0..tape.below(4)).map(|_| if tape.below(5) == 4 { Json::Null } else { json!(tape.below(4)) });
        m.insert("tags".to_owned(), tags.collect());
    }
    if tape.below(3) > 0 {
        let item = |tape: &mut Tape<'_>| {
            let mut item = Map::from_iter([("z".to_owned(), json!(1))]);
            text(tape, &mut item, "k");
            number(tape, &mut item, "v");
            Json::Object(item)
        };
        let items: Vec<Json> = (0..tape.below(3)).map(|_| item(tape)).collect();
        m.insert("items".to_owned(), Json::Array(items));
    }
    Json::Object(m)
}

fn number(tape: &mut Tape<'_>, into: &mut Map<String, Json>, name: &str) {
    match tape.below(6) {
        0 => None,
        1 => into.insert(name.to_owned(), Json::Null),
        n => into.insert(name.to_owned(), json!(n as i64 - 3)),
    };
}

fn text(tape: &mut Tape<'_>, into: &mut Map<String, Json>, name: &str) {
    match tape.below(7) {
        0 => None,
        1 => into.insert(name.to_owned(), Json::Null),
        n => into.insert(name.to_owned(), json!(TEXTS[n - 2])),
    };
}

pub(crate) fn statement(tape: &mut Tape<'_>) -> Statement {
    match tape.below(6) {
        0 | 1 => Statement::Rows(rows(tape, None, true)),
        2 | 3 => {
            let from = from(tape);
            let paths = Paths::of(&from);
            let key = pick_kind(tape);
            Statement::Groups(Groups {
                key: expr(tape, key, &paths, 2),
                number: expr(tape, Kind::Int, &paths, 2),
                truth: expr(tape, Kind::Bool, &paths, 2),
                condition: tape.yes().then(|| expr(tape, Kind::Bool, &paths, 3)),
                having: tape.yes().then(|| tape.below(3)),
                from,
            })
        }
        4 => {
            let kinds = [pick_kind(tape), Kind::Int];
            Statement::Union(rows(tape, Some(&kinds), false), rows(tape, Some(&kinds), false))
        }
        _ => {
            let rows = rows(tape, Some(&[Kind::Int, Kind::Text]), true);
            let paths = Paths { ints: vec!["w.c0", "c0"], texts: vec!["w.c1", "c1"], record: false, tags: false };
            Statement::Cte(rows, expr(tape, Kind::Bool, &paths, 3))
        }
    }
}

fn rows(tape: &mut Tape<'_>, kinds: Option<&[Kind]>, may_limit: bool) -> Rows {
    let from = from(tape);
    let paths = Paths::of(&from);
    let kinds = kinds.map_or_else(|| (0..=tape.below(2)).map(|_| pick_kind(tape)).collect(), <[Kind]>::to_vec);
    let values = kinds.iter().map(|kind| expr(tape, *kind, &paths, 3)).collect();
    let condition = tape.yes().then(|| expr(tape, Kind::Bool, &paths, 3));
    // Ids order the rows wholly only where each is there once.
    let unique = from.steps.iter().all(|(step, _)| matches!(step, Step::Record | Step::Inner));
    let limit = (may_limit && unique && tape.yes()).then(|| (tape.yes(), tape.below(4)));
    Rows { distinct: limit.is_none() && tape.below(3) == 2, values, from, condition, limit }
}

fn from(tape: &mut Tape<'_>) -> From {
    let mut steps = Vec::new();
    if tape.below(4) > 0 {
        steps.push((Step::Record, tape.yes()));
        for step in [Step::Inner, Step::Tags, Step::Items] {
            if tape.below(3) == 2 {
                steps.push((step, tape.yes()));
            }
        }
    }
    From { steps }
}

/// What can be named.
struct Paths {
    ints: Vec<&'static str>,
    texts: Vec<&'static str>,
    record: bool,
    tags: bool,
}

impl Paths {
    fn of(from: &From) -> Self {
        let mut paths = Self { ints: vec!["n", "t.n"], texts: vec!["s", "id"], record: true, tags: false };
        for (step, _) in &from.steps {
            match step {
                Step::Record => {
                    paths.ints.push("m1.a");
                    paths.texts.push("m1.b");
                    paths.tags = true;
                }
                Step::Inner => {
                    paths.ints.push("o1.x");
                    paths.texts.push("o1.y");
                }
                Step::Tags => paths.ints.push("tag"),
                Step::Items => {
                    paths.ints.push("it.v");
                    paths.texts.push("it.k");
                }
            }
        }
        paths
    }
}

fn pick_kind(tape: &mut Tape<'_>) -> Kind {
    tape.pick(&[Kind::Int, Kind::Text, Kind::Bool])
}

fn expr(tape: &mut Tape<'_>, kind: Kind, paths: &Paths, depth: usize) -> Expr {
    let sub = |tape: &mut Tape<'_>, kind| Box::new(expr(tape, kind, paths, depth.saturating_sub(1)));
    let choice = if depth == 0 { tape.below(3) } else { tape.below(8) };
    match (kind, choice) {
        (Kind::Int, 0 | 1) => Expr::Path(tape.pick(&paths.ints)),
        (Kind::Int, 2) => Expr::Int(tape.below(5) as i64 - 1),
        (Kind::Int, 3) => Expr::Add(sub(tape, kind), sub(tape, kind)),
        (Kind::Int, 4) if paths.record => Expr::Scalar(Box::new(inside(tape, paths))),
        (Kind::Text, 0 | 1) => Expr::Path(tape.pick(&paths.texts)),
        (Kind::Text, 2) => Expr::Text(tape.pick(&TEXTS)),
        (Kind::Text, 3) => Expr::Concat(sub(tape, kind), sub(tape, kind)),
        (Kind::Text, 4) => Expr::Upper(sub(tape, kind)),
        (Kind::Int | Kind::Text, 5) => Expr::Coalesce(sub(tape, kind), sub(tape, kind)),
        (Kind::Int | Kind::Text, 6) => Expr::Case(sub(tape, Kind::Bool), sub(tape, kind), sub(tape, kind)),
        (Kind::Int | Kind::Text, _) => Expr::Case(sub(tape, Kind::Bool), sub(tape, kind), Box::new(Expr::Null)),
        (Kind::Bool, 0) => compare(tape, paths, depth),
        (Kind::Bool, 1) => {
            let of = tape.pick(&[Kind::Int, Kind::Text]);
            Expr::IsNull(sub(tape, of), tape.yes())
        }
        (Kind::Bool, 2) => Expr::Like(sub(tape, Kind::Text), tape.pick(&["a%", "%b", "%a%", "_b%", "a"]), tape.yes()),
        (Kind::Bool, 3) => Expr::And(sub(tape, kind), sub(tape, kind)),
        (Kind::Bool, 4) => Expr::Or(sub(tape, kind), sub(tape, kind)),
        (Kind::Bool, 5) => Expr::Not(sub(tape, kind)),
        (Kind::Bool, 6) => {
            let of = tape.pick(&[Kind::Int, Kind::Text]);
            // No subqueries and no CASE as items: see `known_divergences`.
            let first = if of == Kind::Int { Expr::Int(1) } else { Expr::Text("a") };
            let items = std::iter::once(first).chain((0..tape.below(3)).map(|_| expr(tape, of, paths, 0))).collect();
            Expr::In(sub(tape, of), items, tape.yes())
        }
        (Kind::Bool, _) => match tape.below(4) {
            1 if paths.record => Expr::Exists(Box::new(inside(tape, paths))),
            2 if paths.record => Expr::InRecord(sub(tape, Kind::Int)),
            3 if paths.tags => Expr::InTags(sub(tape, Kind::Int)),
            _ => Expr::Between(sub(tape, Kind::Int), sub(tape, Kind::Int), sub(tape, Kind::Int)),
        },
    }
}

fn compare(tape: &mut Tape<'_>, paths: &Paths, depth: usize) -> Expr {
    let op = tape.pick(&["=", "!=", "<", "<=", ">", ">="]);
    let kind = tape.pick(&[Kind::Int, Kind::Text]);
    let depth = depth.saturating_sub(1);
    Expr::Compare(op, Box::new(expr(tape, kind, paths, depth)), Box::new(expr(tape, kind, paths, depth)))
}

/// A condition inside a subquery over the record; it may name what is outside.
fn inside(tape: &mut Tape<'_>, paths: &Paths) -> Expr {
    let mut own = Paths { ints: vec!["q.a"], texts: vec!["q.b"], record: false, tags: false };
    own.ints.extend(&paths.ints);
    own.texts.extend(&paths.texts);
    expr(tape, Kind::Bool, &own, 1)
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FROM t")?;
        for (step, left) in &self.steps {
            let unnest = match step {
                Step::Record => "UNNEST(t.m) AS m1",
                Step::Inner => "UNNEST(m1.o) AS o1",
                Step::Tags => "UNNEST(m1.tags) AS tag",
                Step::Items => "UNNEST(m1.items) AS it",
            };
            write!(
                f,
                " {} JOIN {unnest}{}",
                if *left { "LEFT" } else { "CROSS" },
                if *left { " ON TRUE" } else { "" }
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Path(path) => f.write_str(path),
            Self::Add(a, b) => write!(f, "({a} + {b})"),
            Self::Concat(a, b) => write!(f, "CONCAT({a}, {b})"),
            Self::Upper(a) => write!(f, "UPPER({a})"),
            Self::Coalesce(a, b) => write!(f, "COALESCE({a}, {b})"),
            Self::Case(c, a, b) => write!(f, "CASE WHEN {c} THEN {a} ELSE {b} END"),
            Self::Compare(op, a, b) => write!(f, "({a} {op} {b})"),
            Self::And(a, b) => write!(f, "({a} AND {b})"),
            Self::Or(a, b) => write!(f, "({a} OR {b})"),
            Self::Not(a) => write!(f, "(NOT {a})"),
            Self::In(a, list, negated) => {
                let list: Vec<String> = list.iter().map(ToString::to_string).collect();
                write!(f, "({a} {}IN ({}))", not(negated), list.join(", "))
            }
            Self::IsNull(a, negated) => write!(f, "({a} IS {}NULL)", not(negated)),
            Self::Like(a, pattern, negated) => write!(f, "({a} {}LIKE '{pattern}')", not(negated)),
            Self::Between(a, low, high) => write!(f, "({a} BETWEEN {low} AND {high})"),
            Self::Exists(c) => write!(f, "EXISTS (SELECT 1 FROM UNNEST(t.m) AS q WHERE {c})"),
            Self::InRecord(a) => write!(f, "COALESCE({a} IN (SELECT q.a FROM UNNEST(t.m) AS q), FALSE)"),
            Self::Scalar(c) => write!(f, "(SELECT q.a FROM UNNEST(t.m) AS q WHERE {c})"),
            Self::InTags(a) => write!(f, "COALESCE({a} IN UNNEST(m1.tags), FALSE)"),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().enumerate().map(|(i, value)| format!("{value} AS c{i}")).collect();
        write!(f, "SELECT {}{} {}", if self.distinct { "DISTINCT " } else { "" }, values.join(", "), self.from)?;
        if let Some(condition) = &self.condition {
            write!(f, " WHERE {condition}")?;
        }
        if let Some((descending, rows)) = self.limit {
            write!(f, " ORDER BY c0{}, id LIMIT {rows}", if descending { " DESC" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => rows.fmt(f),
            Self::Union(one, other) => write!(f, "{one} UNION ALL {other}"),
            Self::Cte(rows, condition) => write!(f, "WITH w AS ({rows}) SELECT c0 AS c0 FROM w WHERE {condition}"),
            Self::Groups(Groups { key, number, truth, from, condition, having }) => {
                write!(
                    f,
                    "SELECT {key} AS s, COUNT(*) AS c0, COUNT({number}) AS c1, COUNTIF({truth}) AS c2, SUM({number}) AS c3, \
                     MIN({number}) AS c4, MAX({number}) AS c5 {from}"
                )?;
                if let Some(condition) = condition {
                    write!(f, " WHERE {condition}")?;
                }
                f.write_str(" GROUP BY s")?;
                having.map_or(Ok(()), |having| write!(f, " HAVING COUNT(*) > {having}"))
            }
        }
    }
}
