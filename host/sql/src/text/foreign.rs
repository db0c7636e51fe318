//! Operators of other dialects: names the operator in the error, and says what to write instead.
//!
//! BigQuery does not have most of these operators, so the parser stops at them and reports only which tokens it
//! expected. One kind is worse: `#` begins a comment, so `metadata #>> '{a,b}'` is read as `metadata`, and the rest is
//! silently ignored.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use tidegate_model::Failure;

use crate::fail::{Result, place_of, unsupported};

/// Operators of other dialects: their spellings, their purpose if it is not obvious, and what to write instead.
const OPERATORS: &[(&[&str], &str, &str)] = &[
    (
        &["#>", "#>>"],
        " for a path in JSON",
        "write JSON_VALUE(text, '$.a.b'), or a.b after CROSS JOIN UNNEST(m.a) AS a",
    ),
    (&["#-"], " that removes a path", "write JSON_REMOVE(text, '$.a.b')"),
    (&["@>", "<@"], " for containment", "write value IN UNNEST(list), or compare the fields: m.key = 'value'"),
    (&["?", "?|", "?&"], " for keys that exist", "write m.key IS NOT NULL, or JSON_QUERY(text, '$.key') IS NOT NULL"),
    (&["@?", "@@"], " for paths in JSON", "write JSON_VALUE(text, '$.key') = 'value'"),
    (&["&&"], "", "write AND, and of lists EXISTS (SELECT 1 FROM UNNEST(a) AS x WHERE x IN UNNEST(b))"),
    (&["~~"], "", "write LIKE"),
    (&["~~*"], "", "write ILIKE"),
    (&["!~~"], "", "write NOT LIKE"),
    (&["!~~*"], "", "write NOT ILIKE"),
    (&["^@"], "", "write STARTS_WITH(text, 'prefix')"),
    (&["<=>"], "", "write IS NOT DISTINCT FROM"),
    (&["//", "DIV"], "", "write DIV(a, b)"),
    (&["**"], "", "write POW(a, b)"),
    (&["MOD"], "", "write MOD(a, b)"),
    (&["XOR"], "", "write a != b"),
    (&["REGEXP", "RLIKE", "MATCH", "GLOB"], "", "write REGEXP_CONTAINS(text, r'pattern')"),
    (&["OVERLAPS"], "", "write start1 < end2 AND start2 < end1"),
    (&["!"], "", "write NOT"),
    (&["|/"], "", "write SQRT(x)"),
    (&["||/"], "", "write CBRT(x)"),
    (&["@"], "", "write ABS(x)"),
    (&["<->"], "", "there are no distances"),
    (&[":="], "", "write ="),
    (&["ISNULL"], "", "write IS NULL"),
    (&["NOTNULL"], "", "write IS NOT NULL"),
    (&["SYMMETRIC"], "", "write BETWEEN LEAST(a, b) AND GREATEST(a, b)"),
    (&["OPERATOR"], "", "write the operator alone"),
];

/// The name of an operator of another dialect for a message, and what to write instead.
pub(crate) fn foreign_operator(operator: &str) -> Option<(String, &'static str)> {
    let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(operator));
    let (_, does, instead) = OPERATORS.iter().find(|(names, ..)| is(names))?;
    Some((format!("the operator {operator}{does}"), instead))
}

/// Refuses comments that are operators in Postgres: `#>> '{a,b}'`.
pub(super) fn refuse_hidden(tokens: &[TokenWithSpan]) -> Result<()> {
    for token in tokens {
        let Token::Whitespace(Whitespace::SingleLineComment { comment, prefix }) = &token.token else { continue };
        let operator = ["#>>", "#>", "#-"].into_iter().find_map(|operator| {
            let rest = operator.strip_prefix(prefix.as_str()).and_then(|rest| comment.strip_prefix(rest))?;
            rest.trim_start().starts_with(['\'', '"']).then_some(operator)
        });
        if let Some((what, instead)) = operator.and_then(foreign_operator) {
            let instead = format!("{instead}; # begins a comment");
            return Err(unsupported(what, Some(&instead), place_of(token.span)));
        }
    }
    Ok(())
}

/// Replaces a parser failure by a better one, if the parser stopped at such an operator. The operator is a word or a
/// sign, or two signs of which the first is also an operator of this dialect (`5 // 2`).
pub(super) fn at_operator(failure: Failure, tokens: &[TokenWithSpan]) -> Failure {
    let Some(at) = failure.position else { return failure };
    let seen: Vec<&TokenWithSpan> =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let Some(stopped) = seen.iter().position(|token| place_of(token.span) == Some(at)) else { return failure };
    // If the parser took a word for an alias, the operator is the token before the position of the failure.
    let text = |i: usize| seen.get(i).map(|token| token.token.to_string()).unwrap_or_default();
    let before = stopped.checked_sub(1).map(text).unwrap_or_default();
    let here = text(stopped);
    let after_operand = |i: Option<usize>| {
        i.and_then(|i| seen.get(i)).is_some_and(|token| match &token.token {
            // After these keywords comes a name or an expression, so an operator cannot follow.
            Token::Word(word) => !matches!(
                word.keyword,
                Keyword::AS | Keyword::SELECT | Keyword::FROM | Keyword::JOIN | Keyword::BY | Keyword::WITH
            ),
            Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => true,
            token => matches!(token, Token::RParen | Token::RBracket),
        })
    };
    let is_word = |text: &str| text.starts_with(|c: char| c.is_alphabetic());
    let candidates = [
        (format!("{before}{here}"), !is_word(&before) && !is_word(&here)),
        (here.clone(), !is_word(&here) || after_operand(stopped.checked_sub(1))),
        (before.clone(), is_word(&before) && after_operand(stopped.checked_sub(2))),
    ];
    let found = candidates.into_iter().filter(|(_, fits)| *fits).find_map(|(operator, _)| foreign_operator(&operator));
    found.map_or(failure, |(what, instead)| unsupported(what, Some(instead), Some(at)))
}
