//! What the conditions of a scan demand of texts, for the index of substrings that a store may have.

use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::scalar::ScalarValue;
use tidegate_functions::text::demands::{like_demands, pattern_demands, text_demands};
use tidegate_model::{TextCondition, indexed_text};

use crate::exprs::path_of;

/// The most texts of a condition. With more of them, most rows have one.
const MOST_TEXTS: usize = 64;

/// What all of these conditions demand together; `None` if nothing is known.
pub(crate) fn text_condition(filters: &[Expr]) -> Option<TextCondition> {
    TextCondition::all(filters.iter().map(demanded)).filter(|condition| condition.parts() <= MOST_TEXTS)
}

fn demanded(expr: &Expr) -> Option<TextCondition> {
    match expr {
        Expr::BinaryExpr(binary) => {
            let (left, right) = (&binary.left, &binary.right);
            match binary.op {
                Operator::And => TextCondition::all([demanded(left), demanded(right)]),
                Operator::Or => TextCondition::any([demanded(left), demanded(right)]),
                Operator::Eq => equal(left, right).or_else(|| equal(right, left)),
                Operator::RegexMatch => pattern(left, text(right)?),
                Operator::RegexIMatch => pattern(left, &format!("(?i){}", text(right)?)),
                _ => None,
            }
        }
        Expr::Like(like) if !like.negated && matches!(like.escape_char, None | Some('\\')) => {
            let subject = Subject::of(&like.expr)?;
            like_demands(&subject.column, text(&like.pattern)?, subject.ignore_case || like.case_insensitive)
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            TextCondition::any(list.iter().map(|value| equal(expr, value)))
        }
        Expr::ScalarFunction(call) => match (call.name(), call.args.as_slice()) {
            // The engine's functions and ours have the same order of arguments.
            ("contains" | "starts_with" | "ends_with", [subject, part]) => equal(subject, part),
            ("regexp_contains", [subject, of]) => pattern(subject, &tidegate_functions::translated_pattern(text(of)?)),
            ("like_text", [subject, of]) => like(subject, of, false),
            ("like_text_without_case", [subject, of]) => like(subject, of, true),
            _ => None,
        },
        _ => None,
    }
}

/// A text that may have an index, perhaps in lower case.
struct Subject {
    column: String,
    ignore_case: bool,
}

impl Subject {
    fn of(expr: &Expr) -> Option<Self> {
        if let Expr::ScalarFunction(call) = expr
            && call.name() == "lower_text"
        {
            let column = Subject::of(call.args.first()?)?.column;
            return Some(Subject { column, ignore_case: true });
        }
        let (column, fields) = path_of(expr)?;
        let path: Vec<&str> = std::iter::once(&column.name).chain(&fields).map(String::as_str).collect();
        Some(Subject { column: indexed_text(&path)?, ignore_case: false })
    }
}

/// A text that is the value of a constant.
fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.as_deref()
        }
        _ => None,
    }
}

/// The subject is or contains a text.
fn equal(subject: &Expr, part: &Expr) -> Option<TextCondition> {
    let Subject { column, ignore_case } = Subject::of(subject)?;
    text_demands(&column, text(part)?, ignore_case)
}

fn like(subject: &Expr, pattern: &Expr, ignore_case: bool) -> Option<TextCondition> {
    let subject = Subject::of(subject)?;
    like_demands(&subject.column, text(pattern)?, subject.ignore_case || ignore_case)
}

fn pattern(subject: &Expr, pattern: &str) -> Option<TextCondition> {
    let Subject { column, ignore_case } = Subject::of(subject)?;
    // What a pattern matches in lower case it may not match otherwise.
    if ignore_case { None } else { pattern_demands(&column, pattern) }
}
