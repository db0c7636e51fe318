//! Errors of the parts below as failures, and failures as JSON.
//!
//! What a caller may read and what only the operator may read is decided here for the store; the form of an error
//! document is the same wherever one is written: in an HTTP answer, at the end of a streamed answer, in the workbench.

use serde_json::{Value, json};
use tidegate_model::{Code, Failure, ManifestError, NotForSender, NotOfTenant, Position, nearest};
use tidegate_store::StoreError;

/// A failure as a JSON document: `{"error": {code, message, status, errors}}`, with one element in `errors` for the
/// failure and one for each of the others in it.
pub fn document(failure: &Failure) -> Value {
    let details: Vec<Value> = std::iter::once(failure).chain(&failure.others).map(detail).collect();
    json!({
        "error": {
            "code": failure.code.name(),
            "message": text(failure),
            "status": failure.code.status(),
            "errors": details,
        }
    })
}

/// All that is wrong as one text: the messages of the failure and of the others in it, joined by `; `.
pub fn text(failure: &Failure) -> String {
    let all: Vec<String> = std::iter::once(failure).chain(&failure.others).map(Failure::to_string).collect();
    all.join("; ")
}

fn detail(failure: &Failure) -> Value {
    let place = failure.position.map(|Position { line, column }| format!("line {line}, column {column}"));
    json!({
        "reason": failure.code.name(),
        "location": failure.location.clone().or(place),
        "message": failure.message,
    })
}

/// The failure that a caller sees for an error of the store. Details that are for the operator go to the log.
pub fn of_store(error: StoreError) -> Failure {
    match &error {
        // Without the names that exist, because the caller may be a sender that may not learn them.
        StoreError::UnknownSource { name, .. } => unknown_source(name, &[]),
        StoreError::NotOfTenant { source_name, why } => {
            // Callers do not learn the names of sources.
            tracing::warn!(source = source_name, ?why, "a token that is held to a tenant may not read a source");
            not_of_tenant(why)
        }
        StoreError::NotForSender { source_name, why } => not_for_sender(source_name, why),
        StoreError::TenancyChanged(_) => Failure::new(
            Code::DataUnavailable,
            "the tenant keys of the source have changed while the events arrived; nothing of the request was stored, try \
             again",
        ),
        StoreError::InvalidName { .. } => Failure::new(Code::Refused, error.to_string()).about("name"),
        StoreError::Exists(name) => {
            Failure::new(Code::Refused, format!("the name {name} is taken; names are unique")).about("name")
        }
        StoreError::Overloaded { .. } | StoreError::Backlog { .. } => Failure::new(
            Code::TooManyRequests,
            "more events wait to be written than may wait; nothing of the request was stored, try again",
        ),
        StoreError::Closed => Failure::new(
            Code::Overloaded,
            "the service is ending and takes no more events; nothing of the request was stored, try again",
        ),
        StoreError::DiskFull(_) => Failure::new(
            Code::StorageFull,
            "the disk of the server is full; nothing of the request was stored, reads go on",
        ),
        StoreError::CommitFailed(_) | StoreError::ReadOnly(_) => {
            tracing::error!(%error, "the store refuses events");
            Failure::new(
                Code::DataUnavailable,
                "the store cannot write; nothing of the request was stored, reads go on",
            )
        }
        StoreError::Replaced { .. } => Failure::new(
            Code::DataUnavailable,
            "another server has taken over the logs of this one; nothing of the request was stored, send it there",
        ),
        StoreError::Unconfirmed(_) => {
            tracing::error!(%error, "the store does not know what is stored");
            Failure::new(
                Code::Unconfirmed,
                "a write failed in the middle, and it is not known whether it is stored; send the request again with the \
                 same Idempotency-Key: if it had none, it may be stored twice",
            )
        }
        StoreError::KeyReused => Failure::new(
            Code::KeyReused,
            "the Idempotency-Key was used for another body; nothing of the request was stored, give each request a key \
             of its own",
        )
        .about("idempotency-key"),
        _ => {
            tracing::error!(%error, "the store failed");
            Failure::new(Code::Internal, "the store failed; the server's log has the details")
        }
    }
}

/// The refusal of a statement that reads a source which cannot tell which rows are those of the caller.
fn not_of_tenant(why: &NotOfTenant) -> Failure {
    let what = match why {
        NotOfTenant::Undeclared => "does not say whose its rows are".to_owned(),
        NotOfTenant::NoKey => "has none of the names that the token fixes as a tenant key".to_owned(),
        NotOfTenant::LacksKey(name) => format!("does not have the tenant key {name}"),
    };
    let message = format!(
        "the access token is held to the rows of a tenant, and the query reads a source that {what}; whoever manages the \
         source declares it: PATCH /api/sources/NAME {{\"tenant\": {{\"KEY\": \"path.to.field\"}}}}, or \"shared\" for \
         rows that all tenants may read"
    );
    Failure::new(Code::Forbidden, message)
}

/// A sender that sends logs of one tenant names a source that cannot hold them. It may send to the source, so it knows
/// the name.
fn not_for_sender(source: &str, why: &NotForSender) -> Failure {
    let declare = |key: &str| {
        format!(
            "whoever manages the source declares it: PATCH /api/sources/{source} {{\"tenant\": {{\"{key}\": \"path.to.field\"}}}}"
        )
    };
    let (what, remedy) = match why {
        NotForSender::Undeclared => (format!("the source {source} does not say whose its rows are"), declare("KEY")),
        NotForSender::Shared => (
            format!("the rows of the source {source} are for all tenants"),
            "send there with a token that fixes nothing".to_owned(),
        ),
        NotForSender::LacksKey(name) => {
            (format!("the source {source} does not have the tenant key {name}"), declare(name))
        }
        NotForSender::UnknownKey(name) => (
            format!("no source has the tenant key {name}"),
            format!("where the name is misspelt, make another token; where it is not, {}", declare(name)),
        ),
    };
    let message = format!("the access token sends logs of one tenant only, and {what}; {remedy}");
    Failure::new(Code::Forbidden, message).about(source)
}

/// The failure for a source that does not exist. `known` are the names that the caller may learn.
pub fn unknown_source(name: &str, known: &[String]) -> Failure {
    let mut message = format!("there is no source {name}");
    if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
        message.push_str(&format!("; did you mean {near}?"));
    }
    Failure::new(Code::NotFound, with_way_to_create(message)).about(name)
}

/// The failure for a rule of an issuer that is not in the configuration.
pub(crate) fn unknown_rule<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Failure {
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!("; did you mean {near}?"),
        None if known.clone().next().is_none() => "; the configuration has no issuer".to_owned(),
        None => "; rules are named ISSUER/RULE, as main/1".to_owned(),
    };
    Failure::new(Code::NotFound, format!("there is no rule {name}{hint}")).about("rule")
}

/// A message about a source or a table that does not exist, with how a source is created.
pub(crate) fn with_way_to_create(mut message: String) -> String {
    message.push_str(if message.ends_with('?') { " " } else { "; " });
    message.push_str("POST /api/sources {\"name\": \"NAME\"} makes a source");
    message
}

/// The failure for a manifest that breaks a rule: a refusal that names the field.
pub fn of_manifest(error: &ManifestError) -> Failure {
    Failure::new(Code::Refused, error.to_string()).about(error.field())
}

/// A refusal of a definition, without a location.
pub(crate) fn refused(message: String) -> Failure {
    Failure::new(Code::Refused, message)
}
