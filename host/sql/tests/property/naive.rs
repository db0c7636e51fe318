//! The language, row by row over JSON.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::grammar::{Expr, From, Groups, Rows, Statement, Step};

/// What the names of a row are; `#m` is the record itself.
type Row = BTreeMap<&'static str, Json>;

/// The rows of a statement as JSON texts.
pub(crate) fn rows(records: &[Json], statement: &Statement) -> Vec<String> {
    match statement {
        Statement::Rows(rows) => shown(&selected(records, rows)),
        Statement::Union(one, other) => [shown(&selected(records, one)), shown(&selected(records, other))].concat(),
        Statement::Cte(rows, condition) => {
            let kept = selected(records, rows).into_iter().filter(|values| {
                let (int, text) = (&values[0], &values[1]);
                let row = Row::from([
                    ("c0", int.clone()),
                    ("w.c0", int.clone()),
                    ("c1", text.clone()),
                    ("w.c1", text.clone()),
                ]);
                value(condition, &row) == json!(true)
            });
            kept.map(|values| json!({"c0": values[0]}).to_string()).collect()
        }
        Statement::Groups(groups) => grouped(records, groups),
    }
}

fn shown(rows: &[Vec<Json>]) -> Vec<String> {
    let object = |values: &Vec<Json>| {
        Json::Object(values.iter().enumerate().map(|(i, value)| (format!("c{i}"), value.clone())).collect())
    };
    rows.iter().map(|values| object(values).to_string()).collect()
}

fn part(of: &Json, name: &str) -> Json {
    of.get(name).cloned().unwrap_or(Json::Null)
}

fn joined(records: &[Json], from: &From, condition: Option<&Expr>) -> Vec<Row> {
    let mut rows: Vec<Row> = records
        .iter()
        .map(|record| {
            let n = part(record, "n");
            Row::from([
                ("id", part(record, "id")),
                ("n", n.clone()),
                ("t.n", n),
                ("s", part(record, "s")),
                ("#m", part(record, "m")),
            ])
        })
        .collect();
    for (step, left) in &from.steps {
        rows = rows
            .into_iter()
            .flat_map(|row| {
                let m1 = row.get("#m1").cloned().unwrap_or(Json::Null);
                let (of, names): (Json, &[(&'static str, &str)]) = match step {
                    Step::Record => (row["#m"].clone(), &[("m1.a", "a"), ("m1.b", "b")]),
                    Step::Inner => (part(&m1, "o"), &[("o1.x", "x"), ("o1.y", "y")]),
                    Step::Tags => (part(&m1, "tags"), &[("tag", "")]),
                    Step::Items => (part(&m1, "items"), &[("it.v", "v"), ("it.k", "k")]),
                };
                let mut elements = match of {
                    Json::Null => Vec::new(),
                    Json::Array(elements) => elements,
                    record => vec![record],
                };
                if elements.is_empty() && *left {
                    elements.push(Json::Null);
                }
                elements.into_iter().map(move |element| {
                    let mut row = row.clone();
                    for (path, name) in names {
                        row.insert(path, if name.is_empty() { element.clone() } else { part(&element, name) });
                    }
                    if *step == Step::Record {
                        row.insert("#m1", element);
                    }
                    row
                })
            })
            .collect();
    }
    rows.retain(|row| condition.is_none_or(|condition| value(condition, row) == json!(true)));
    rows
}

fn selected(records: &[Json], select: &Rows) -> Vec<Vec<Json>> {
    let mut rows: Vec<(Vec<Json>, Json)> = joined(records, &select.from, select.condition.as_ref())
        .iter()
        .map(|row| (select.values.iter().map(|expr| value(expr, row)).collect(), row["id"].clone()))
        .collect();
    if let Some((descending, count)) = select.limit {
        rows.sort_by(|(a, id_a), (b, id_b)| {
            let order = order(&a[0], &b[0]);
            (if descending { order.reverse() } else { order }).then_with(|| self::order(id_a, id_b))
        });
        rows.truncate(count);
    }
    let mut seen = BTreeSet::new();
    rows.retain(|(values, _)| !select.distinct || seen.insert(json!(values).to_string()));
    rows.into_iter().map(|(values, _)| values).collect()
}

fn grouped(records: &[Json], groups: &Groups) -> Vec<String> {
    let mut by_key: BTreeMap<String, (Json, Vec<Row>)> = BTreeMap::new();
    for row in joined(records, &groups.from, groups.condition.as_ref()) {
        let key = value(&groups.key, &row);
        by_key.entry(key.to_string()).or_insert_with(|| (key, Vec::new())).1.push(row);
    }
    let mut shown = Vec::new();
    for (key, rows) in by_key.into_values() {
        if groups.having.is_some_and(|having| rows.len() <= having) {
            continue;
        }
        let numbers: Vec<i64> = rows.iter().filter_map(|row| value(&groups.number, row).as_i64()).collect();
        let truths = rows.iter().filter(|row| value(&groups.truth, row) == json!(true)).count();
        let sum = (!numbers.is_empty()).then(|| numbers.iter().sum::<i64>());
        let row = json!({"s": key, "c0": rows.len(), "c1": numbers.len(), "c2": truths, "c3": sum,
                         "c4": numbers.iter().min(), "c5": numbers.iter().max()});
        shown.push(row.to_string());
    }
    shown
}

/// NULL is the smallest value.
fn order(a: &Json, b: &Json) -> Ordering {
    match (a, b) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) => Ordering::Less,
        (_, Json::Null) => Ordering::Greater,
        (Json::Number(a), Json::Number(b)) => a.as_i64().cmp(&b.as_i64()),
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        _ => unreachable!("values of one type"),
    }
}

fn truth(value: &Json) -> Option<bool> {
    value.as_bool()
}

/// `a` and `b` compared, or NULL.
fn compared(a: &Json, b: &Json, holds: impl Fn(Ordering) -> bool) -> Option<bool> {
    (!a.is_null() && !b.is_null()).then(|| holds(order(a, b)))
}

fn and(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    and(a.map(|a| !a), b.map(|b| !b)).map(|neither| !neither)
}

/// Whether a value is among others: NULL if it is none of them and one of them is unknown.
fn among<'a>(a: &Json, others: impl IntoIterator<Item = &'a Json>) -> Option<bool> {
    others.into_iter().map(|other| compared(a, other, Ordering::is_eq)).fold(Some(false), or)
}

fn like(text: &[u8], pattern: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'%', rest)) => (0..=text.len()).any(|i| like(&text[i..], rest)),
        Some((b'_', rest)) => !text.is_empty() && like(&text[1..], rest),
        Some((c, rest)) => text.first() == Some(c) && like(&text[1..], rest),
    }
}

/// The row as a subquery over its record sees it, if it has the record.
fn inside(row: &Row) -> Option<Row> {
    let m = row.get("#m").filter(|m| !m.is_null())?;
    let mut row = row.clone();
    row.extend([("q.a", part(m, "a")), ("q.b", part(m, "b"))]);
    Some(row)
}

fn value(expr: &Expr, row: &Row) -> Json {
    let negated = |value: Option<bool>, negated: bool| json!(value.map(|value| value != negated));
    match expr {
        Expr::Null => Json::Null,
        Expr::Int(n) => json!(n),
        Expr::Text(text) => json!(text),
        Expr::Path(path) => row[path].clone(),
        Expr::Add(a, b) => {
            let (a, b) = (value(a, row).as_i64(), value(b, row).as_i64());
            json!(a.zip(b).map(|(a, b)| a + b))
        }
        Expr::Concat(a, b) => match (value(a, row), value(b, row)) {
            (Json::String(a), Json::String(b)) => json!(a + &b),
            _ => Json::Null,
        },
        Expr::Upper(a) => json!(value(a, row).as_str().map(str::to_uppercase)),
        Expr::Coalesce(a, b) => match value(a, row) {
            Json::Null => value(b, row),
            a => a,
        },
        Expr::Case(condition, then, otherwise) => {
            value(if value(condition, row) == json!(true) { then } else { otherwise }, row)
        }
        Expr::Compare(op, a, b) => json!(compared(&value(a, row), &value(b, row), |order| match *op {
            "=" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        })),
        Expr::And(a, b) => json!(and(truth(&value(a, row)), truth(&value(b, row)))),
        Expr::Or(a, b) => json!(or(truth(&value(a, row)), truth(&value(b, row)))),
        Expr::Not(a) => json!(truth(&value(a, row)).map(|a| !a)),
        Expr::In(a, list, not) => {
            let list: Vec<Json> = list.iter().map(|item| value(item, row)).collect();
            negated(among(&value(a, row), &list), *not)
        }
        Expr::IsNull(a, not) => json!(value(a, row).is_null() != *not),
        Expr::Like(a, pattern, not) => {
            negated(value(a, row).as_str().map(|text| like(text.as_bytes(), pattern.as_bytes())), *not)
        }
        Expr::Between(a, low, high) => {
            let a = value(a, row);
            let above = compared(&a, &value(low, row), Ordering::is_ge);
            json!(and(above, compared(&a, &value(high, row), Ordering::is_le)))
        }
        Expr::Exists(condition) => json!(inside(row).is_some_and(|row| value(condition, &row) == json!(true))),
        Expr::InRecord(a) => {
            let items: Vec<Json> = inside(row).map(|row| row["q.a"].clone()).into_iter().collect();
            json!(among(&value(a, row), &items).unwrap_or(false))
        }
        Expr::Scalar(condition) => match inside(row) {
            Some(row) if value(condition, &row) == json!(true) => row["q.a"].clone(),
            _ => Json::Null,
        },
        Expr::InTags(a) => {
            let tags = row.get("#m1").map_or(Json::Null, |m1| part(m1, "tags"));
            json!(among(&value(a, row), tags.as_array().into_iter().flatten()).unwrap_or(false))
        }
    }
}
