//! Which rule applies, and what it pins.

use serde_json::{Map, json};

use super::super::refusal::Refusal;
use super::super::rule::apply;
use super::*;

fn rule(name: &str, when: &[(&str, ClaimValue)], pin: &[(&str, &str)]) -> RuleOptions {
    RuleOptions {
        name: name.to_owned(),
        when: when.iter().map(|(pointer, value)| ((*pointer).to_owned(), vec![value.clone()])).collect(),
        pin: pin.iter().map(|(name, pointer)| ((*name).to_owned(), (*pointer).to_owned())).collect(),
        ..RuleOptions::default()
    }
}

fn text(text: &str) -> ClaimValue {
    ClaimValue::Text(text.to_owned())
}

fn object(claims: Value) -> Map<String, Value> {
    claims.as_object().unwrap().clone()
}

/// The name of the rule that applies, or of why none does.
fn applied(rules: &[RuleOptions], claims: Value) -> String {
    match apply(rules, &object(claims)) {
        Ok((rule, _)) => rule.name.clone(),
        Err(Refusal::Pin { rule, .. }) => format!("refused by {rule}"),
        Err(refusal) => format!("{refusal:?}"),
    }
}

#[test]
fn the_first_rule_that_matches_applies_and_no_other() {
    let rules = [
        rule("pinned", &[("/roles", text("viewer"))], &[("project", "/project")]),
        rule("staff", &[("/roles", text("staff"))], &[]),
    ];
    assert_eq!(applied(&rules, json!({"roles": ["staff"]})), "staff");
    assert_eq!(applied(&rules, json!({"roles": ["staff", "viewer"], "project": "p"})), "pinned");
    // A rule that cannot be applied does not leave the token to one that pins nothing.
    assert_eq!(applied(&rules, json!({"roles": ["staff", "viewer"]})), "refused by pinned");
    assert_eq!(applied(&rules, json!({"roles": []})), "NoRule");
    assert_eq!(applied(&rules, json!({})), "NoRule");
    assert_eq!(applied(&[], json!({})), "NoRule");
    assert_eq!(applied(&[rule("all", &[], &[])], json!({})), "all");
}

#[test]
fn claims_are_compared_with_their_types() {
    for (value, claim, matches) in [
        (text("a"), json!("a"), true),
        (text("a"), json!("A"), false),
        (text("a"), json!("a b"), false),
        (text("a"), json!(["b", "a"]), true),
        (text("a"), json!([["a"]]), false),
        (text("a"), json!({"a": true}), false),
        (text("1"), json!(1), false),
        (text("true"), json!(true), false),
        (text("null"), json!(null), false),
        (ClaimValue::Number(1), json!(1), true),
        (ClaimValue::Number(1), json!("1"), false),
        (ClaimValue::Number(1), json!(1.0), false),
        (ClaimValue::Flag(true), json!(true), true),
        (ClaimValue::Flag(true), json!("true"), false),
        (ClaimValue::Flag(false), json!(null), false),
    ] {
        let rules = [rule("r", &[("/c", value.clone())], &[])];
        assert_eq!(applied(&rules, json!({"c": claim})) == "r", matches, "{value:?} and {claim}");
    }
    // Scopes are words with spaces between them.
    let scope = [rule("r", &[("/scope", text("logs:read"))], &[])];
    assert_eq!(applied(&scope, json!({"scope": "openid logs:read"})), "r");
    assert_eq!(applied(&scope, json!({"scope": "openid logs:read-all"})), "NoRule");
    // All conditions must hold; of the values of one, any.
    let mut both = rule("r", &[("/a", text("x")), ("/b", text("y"))], &[]);
    assert_eq!(applied(&[both.clone()], json!({"a": "x"})), "NoRule");
    assert_eq!(applied(&[both.clone()], json!({"a": "x", "b": "y"})), "r");
    both.when.insert("/a".to_owned(), vec![text("z"), text("x")]);
    assert_eq!(applied(&[both], json!({"a": "x", "b": "y"})), "r");
}

#[test]
fn a_pin_is_one_value_or_the_token_is_refused() {
    for (claim, expected) in [
        (json!("p1"), Some("p1")),
        (json!(" p1 "), Some(" p1 ")),
        (json!(5), Some("5")),
        (json!(-5), Some("-5")),
        (json!(18_446_744_073_709_551_615_u64), Some("18446744073709551615")),
        (json!(["p1"]), Some("p1")),
        (json!(""), None),
        (json!(" \t"), None),
        (json!([]), None),
        (json!([""]), None),
        (json!(["p1", "p2"]), None),
        (json!([["p1"]]), None),
        (json!(null), None),
        (json!(true), None),
        (json!(1.5), None),
        (json!(1e300), None),
        (json!({"p": "p1"}), None),
        (json!("p".repeat(1025)), None),
    ] {
        let claims = object(json!({"org": {"a/b": claim}}));
        let rules = [rule("r", &[], &[("project", "/org/a~1b")])];
        let pinned = apply(&rules, &claims).map(|(_, pinned)| pinned.get("project").cloned());
        assert_eq!(pinned.ok().flatten().as_deref(), expected, "{claims:?}");
    }
    // The claims as a whole are no value, and a claim with an empty name is one.
    assert_eq!(applied(&[rule("r", &[], &[("p", "")])], json!({"p": "x"})), "refused by r");
    assert_eq!(applied(&[rule("r", &[], &[("p", "/")])], json!({"": "x"})), "r");
    assert_eq!(applied(&[rule("r", &[], &[("p", "/a~0b")])], json!({"a~b": "x"})), "r");
    assert_eq!(
        applied(
            &[rule("r", &[], &[("p", "/https:~1~1x.example.com~1org")])],
            json!({"https://x.example.com/org": "x"})
        ),
        "r"
    );
}
