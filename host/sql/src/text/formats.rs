//! Formats of casts that are no plain literals, of which the parser knows none: `CAST(x AS STRING FORMAT a || b)` becomes a call of
//! a marker with the cast, the format and, behind AT TIME ZONE, the zone. Each token keeps its position.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::literal::literal;
use super::markers::{added, marker};
use super::tokens::{is_blank, is_word, next};

/// The marker of a cast in a format.
pub(crate) const FORMATTED: &str = "cast format";

/// What is open around a token.
#[derive(Default)]
struct Open {
    /// Where the cast begins whose arguments these are.
    cast: Option<usize>,
    /// Whether its type has begun.
    has_type: bool,
    /// Where its format begins, and its time zone.
    format: Option<usize>,
    zone: Option<usize>,
}

pub(super) fn respelled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(token, "FORMAT")) {
        return tokens;
    }
    let is_cast = |token: &TokenWithSpan| ["CAST", "SAFE_CAST", "TRY_CAST"].iter().any(|word| is_word(token, word));
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut open: Vec<Open> = Vec::new();
    // Where casts begin that become an argument.
    let mut begins: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let before = out.iter().rposition(|token| !is_blank(token));
                let cast = before.filter(|place| token.token == Token::LParen && out.get(*place).is_some_and(is_cast));
                open.push(Open { cast, ..Open::default() });
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(Open { cast: Some(cast), format: Some(format), zone, .. }) = open.pop() {
                    // Casts within these move with them: behind the bracket and a comma, and one more.
                    for begin in begins.iter_mut().rev().take_while(|begin| **begin >= format) {
                        *begin += if zone.is_some_and(|zone| *begin >= zone) { 3 } else { 2 };
                    }
                    let zone = zone.map(|zone| out.split_off(zone));
                    let format = out.split_off(format);
                    out.push(token.clone());
                    for argument in std::iter::once(format).chain(zone) {
                        out.push(added(token, Token::Comma));
                        out.extend(argument);
                    }
                    begins.push(cast);
                }
            }
            Token::Word(_) => {
                if let Some(inner) = open.last_mut().filter(|inner| inner.cast.is_some()) {
                    inner.has_type |= is_word(token, "AS");
                    if inner.has_type && inner.format.is_none() && is_word(token, "FORMAT") && !is_plain(&tokens, at) {
                        inner.format = Some(out.len());
                        continue;
                    }
                    if inner.format.is_some()
                        && inner.zone.is_none()
                        && let Some(end) = zone_words(&tokens, at - 1)
                    {
                        inner.zone = Some(out.len());
                        at = end;
                        continue;
                    }
                }
            }
            _ => {}
        }
        out.push(token.clone());
    }
    if begins.is_empty() {
        return out;
    }
    begins.sort_unstable();
    let mut begins = begins.into_iter().peekable();
    let mut all = Vec::with_capacity(out.len() + 2 * begins.len());
    for (place, token) in out.into_iter().enumerate() {
        if begins.next_if_eq(&place).is_some() {
            all.extend([added(&token, marker(FORMATTED)), added(&token, Token::LParen)]);
        }
        all.push(token);
    }
    all
}

/// Whether the parser reads the format that begins at a place: one literal.
fn is_plain(tokens: &[TokenWithSpan], at: usize) -> bool {
    next(tokens, at).is_some_and(|(place, format)| {
        literal(&format.token).is_some()
            && next(tokens, place + 1).is_some_and(|(place, after)| match zone_words(tokens, place) {
                None => after.token == Token::RParen,
                Some(zone) => next(tokens, zone).is_some_and(|(place, zone)| {
                    literal(&zone.token).is_some()
                        && next(tokens, place + 1).is_some_and(|(_, after)| after.token == Token::RParen)
                }),
            })
    })
}

/// The place behind `AT TIME ZONE`.
fn zone_words(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut end = at;
    for word in ["AT", "TIME", "ZONE"] {
        let (place, _) = next(tokens, end).filter(|(_, token)| is_word(token, word))?;
        end = place + 1;
    }
    Some(end)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_model::TextLimits;

    fn read(sql: &str) -> String {
        crate::text::parse(sql, &TextLimits::default()).unwrap().to_string()
    }

    #[test]
    fn formats_become_arguments() {
        for (sql, shown) in [
            ("select cast(a as string format f)", "SELECT |> cast format(CAST(a AS STRING), f)"),
            (
                "select safe_cast(a as date format concat('a', b) at time zone z)",
                "SELECT |> cast format(SAFE_CAST(a AS DATE), concat('a', b), z)",
            ),
            (
                "select cast(a as string format cast(b as string format c) || (d))",
                "SELECT |> cast format(CAST(a AS STRING), |> cast format(CAST(b AS STRING), c) || (d))",
            ),
            (
                "select cast(a as string format cast(b as string format c) at time zone cast(d as string format e)), cast(f as string format g)",
                "SELECT |> cast format(CAST(a AS STRING), |> cast format(CAST(b AS STRING), c), |> cast format(CAST(d AS STRING), e)), |> cast format(CAST(f AS STRING), g)",
            ),
            ("select cast(a as string format 'x' at time zone z)", "SELECT |> cast format(CAST(a AS STRING), 'x', z)"),
            (
                "select cast(a as string format 'x' at time zone 'y')",
                "SELECT CAST(a AS STRING FORMAT 'x' AT TIME ZONE 'y')",
            ),
            ("select cast(format as string), format", "SELECT CAST(format AS STRING), format"),
        ] {
            assert_eq!(read(sql), shown, "{sql}");
        }
    }
}
