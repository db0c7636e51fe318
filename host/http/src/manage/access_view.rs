//! The report of who reads what, as JSON. Lists are sorted and say nothing of when they were made, so that the report of all
//! classes can be kept in a repository and compared.

use serde_json::{Map, Value, json};
use tidegate_model::{Failure, NotOfTenant, RowPolicy};
use tidegate_service::access_report::{
    AccessRule, AdhocText, AlertAccess, ClassAccess, EndpointAccess, Piece, PlannedPiece, PlannedSource, Redaction,
    RuleAccess,
};
use tidegate_service::tokens::{Access, AccessClass};

use super::time;

/// To whom a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// To who manages tokens: of one token, with the values that it pins.
    Token,
    /// To who manages tokens: of all tokens of a class, which pin different values.
    Class,
    /// To the token itself, which does not learn the names of what it is refused.
    Itself,
}

/// What is told of a token beside its endpoints.
pub(super) fn token(access: &Access) -> Value {
    json!({
        "id": access.id.map(|id| id.to_string()),
        "description": access.who,
        "scopes": access.scopes(),
        "pinned": access.pinned,
        "limits": access.limits,
        "errors": access.errors,
        "expires_at": access.expires_at().map_or(Value::Null, time),
        "last_used_at": access.last_used().map_or(Value::Null, time),
    })
}

/// A class with what its tokens may do. With `source`, only what reads that source.
pub(super) fn class(of: &ClassAccess, writes: Option<Vec<String>>, source: Option<&str>) -> Value {
    let ClassAccess { class: AccessClass { key, access, tokens }, endpoints } = of;
    json!({
        "scopes": key.scopes,
        "pinned": key.pinned,
        "limits": access.limits,
        "tokens": tokens,
        "private": access.is_private(),
        "writes": self::writes(writes),
        "endpoints": self::endpoints(endpoints, Shown::Class, source),
    })
}

/// A rule of an issuer with what its tokens may do.
pub(super) fn rule(of: &RuleAccess, writes: Option<Vec<String>>, source: Option<&str>) -> Value {
    let RuleAccess { rule: AccessRule { name, pin, access }, endpoints } = of;
    json!({
        "rule": name,
        "scopes": access.scopes(),
        "pinned": pin,
        "limits": access.limits,
        "private": access.is_private(),
        "writes": self::writes(writes),
        "endpoints": self::endpoints(endpoints, Shown::Class, source),
    })
}

/// An alert with what it reads.
pub(super) fn alert(of: &AlertAccess, source: Option<&str>) -> Value {
    let AlertAccess { alert, endpoints } = of;
    json!({
        "alert": alert.name,
        "endpoint": alert.endpoint,
        "receiver": alert.receiver,
        "tenant": alert.tenant,
        "paused": alert.paused,
        "endpoints": self::endpoints(endpoints, Shown::Token, source),
    })
}

/// The sources to which events may be sent; `None` is all.
pub(super) fn writes(sources: Option<Vec<String>>) -> Value {
    json!({"all": sources.is_none(), "sources": sources.unwrap_or_default()})
}

/// The endpoints of a report.
pub(super) fn endpoints(endpoints: &[EndpointAccess], shown: Shown, source: Option<&str>) -> Value {
    endpoints.iter().filter_map(|of| endpoint(of, shown, source)).collect()
}

fn endpoint(of: &EndpointAccess, shown: Shown, only: Option<&str>) -> Option<Value> {
    let EndpointAccess { id, name, is_code, adhoc, redaction, limits, planned } = of;
    let tables: Vec<Value> =
        planned.pieces.iter().filter_map(|piece| table(piece, (*is_code, *adhoc), shown, only)).collect();
    if only.is_some() && tables.is_empty() {
        return None;
    }
    let adhoc = match adhoc {
        AdhocText::Nothing => "nothing",
        AdhocText::Tables => "tables",
        AdhocText::Sources => "sources",
    };
    let redaction = match redaction {
        Redaction::Always => "always",
        Redaction::UnlessTurnedOff => "unless_turned_off",
        Redaction::OnRequest => "on_request",
    };
    let limits: Map<String, Value> = limits.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    Some(json!({
        "id": id.to_string(),
        "endpoint": name,
        "refused": planned.refused.as_ref().map(|failure| told(failure, shown)),
        "adhoc": adhoc,
        "redaction": redaction,
        "limits": limits,
        "tables": tables,
    }))
}

/// A reason for those who may know it.
fn told(failure: &Failure, shown: Shown) -> String {
    match shown {
        // What the token fixes is its own; what is wrong with a statement may name what it reads.
        Shown::Itself if failure.code.status() != 403 => "it cannot be used now".to_owned(),
        _ => failure.to_string(),
    }
}

fn table(of: &PlannedPiece, how: (bool, AdhocText), shown: Shown, only: Option<&str>) -> Option<Value> {
    let is_of = |source: &&PlannedSource| only.is_none_or(|only| source.name == only);
    let sources: Vec<&PlannedSource> = of.sources.iter().filter(is_of).collect();
    if only.is_some() && sources.is_empty() {
        return None;
    }
    let (is_code, adhoc) = how;
    let (kind, read_by) = match of.piece {
        Piece::Grant if adhoc == AdhocText::Tables => ("grant", "caller"),
        Piece::Grant if is_code => ("grant", "code"),
        // The rest of the endpoint decides what of it is answered.
        Piece::Grant => ("grant", "query"),
        Piece::Body => ("body", if is_code { "code" } else { "query" }),
        Piece::Statement => ("statement", "code"),
    };
    let refusal = of.refusal();
    let sources: Vec<Value> = sources.into_iter().map(|own| source(own, refusal, shown)).collect();
    Some(json!({
        "table": if of.piece == Piece::Body { "(body)" } else { of.name.as_str() },
        "kind": kind,
        "read_by": read_by,
        "parameters": of.parameters,
        "failed": of.failure.as_ref().map(|failure| told(failure, shown)),
        "sources": sources,
    }))
}

fn source(of: &PlannedSource, refusal: Option<&PlannedSource>, to: Shown) -> Value {
    let PlannedSource { id, name, rows, shared, columns } = of;
    let bound = rows.as_ref().ok().and_then(Option::as_ref);
    let by_policy: Vec<String> =
        bound.into_iter().flat_map(|policy| &policy.values).map(|(path, _)| path.to_string()).collect();
    let (access, reason) = match (rows, refusal) {
        (Err(why), _) => ("refused", Some(remedy(why))),
        // The statement is refused for another of its sources.
        (Ok(_), Some(_)) if to == Shown::Itself => ("refused", Some(WITH_ANOTHER.to_owned())),
        (Ok(_), Some(other)) => ("refused", Some(format!("the statement reads {}, too, which is refused", other.name))),
        (Ok(Some(_)), None) => ("bound", None),
        (Ok(None), None) => ("all", None),
    };
    let text = match (access, bound) {
        ("refused", _) => "REFUSED".to_owned(),
        (_, Some(policy)) => predicate(policy, to),
        (_, None) if *shared => "ALL (shared)".to_owned(),
        (_, None) => "ALL".to_owned(),
    };
    let mut told = json!({
        "shared": shared,
        "rows": text,
        "access": access,
        "reason": reason,
        "by_policy": by_policy,
    });
    if let (Some(fields), false) = (told.as_object_mut(), to == Shown::Itself && access == "refused") {
        fields.insert("id".to_owned(), id.to_string().into());
        fields.insert("source".to_owned(), name.as_str().into());
        fields.insert("columns".to_owned(), columns.iter().map(String::as_str).collect());
    }
    told
}

const WITH_ANOTHER: &str = "the statement reads another source, too, which is refused";

/// The condition that the store puts on the rows.
fn predicate(policy: &RowPolicy, shown: Shown) -> String {
    match shown {
        Shown::Token | Shown::Itself => policy.to_string(),
        Shown::Class => {
            let own: Vec<String> = policy.values.iter().map(|(path, _)| format!("{path} = own")).collect();
            own.join(" AND ")
        }
    }
}

fn remedy(why: &NotOfTenant) -> String {
    match why {
        NotOfTenant::Undeclared => {
            "the source does not say whose its rows are; name its tenant key, or mark it shared".to_owned()
        }
        NotOfTenant::NoKey => "no tenant key that the token pins; mark the source shared, or name its key".to_owned(),
        NotOfTenant::LacksKey(name) => format!("it lacks the tenant key {name}, which the token pins; name its field"),
    }
}
