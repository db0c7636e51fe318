//! `[[issuer]]` and `[[issuer.rule]]`: issuers whose JWTs are access tokens.

use std::fmt::Write;

use serde_json::Value;
use tidegate_model::{Access, HOUR, Setting, SettingError, parse_timestamp, quoted, time};

use super::arrays::{TableArray, contradiction, set, table, text, unknown};
use crate::issuer_options::{ClaimValue, IssuerOptions, KeysFrom, RuleOptions};
use crate::options::Options;
use crate::signature_algorithm::Algorithm;

/// All issuers of a configuration.
pub(super) const ISSUERS: TableArray = TableArray {
    name: "issuer",
    what: "issuers whose JWTs are access tokens, and rules that say what these may do; only in a file",
    read,
    toml,
    settings,
    example: EXAMPLE,
};

const EXAMPLE: &str = r#"[[issuer]]
name = "main"
issuer = "https://id.example.com/"
keys = { url = "https://id.example.com/jwks" }
audience = "tidegate"
type = "at+jwt"

[[issuer.rule]]
name = "viewers"
when = { "/roles" = "viewer" }
scopes = "query:endpoint:logs.all"
pin = { project = "/org/project" }
limits = { rows = "1000" }
redact = true
"#;

const KEYS: &str = "where its keys are: { url = \"https://...\" }, { file = \"...\" }, or { discover = true } with the host of \
                    the keys if it is not the issuer's ({ discover = true, host = \"...\" })";

/// What stands in a rule beside its plain settings.
const WITHIN_RULE: [(&str, &str); 3] = [
    (
        "when",
        "JSON pointers into the claims, and what must stand there or be in the list there; a list of values means any",
    ),
    ("pin", "parameters, and JSON pointers to the claims that give their values; a token without the claim is refused"),
    ("limits", "what one request may use, where that is less than the server's limits, as under [limits]"),
];

/// A text, taken as it is.
macro_rules! text {
    ($name:literal, $what:literal, $how:literal, $holder:ty, $field:ident) => {
        Setting {
            name: $name,
            what: $what,
            access: Access::Text {
                how: $how,
                get: |o: &$holder| o.$field.clone(),
                set: |o, text| {
                    text.clone_into(&mut o.$field);
                    true
                },
            },
        }
    };
}

const ISSUER: &[Setting<IssuerOptions>] = &[
    text!("name", "what it is called in log lines and as an author", "a short name", IssuerOptions, name),
    text!("issuer", "what its tokens have as iss, byte for byte", "a text", IssuerOptions, issuer),
    Setting {
        name: "audience",
        what: "what its tokens have one of as aud",
        access: Access::List {
            how: "texts with commas between them",
            get: |o: &IssuerOptions| o.audience.join(", "),
            set: |o, text| {
                o.audience = words(text);
                true
            },
        },
    },
    Setting {
        name: "algorithms",
        what: "how its tokens may be signed; HS256, HS384 and HS512 only with keys of a file, and with no others",
        access: Access::List {
            how: "names of RFC 7518 with commas between them, such as \"ES256, RS256\"",
            get: |o: &IssuerOptions| o.algorithms.iter().map(|own| own.name()).collect::<Vec<_>>().join(", "),
            set: |o, text| {
                let named: Option<Vec<_>> = words(text).iter().map(|name| Algorithm::named(name)).collect();
                named.map(|named| o.algorithms = named).is_some()
            },
        },
    },
    Setting {
        name: "type",
        what: "what its tokens have as typ; \"at+jwt\" keeps ID tokens out; empty is anything",
        access: Access::Text {
            how: "a media type, or nothing",
            get: |o: &IssuerOptions| o.typ.clone().unwrap_or_default(),
            set: |o, text| {
                o.typ = (!text.is_empty()).then(|| text.to_owned());
                true
            },
        },
    },
    time!("leeway", "how far its clock may differ", 0, 300_000, IssuerOptions, leeway),
    time!("longest_life", "the longest time from iat to exp", 1_000, 720 * HOUR, IssuerOptions, longest_life),
    Setting {
        name: "not_before",
        what: "tokens that were issued before this time are refused; empty refuses none",
        access: Access::Text {
            how: "a time such as \"2027-01-31T12:00:00Z\", or nothing",
            get: |o: &IssuerOptions| {
                let time = o.not_before.and_then(|seconds| chrono::DateTime::from_timestamp(seconds, 0));
                time.map_or_else(String::new, |time| time.to_rfc3339_opts(chrono::SecondsFormat::Secs, true))
            },
            set: |o, text| {
                o.not_before = parse_timestamp(text).map(|micros| micros.div_euclid(1_000_000));
                text.is_empty() || o.not_before.is_some()
            },
        },
    },
    Setting {
        name: "allow_private",
        what: "whether a rule may give the scope private",
        access: Access::Flag { get: |o: &IssuerOptions| o.allow_private, set: |o, flag| o.allow_private = flag },
    },
    networks!(
        "allow_networks",
        "networks that its keys may be in though they are not of the public internet; empty is none",
        IssuerOptions,
        allow_networks
    ),
    time!("fetch_pause", "the least time between two requests for its keys", 1_000, HOUR, IssuerOptions, fetch_pause),
];

const RULE: &[Setting<RuleOptions>] = &[
    text!(
        "name",
        "what it is called in log lines and reports; its number unless set",
        "a short name",
        RuleOptions,
        name
    ),
    text!(
        "scopes",
        "the scopes of its tokens, as of stored ones",
        "scopes with blanks between them",
        RuleOptions,
        scopes
    ),
    Setting {
        name: "redact",
        what: "whether IP addresses are masked in every answer",
        access: Access::Flag { get: |o: &RuleOptions| o.redact, set: |o, flag| o.redact = flag },
    },
];

fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn read(options: &mut Options, tables: &[Value]) -> Result<(), SettingError> {
    let issuer = |(place, value): (usize, &Value)| {
        let read = table("issuer", value).and_then(read_issuer);
        read.map_err(|error| {
            let name = value.get("name").and_then(Value::as_str).map_or_else(|| (place + 1).to_string(), str::to_owned);
            contradiction(format!("[[issuer]] {name}: {error}"))
        })
    };
    options.issuers = tables.iter().enumerate().map(issuer).collect::<Result<_, _>>()?;
    Ok(())
}

fn read_issuer(settings: &serde_json::Map<String, Value>) -> Result<IssuerOptions, SettingError> {
    let mut issuer = IssuerOptions::default();
    for (name, value) in settings {
        match name.as_str() {
            "keys" => issuer.keys = Some(read_keys(value)?),
            "rule" => {
                let rules = value.as_array().ok_or_else(|| contradiction("write [[issuer.rule]]".to_owned()))?;
                let rule = |(place, value)| {
                    let read = table("rule", value).and_then(|settings| read_rule(settings, place + 1));
                    read.map_err(|error| contradiction(format!("rule {}: {error}", place + 1)))
                };
                issuer.rules = rules.iter().enumerate().map(rule).collect::<Result<_, _>>()?;
            }
            name if ISSUER.iter().any(|setting| setting.name == name) => set(ISSUER, &mut issuer, name, value)?,
            name => {
                let known: Vec<_> = ISSUER.iter().map(|setting| setting.name).chain(["keys", "rule"]).collect();
                return Err(unknown(name, &known));
            }
        }
    }
    Ok(issuer)
}

fn read_keys(value: &Value) -> Result<KeysFrom, SettingError> {
    let mut found = Vec::new();
    let mut host = None;
    for (name, value) in table("keys", value)? {
        match (name.as_str(), value) {
            ("url", value) => found.push(KeysFrom::Url(text("url", value)?.to_owned())),
            ("file", value) => found.push(KeysFrom::File(text("file", value)?.into())),
            ("discover", Value::Bool(true)) => found.push(KeysFrom::Discovery { host: None }),
            ("host", value) => host = Some(text("host", value)?.to_owned()),
            _ => return Err(contradiction(format!("keys is {KEYS}"))),
        }
    }
    match (found.pop(), host) {
        (Some(KeysFrom::Discovery { .. }), host) if found.is_empty() => Ok(KeysFrom::Discovery { host }),
        (Some(one), None) if found.is_empty() => Ok(one),
        _ => Err(contradiction(format!("keys is {KEYS}"))),
    }
}

fn read_rule(settings: &serde_json::Map<String, Value>, number: usize) -> Result<RuleOptions, SettingError> {
    let mut rule = RuleOptions { name: number.to_string(), ..RuleOptions::default() };
    for (name, value) in settings {
        match name.as_str() {
            "when" => {
                for (pointer, value) in table("when", value)? {
                    let values = match value {
                        Value::Array(values) => values.iter().map(|value| claim_value(pointer, value)).collect(),
                        value => claim_value(pointer, value).map(|value| vec![value]),
                    };
                    rule.when.insert(pointer.clone(), values?);
                }
            }
            "pin" => {
                for (parameter, pointer) in table("pin", value)? {
                    rule.pin.insert(parameter.clone(), text(parameter, pointer)?.to_owned());
                }
            }
            "limits" => {
                for (limit, value) in table("limits", value)? {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    rule.limits.set(limit, &text)?;
                }
            }
            name if RULE.iter().any(|setting| setting.name == name) => set(RULE, &mut rule, name, value)?,
            name => {
                let within = WITHIN_RULE.iter().map(|(name, _)| *name);
                let known: Vec<_> = RULE.iter().map(|setting| setting.name).chain(within).collect();
                return Err(unknown(name, &known));
            }
        }
    }
    Ok(rule)
}

fn claim_value(pointer: &str, value: &Value) -> Result<ClaimValue, SettingError> {
    match value {
        Value::String(text) => Ok(ClaimValue::Text(text.clone())),
        Value::Bool(flag) => Ok(ClaimValue::Flag(*flag)),
        Value::Number(number) if number.is_i64() => Ok(ClaimValue::Number(number.as_i64().unwrap_or_default())),
        other => Err(contradiction(format!(
            "{pointer} = {other} cannot be compared with a claim; write a text, a whole number, true, false, or a list of these"
        ))),
    }
}

fn toml(options: &Options) -> String {
    let mut out = String::new();
    for issuer in &options.issuers {
        out.push_str("\n[[issuer]]\n");
        plain(&mut out, ISSUER, issuer);
        let keys = match &issuer.keys {
            None => continue,
            Some(KeysFrom::Url(url)) => format!("url = {}", quoted(url)),
            Some(KeysFrom::File(path)) => format!("file = {}", quoted(&path.display().to_string())),
            Some(KeysFrom::Discovery { host: None }) => "discover = true".to_owned(),
            Some(KeysFrom::Discovery { host: Some(host) }) => format!("discover = true, host = {}", quoted(host)),
        };
        let _ = writeln!(out, "keys = {{ {keys} }}");
        for rule in &issuer.rules {
            out.push_str("\n[[issuer.rule]]\n");
            plain(&mut out, RULE, rule);
            let values = |values: &Vec<ClaimValue>| {
                let values: Vec<_> = values.iter().map(claim_text).collect();
                format!("[{}]", values.join(", "))
            };
            inline(&mut out, "when", rule.when.iter().map(|(pointer, own)| (pointer.as_str(), values(own))));
            inline(&mut out, "pin", rule.pin.iter().map(|(name, pointer)| (name.as_str(), quoted(pointer))));
            inline(&mut out, "limits", rule.limits.iter().map(|(name, value)| (name, quoted(&value))));
        }
    }
    out
}

fn claim_text(value: &ClaimValue) -> String {
    match value {
        ClaimValue::Text(text) => quoted(text),
        ClaimValue::Number(number) => number.to_string(),
        ClaimValue::Flag(flag) => flag.to_string(),
    }
}

/// The plain settings of a table.
fn plain<T>(out: &mut String, settings: &'static [Setting<T>], holder: &T) {
    for setting in settings {
        let text = setting.show(holder);
        let text = if matches!(setting.access, Access::Flag { .. }) { text } else { quoted(&text) };
        let _ = writeln!(out, "{} = {text}", setting.name);
    }
}

/// A table within a table, on one line.
fn inline<'a>(out: &mut String, name: &str, entries: impl Iterator<Item = (&'a str, String)>) {
    let entries: Vec<_> = entries.map(|(key, value)| format!("{} = {value}", quoted(key))).collect();
    if !entries.is_empty() {
        let _ = writeln!(out, "{name} = {{ {} }}", entries.join(", "));
    }
}

fn settings() -> Vec<(String, String)> {
    fn told<T>(place: &str, settings: &'static [Setting<T>], defaults: &T) -> Vec<(String, String)> {
        let tell = |setting: &Setting<T>| {
            let default = setting.show(defaults);
            let default = if default.is_empty() { String::new() } else { format!("; {default} unless set") };
            (format!("{place}.{}", setting.name), format!("{}{default}", setting.what))
        };
        settings.iter().map(tell).collect()
    }
    let mut all = told("issuer", ISSUER, &IssuerOptions::default());
    all.push(("issuer.keys".to_owned(), KEYS.to_owned()));
    all.extend(told("issuer.rule", RULE, &RuleOptions::default()));
    all.extend(WITHIN_RULE.map(|(name, what)| (format!("issuer.rule.{name}"), what.to_owned())));
    all
}
