//! What a token may do: the first rule that matches its claims, and nothing of any other.
//!
//! If the rights of several rules were added, a token would gain by each claim that somebody adds to it, and a pin of one
//! rule would be lifted by another. A rule that matches and cannot be applied refuses: the rules behind it are not looked at.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::issuer_options::{ClaimValue, RuleOptions};

/// The longest value that a parameter is pinned to, in bytes.
const MOST_PIN: usize = 1 << 10;
/// Claims whose text is a list of words with spaces between them: that of RFC 8693, and what some issuers call it.
const WORDS: [&str; 2] = ["/scope", "/scp"];

/// The first rule that matches, and the values that it pins parameters to.
///
/// # Errors
/// No rule matches; or the one that does pins a parameter to a claim that is missing, empty, or no single text or whole
/// number.
pub(super) fn apply<'r>(
    rules: &'r [RuleOptions],
    claims: &Map<String, Value>,
) -> Result<(&'r RuleOptions, BTreeMap<String, String>), Refusal> {
    let matches = |rule: &&RuleOptions| {
        rule.when.iter().all(|(pointer, values)| {
            at(claims, pointer).is_some_and(|claim| values.iter().any(|value| has(claim, pointer, value)))
        })
    };
    let rule = rules.iter().find(matches).ok_or(Refusal::NoRule)?;
    let pinned = rule.pin.iter().map(|(parameter, pointer)| {
        let value = at(claims, pointer).and_then(single);
        let value = value.filter(|value| !value.trim().is_empty() && value.len() <= MOST_PIN);
        let missing = || Refusal::Pin { rule: rule.name.clone(), parameter: parameter.clone() };
        Ok((parameter.clone(), value.ok_or_else(missing)?))
    });
    Ok((rule, pinned.collect::<Result<_, _>>()?))
}

/// What a JSON pointer (RFC 6901) of at least one part finds.
fn at<'c>(claims: &'c Map<String, Value>, pointer: &str) -> Option<&'c Value> {
    let path = pointer.strip_prefix('/')?;
    let (first, rest) = path.find('/').map_or((path, ""), |end| path.split_at(end));
    claims.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
}

/// Whether a claim is a value, or a list that has it.
fn has(claim: &Value, pointer: &str, value: &ClaimValue) -> bool {
    match (claim, value) {
        (Value::Array(list), _) => list.iter().any(|item| !item.is_array() && has(item, "", value)),
        (Value::String(text), ClaimValue::Text(value)) if WORDS.contains(&pointer) => {
            text.split(' ').any(|word| word == value)
        }
        (Value::String(text), ClaimValue::Text(value)) => text == value,
        (Value::Number(number), ClaimValue::Number(value)) => number.as_i64() == Some(*value),
        (Value::Bool(flag), ClaimValue::Flag(value)) => flag == value,
        _ => false,
    }
}

/// The only value of a claim, as the text of a parameter: a text, a whole number, or a list of one of them.
fn single(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Array(list) => match list.as_slice() {
            [Value::Array(_)] => None,
            [only] => single(only),
            _ => None,
        },
        _ => None,
    }
}
