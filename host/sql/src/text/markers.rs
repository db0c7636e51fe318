//! Words that carry in the tree what the parser has no place for.
//!
//! The parser knows fewer set operations and pipe operators than the language. Such a piece is respelled, in tokens, as a
//! query that the parser reads, whose first column is a marker: a name that no text can write without quotes, because it
//! holds a bar. The resolver takes the marker for what it stands for, and never for a column.

use std::borrow::Cow;

use sqlparser::ast::{Expr, Ident, Query, SelectItem, SetExpr};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use tidegate_model::Failure;

/// What all markers begin with.
const PREFIX: &str = "|> ";

/// A marker as a token.
pub(super) fn marker(name: &str) -> Token {
    Token::Word(Word { value: format!("{PREFIX}{name}"), quote_style: None, keyword: Keyword::NoKeyword })
}

/// The name of a marker.
pub(crate) fn marker_name(ident: &Ident) -> Option<&str> {
    ident.quote_style.is_none().then(|| ident.value.strip_prefix(PREFIX)).flatten()
}

/// The marker that a select list begins with, and the rest of the list.
pub(crate) fn marked_items(projection: &[SelectItem]) -> Option<(&Ident, &str, &[SelectItem])> {
    let (SelectItem::UnnamedExpr(Expr::Identifier(ident)), rest) = projection.split_first()? else { return None };
    Some((ident, marker_name(ident)?, rest))
}

/// The same of a query that is one SELECT.
pub(crate) fn marked_query(query: &Query) -> Option<(&Ident, &str, &[SelectItem])> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    marked_items(&select.projection)
}

/// A token that is not in the text, with the position of one that is.
pub(super) fn added(at: &TokenWithSpan, token: Token) -> TokenWithSpan {
    TokenWithSpan { token, span: at.span }
}

/// What a marker of a number begins with.
const NUMBER: &str = "number ";

/// How the markers that a message may quote are spelled in a text.
const SPELLED: [(&str, &str); 13] = [
    ("|> cast format", "CAST"),
    ("SELECT |> from FROM", "FROM"),
    ("SELECT |> from", "FROM"),
    ("|> from", "FROM"),
    ("|> like any", "ANY UNNEST"),
    ("|> like all", "ALL UNNEST"),
    ("|> grouping sets", "GROUPING SETS "),
    ("|> rollup", "ROLLUP"),
    ("|> cube", "CUBE"),
    ("|> no keys", ""),
    ("|> number ", ""),
    ("|> input ", ""),
    ("|> assert", "ASSERT"),
];

/// A message as one reads it who has not seen the markers.
pub(crate) fn spelled(message: &str) -> Cow<'_, str> {
    let mut message = Cow::Borrowed(message);
    for (marker, word) in SPELLED {
        if message.contains(marker) {
            message = Cow::Owned(message.replace(marker, word));
        }
    }
    message
}

/// A failure whose message is so.
pub(crate) fn spelled_failure(mut failure: Failure) -> Failure {
    if let Cow::Owned(message) = spelled(&failure.message) {
        failure.message = message;
    }
    failure
}

/// A number in the place of a name: `AS 1`.
pub(super) fn number(text: &str) -> Token {
    marker(&format!("{NUMBER}{text}"))
}

/// The number that a name is a marker of.
pub(crate) fn marked_number(ident: &Ident) -> Option<i64> {
    marker_name(ident)?.strip_prefix(NUMBER)?.parse().ok()
}
