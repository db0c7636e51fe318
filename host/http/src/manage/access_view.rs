//! The report of who reads what, as JSON. Lists are sorted and say nothing of when they were made, so that the report of all
//! classes can be kept in a repository and compared.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{Failure, LimitSet, NotOfTenant, RowPolicy};
use tidegate_service::access_report::{
    AccessRule, AdhocText, AlertAccess, ClassAccess, EndpointAccess, Piece, PlannedPiece, PlannedSource, Redaction,
    RuleAccess,
};
use tidegate_service::tokens::{Access, AccessClass};

use super::tokens::CurrentAccessToken;
use crate::shown::Id;

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

/// Who reads what, by classes of tokens, rules of issuers, and alerts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AccessOfClasses {
    pub(super) classes: Vec<ClassView>,
    pub(super) rules: Vec<RuleView>,
    pub(super) alerts: Vec<AlertView>,
}

/// What a token reads.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AccessOfToken {
    pub(super) token: CurrentAccessToken,
    #[serde(flatten)]
    pub(super) of: AccessOfReader,
}

/// What a reader may do.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AccessOfReader {
    /// Whether it may read and change everything, whatever is listed.
    private: bool,
    writes: AccessToWrite,
    endpoints: Vec<AccessOfEndpoint>,
}

/// A class of tokens with what they may do.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct ClassView {
    scopes: String,
    pinned: Vec<String>,
    limits: LimitSet,
    #[schemars(range(min = 1))]
    tokens: usize,
    #[serde(flatten)]
    pub(super) of: AccessOfReader,
}

/// A rule of an issuer with what its tokens may do.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct RuleView {
    /// The names of the issuer and of its rule, as main/1.
    rule: String,
    scopes: String,
    /// Names that are pinned, with JSON pointers to the claims that have the values.
    pinned: BTreeMap<String, String>,
    limits: LimitSet,
    #[serde(flatten)]
    pub(super) of: AccessOfReader,
}

/// An alert with what it reads.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct AlertView {
    alert: String,
    endpoint: String,
    /// The scheme and the host of the address to which its rows are sent.
    receiver: String,
    /// The tenant for which it asks; without any, it reads the rows of all.
    tenant: BTreeMap<String, String>,
    paused: bool,
    endpoints: Vec<AccessOfEndpoint>,
}

/// The sources to which events may be sent.
#[derive(Debug, Serialize, JsonSchema)]
struct AccessToWrite {
    /// Whether events may be sent to every source.
    all: bool,
    /// Else those to which they may be sent.
    sources: Vec<String>,
}

/// What is read through an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct AccessOfEndpoint {
    id: Id,
    endpoint: String,
    /// Why the token may not ask it at all.
    refused: Option<String>,
    /// What ad-hoc text may read.
    #[schemars(extend("enum" = ["nothing", "tables", "sources"]))]
    adhoc: &'static str,
    #[schemars(extend("enum" = ["always", "unless_turned_off", "on_request"]))]
    redaction: &'static str,
    /// What one request may use: the least of what server, endpoint and token say.
    #[schemars(with = "BTreeMap<String, String>")]
    limits: LimitSet,
    tables: Vec<AccessOfTable>,
}

/// What a part of an endpoint reads.
#[derive(Debug, Serialize, JsonSchema)]
struct AccessOfTable {
    table: String,
    #[schemars(extend("enum" = ["grant", "body", "statement"]))]
    kind: &'static str,
    /// Who may read it: ad-hoc text of a caller, code of the endpoint, or the saved query only.
    #[schemars(extend("enum" = ["caller", "code", "query"]))]
    read_by: &'static str,
    /// The parameters that its text uses. They prove nothing.
    parameters: Vec<String>,
    /// Why it cannot be planned.
    failed: Option<String>,
    sources: Vec<AccessOfSource>,
}

/// What is read of a source.
#[derive(Debug, Serialize, JsonSchema)]
struct AccessOfSource {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Id")]
    id: Option<Id>,
    /// Absent for a token that asks about itself and is refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    source: Option<String>,
    /// The condition on its rows, such as `project = 'abc'` or `project = own`; ALL; or REFUSED.
    rows: String,
    #[schemars(extend("enum" = ["bound", "all", "refused"]))]
    access: &'static str,
    /// Whether the source says that all tenants may read all of its rows.
    shared: bool,
    /// Why it is refused.
    reason: Option<String>,
    /// The fields by which its rows are bound.
    by_policy: Vec<String>,
    /// What is read, with fields in records as column.field; none where rows are only counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    columns: Option<BTreeSet<String>>,
}

/// What a reader may do. With `source`, only what reads that source; `writes` are the sources to which it may send, `None` is all.
pub(super) fn reader(
    access: &Access,
    writes: Option<Vec<String>>,
    endpoints: &[EndpointAccess],
    shown: Shown,
    source: Option<&str>,
) -> AccessOfReader {
    AccessOfReader {
        private: access.is_private(),
        writes: AccessToWrite { all: writes.is_none(), sources: writes.unwrap_or_default() },
        endpoints: self::endpoints(endpoints, shown, source),
    }
}

impl AccessOfReader {
    /// Whether it has anything to say of a source. Private tokens read every source.
    pub(super) fn says_anything(&self) -> bool {
        self.private || !self.endpoints.is_empty()
    }
}

impl ClassView {
    pub(super) fn of(of: &ClassAccess, writes: Option<Vec<String>>, source: Option<&str>) -> Self {
        let ClassAccess { class: AccessClass { key, access, tokens }, endpoints } = of;
        Self {
            scopes: key.scopes.clone(),
            pinned: key.pinned.clone(),
            limits: access.limits.clone(),
            tokens: *tokens,
            of: reader(access, writes, endpoints, Shown::Class, source),
        }
    }
}

impl RuleView {
    pub(super) fn of(of: &RuleAccess, writes: Option<Vec<String>>, source: Option<&str>) -> Self {
        let RuleAccess { rule: AccessRule { name, pin, access }, endpoints } = of;
        Self {
            rule: name.clone(),
            scopes: access.scopes(),
            pinned: pin.clone(),
            limits: access.limits.clone(),
            of: reader(access, writes, endpoints, Shown::Class, source),
        }
    }
}

impl AlertView {
    pub(super) fn of(AlertAccess { alert, endpoints }: &AlertAccess, source: Option<&str>) -> Self {
        Self {
            alert: alert.name.clone(),
            endpoint: alert.endpoint.clone(),
            receiver: alert.receiver.clone(),
            tenant: alert.tenant.clone(),
            paused: alert.paused,
            endpoints: self::endpoints(endpoints, Shown::Token, source),
        }
    }
}

fn endpoints(endpoints: &[EndpointAccess], shown: Shown, source: Option<&str>) -> Vec<AccessOfEndpoint> {
    endpoints.iter().filter_map(|of| endpoint(of, shown, source)).collect()
}

fn endpoint(of: &EndpointAccess, shown: Shown, only: Option<&str>) -> Option<AccessOfEndpoint> {
    let EndpointAccess { id, name, is_code, adhoc, redaction, limits, planned } = of;
    let tables: Vec<AccessOfTable> =
        planned.pieces.iter().filter_map(|piece| table(piece, (*is_code, *adhoc), shown, only)).collect();
    if only.is_some() && tables.is_empty() {
        return None;
    }
    Some(AccessOfEndpoint {
        id: Id(*id),
        endpoint: name.clone(),
        refused: planned.refused.as_ref().map(|failure| told(failure, shown)),
        adhoc: match adhoc {
            AdhocText::Nothing => "nothing",
            AdhocText::Tables => "tables",
            AdhocText::Sources => "sources",
        },
        redaction: match redaction {
            Redaction::Always => "always",
            Redaction::UnlessTurnedOff => "unless_turned_off",
            Redaction::OnRequest => "on_request",
        },
        limits: limits.clone(),
        tables,
    })
}

/// A reason for those who may know it.
fn told(failure: &Failure, shown: Shown) -> String {
    match shown {
        // What the token fixes is its own; what is wrong with a statement may name what it reads.
        Shown::Itself if failure.code.status() != 403 => "it cannot be used now".to_owned(),
        _ => failure.to_string(),
    }
}

fn table(of: &PlannedPiece, how: (bool, AdhocText), shown: Shown, only: Option<&str>) -> Option<AccessOfTable> {
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
    Some(AccessOfTable {
        table: if of.piece == Piece::Body { "(body)".to_owned() } else { of.name.clone() },
        kind,
        read_by,
        parameters: of.parameters.clone(),
        failed: of.failure.as_ref().map(|failure| told(failure, shown)),
        sources: sources.into_iter().map(|own| source(own, refusal, shown)).collect(),
    })
}

fn source(of: &PlannedSource, refusal: Option<&PlannedSource>, to: Shown) -> AccessOfSource {
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
    let is_named = to != Shown::Itself || access != "refused";
    AccessOfSource {
        id: is_named.then_some(Id(*id)),
        source: is_named.then(|| name.clone()),
        rows: text,
        access,
        shared: *shared,
        reason,
        by_policy,
        columns: is_named.then(|| columns.clone()),
    }
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
