//! The grammar: a flat list of clauses. For each clause the first alternative that matches is taken, without
//! backtracking afterwards. So `c:p90(x)` is a filter on a field `c`, and a text with `:` in it must be quoted. That is
//! surprising, but saved queries rely on it. The original implementation of
//! the language silently drops the rest of a text that no clause matches; here it is an error.

use std::borrow::Cow;

use crate::MAX_CLAUSES;
use crate::cursor::{Cursor, is_ident, is_word};
use crate::error::{ErrorKind, Fault, excerpt};
use crate::name;
use crate::rules::{Aggregate, Level, Operator, Period};
use crate::value::{Quotes, Time, Written, quoted, time, value};

/// One clause and its position.
#[derive(Debug, Clone)]
pub(crate) struct Item<'a> {
    pub(crate) offset: usize,
    pub(crate) negate: bool,
    pub(crate) clause: Clause<'a>,
}

#[derive(Debug, Clone)]
pub(crate) enum Clause<'a> {
    From(&'a str),
    Group(Period),
    Aggregate(Aggregate, Cow<'a, str>),
    Select(Cow<'a, str>, Option<&'a str>),
    Timestamp(Operator, Time),
    Levels(Level, Level),
    Filter(Cow<'a, str>, Operator, Written<'a>),
    Message(Operator, Cow<'a, str>, Quotes),
}

/// In the order in which they are tried.
const OPERATORS: [(&str, Operator); 8] = [
    (":>=", Operator::GreaterOrEqual),
    (":<=", Operator::LessOrEqual),
    (":>", Operator::Greater),
    (":<", Operator::Less),
    (":~", Operator::Regex),
    (":@>~", Operator::ListIncludesRegex),
    (":@>", Operator::ListIncludes),
    (":", Operator::Equal),
];

/// Splits a text into its clauses. The whole text must match.
pub(crate) fn clauses(text: &str) -> Result<Vec<Item<'_>>, Fault> {
    let trimmed = text.trim_end();
    let mut c = Cursor::new(trimmed, trimmed.len() - trimmed.trim_start().len());
    let mut items = Vec::new();
    while c.peek().is_some() {
        if items.len() == MAX_CLAUSES {
            let message = format!("a query has at most {MAX_CLAUSES} clauses; the rest is `{}`", excerpt(c.rest()));
            return Err(Fault::new(ErrorKind::Syntax, message, c.offset()));
        }
        let offset = c.offset();
        let negate = c.eat("-");
        let Some(clause) = clause(&mut c)? else { return Err(left_over(&c, negate)) };
        items.push(Item { offset, negate, clause });
        // Half a path is no word: a`b`:c.
        if c.peek() == Some('`') {
            return Err(left_over(&c, false));
        }
        c.run(|c| c == ' ' || c == '\n');
    }
    Ok(items)
}

fn clause<'a>(c: &mut Cursor<'a>) -> Result<Option<Clause<'a>>, Fault> {
    if let Some(name) = c.attempt(from) {
        return ended(c, "a table").map(|()| Some(Clause::From(name)));
    }
    if let Some(chart) = c.attempt(chart) {
        return Ok(Some(chart));
    }
    if let Some(path) = c.attempt(|c| prefix(c, "select", "s").then(|| column(c))?) {
        let alias = alias(c)?;
        return ended(c, "a column").map(|()| Some(Clause::Select(path, alias)));
    }
    if let Some(operator) = c.attempt(|c| {
        c.eat_any(&["timestamp", "t"])?;
        c.eat_one(&OPERATORS)
    }) {
        return time(c).map(|time| Some(Clause::Timestamp(operator, time)));
    }
    if let Some((from, to)) = c.attempt(levels) {
        return Ok(Some(Clause::Levels(from, to)));
    }
    if let Some((path, operator)) = c.attempt(|c| Some((path(c)?, c.eat_one(&OPERATORS)?))) {
        let value = value(c, &path)?;
        return Ok(Some(Clause::Filter(path, operator, value)));
    }
    if let Some((text, tilde)) = quoted(c) {
        return Ok(Some(Clause::Message(message_operator(tilde), text, Quotes::Quoted)));
    }
    Ok(c.attempt(word))
}

/// `name:` or its short form.
fn prefix(c: &mut Cursor<'_>, name: &'static str, short: &'static str) -> bool {
    c.eat_any(&[name, short]).is_some() && c.eat(":")
}

fn from<'a>(c: &mut Cursor<'a>) -> Option<&'a str> {
    prefix(c, "from", "f").then(|| c.some(is_ident))?
}

fn chart<'a>(c: &mut Cursor<'a>) -> Option<Clause<'a>> {
    if !prefix(c, "chart", "c") {
        return None;
    }
    if let Some(period) = c.attempt(group_by) {
        return Some(Clause::Group(period));
    }
    let aggregate = c.eat_one(&Aggregate::ALL)?;
    let path = c.eat("(").then(|| column(c))??;
    let path = if path == "*" { Cow::Borrowed("timestamp") } else { path };
    c.eat(")").then_some(Clause::Aggregate(aggregate, path))
}

fn group_by(c: &mut Cursor<'_>) -> Option<Period> {
    if !c.eat("group_by(") {
        return None;
    }
    c.eat_any(&["timestamp", "t"])?;
    let period = c.eat("::").then(|| c.eat_one(&Period::ALL))??;
    c.eat(")").then_some(period)
}

fn column<'a>(c: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    if c.eat("*") { Some(Cow::Borrowed("*")) } else { path(c) }
}

/// A path. `m.` followed by at least two characters is short for `metadata.`.
fn path<'a>(c: &mut Cursor<'a>) -> Option<Cow<'a, str>> {
    let path = name::read(c)?;
    Some(match path.strip_prefix("m.") {
        Some(rest) if rest.len() >= 2 => Cow::Owned(format!("metadata.{rest}")),
        _ => path,
    })
}

/// The name of a table or a column has an end: what follows without a space would be another clause that nobody meant.
fn ended(c: &Cursor<'_>, what: &str) -> Result<(), Fault> {
    if matches!(c.peek(), None | Some(' ' | '\n')) {
        return Ok(());
    }
    let rest = excerpt(c.rest());
    let message = format!(
        "the name of {what} has letters, digits and _ only, or is a field in `backticks`; what follows is no clause of its own: `{rest}`"
    );
    Err(Fault::new(ErrorKind::Syntax, message, c.offset()))
}

fn alias<'a>(c: &mut Cursor<'a>) -> Result<Option<&'a str>, Fault> {
    if !c.eat("@") {
        return Ok(None);
    }
    c.some(is_ident).map(Some).ok_or_else(|| {
        let message = "the `@` of a select needs a name of letters, digits and _ right behind it: \
                       s:path@name";
        Fault::new(ErrorKind::BlankAlias, message, c.offset())
    })
}

fn levels(c: &mut Cursor<'_>) -> Option<(Level, Level)> {
    let from = c.eat_any(&["metadata.level:", "m.level:"]).and_then(|_| c.eat_one(&Level::ALL))?;
    let to = c.eat("..").then(|| c.eat_one(&Level::ALL))??;
    Some((from, to))
}

fn message_operator(tilde: bool) -> Operator {
    if tilde { Operator::Regex } else { Operator::Contains }
}

fn word<'a>(c: &mut Cursor<'a>) -> Option<Clause<'a>> {
    let operator = message_operator(c.eat("~"));
    let start = c.offset();
    loop {
        c.run(|c| c != '\\' && is_word(c));
        if !c.eat("\\\"") && !c.eat("\\") {
            break;
        }
    }
    let word = c.since(start);
    let text = if word.contains("\\\"") { Cow::Owned(word.replace("\\\"", "\"")) } else { Cow::Borrowed(word) };
    (!word.is_empty()).then_some(Clause::Message(operator, text, Quotes::Bare))
}

/// The error for a text that no clause matches.
fn left_over(c: &Cursor<'_>, negate: bool) -> Fault {
    let rest = excerpt(c.rest());
    let message = match c.peek() {
        None => "a `-` needs a clause right behind it, which it negates: -word, -path:value".to_owned(),
        Some(' ' | '\n') if negate => "there is no space between a `-` and the clause that it negates".to_owned(),
        Some('"') => format!("this quote is not closed: `{rest}`"),
        Some('~') => format!(
            "a `~` needs a regular expression right behind it, in quotes if it has spaces, quotes or `:` in it: `{rest}`"
        ),
        Some('`') => format!(
            "a name in backticks stands in a path, before a `:` or a `.`, and is closed: m.`service.name`:checkout; found `{rest}`"
        ),
        Some('\t' | '\r') => "clauses are separated by spaces and newlines, not by tabs or carriage returns".to_owned(),
        Some(':') => format!(
            "no clause begins with `:`, found `{rest}`; a path has letters, digits, _ and . only, and text with `:` in it goes in quotes"
        ),
        Some(other) => format!(
            "`{}` is no character of an unquoted word, found `{rest}`; put the text in double quotes",
            excerpt(&other.to_string())
        ),
    };
    Fault::new(ErrorKind::Syntax, message, c.offset())
}
