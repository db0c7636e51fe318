//! `/api/issuers/denied`: the deny list, by which tokens of issuers are refused before they end.

use std::sync::LazyLock;

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{Code, Failure, nearest};
use tidegate_service::catalog::DeniedRecord;
use tidegate_service::issuers::Issuers;
use tidegate_service::tokens::{DeniedClaim, MOST_DENIED, NewDenial};
use uuid::Uuid;

use super::fields::{Definition as _, Fields, definition, shown_names};
use super::{Admin, ManageResult, created, found};
use crate::failure::Refusal;
use crate::shown::{Id, Time};

definition! {
    /// What may be said of tokens of an issuer that are refused.
    pub(crate) struct DenialFields and NewDeniedTokens needs ["issuer", "until"] {
        /// The name of an [[issuer]] of the configuration, or its iss.
        issuer: String,
        /// The sub of the tokens.
        #[schemars(length(max = 255))]
        subject: Option<String>,
        /// The jti of one token, in the place of a subject.
        #[schemars(length(max = 1024))]
        jti: Option<String>,
        /// When they are no longer refused; at most 366 days ahead.
        #[schemars(extend("format" = "date-time"))]
        until: String = "an ISO 8601 time",
        #[schemars(length(max = 512))]
        reason: Option<String>,
    }
}

/// Tokens of an issuer that are refused.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeniedTokens {
    id: Id,
    /// The issuer's name; null if the configuration does not have it.
    name: Option<String>,
    /// The iss of the tokens.
    issuer: String,
    /// The sub of the tokens.
    subject: Option<String>,
    /// The jti of one token, in the place of a subject.
    jti: Option<String>,
    until: Time,
    reason: String,
    inserted_at: Time,
}

fn shown(issuers: &Issuers, record: DeniedRecord) -> DeniedTokens {
    let of = |claim: DeniedClaim| (record.claim == claim.name()).then(|| record.value.clone());
    DeniedTokens {
        id: Id(record.id),
        name: issuers.named(&record.issuer).map(|issuer| issuer.name.clone()),
        subject: of(DeniedClaim::Subject),
        jti: of(DeniedClaim::TokenId),
        until: Time(record.until),
        inserted_at: Time(record.created_at),
        issuer: record.issuer,
        reason: record.reason,
    }
}

/// `GET /api/issuers/denied`: what is denied now, oldest first.
pub(crate) async fn list(admin: Admin) -> ManageResult<Vec<DeniedTokens>> {
    let all = admin.denied_tokens().await?;
    found(all.into_iter().map(|record| shown(&admin.issuers, record)).collect())
}

/// The fields that answers show.
static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<DeniedTokens>);

/// `POST /api/issuers/denied`: denies the tokens of a subject, or one token. It is in effect when it is answered. If they are
/// denied already, the entry gets the new end and reason.
pub(crate) async fn deny(admin: Admin, request: Request) -> ManageResult<DeniedTokens> {
    let service = &admin;
    let mut fields = Fields::read(service, &admin.caller, request).await?;
    fields.ignore_shown(&SHOWN);
    let sent = DenialFields::take(&mut fields);
    let issuer = issuer(&mut fields, sent.issuer, &service.issuers);
    let (claim, value) = claim(&mut fields, sent.subject.flatten(), sent.jti.flatten());
    if sent.until.is_none() && !fields.has_refused("until") {
        fields.refuse("until", "until is missing: when the tokens are good again, as an ISO 8601 time");
    }
    let now = service.clock.now();
    // What is missing is told already; a time that is none stands for one that is fine.
    let until = sent.until.and_then(|text| fields.time("until", &text)).unwrap_or(now + 1);
    let new = NewDenial { issuer, claim, value, until, reason: sent.reason.flatten().unwrap_or_default() };
    fields.check(new.validate(now));
    fields.done()?;
    let Some(stored) = service.deny_tokens(&new).await? else {
        let message = format!(
            "the deny list has {MOST_DENIED} entries, which is the most; DELETE /api/issuers/denied/ID takes one away, and \
             not_before of the [[issuer]] refuses all its tokens from before a time"
        );
        return Err(Failure::new(Code::Refused, message).into());
    };
    tracing::info!(denied = %stored.id, issuer = stored.issuer, by = admin.caller.label(), "tokens of an issuer are denied");
    created(shown(&service.issuers, stored))
}

/// `DELETE /api/issuers/denied/{denied}`: the tokens are good again.
pub(crate) async fn allow(admin: Admin, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let missing = || {
        let message =
            format!("the deny list has no entry {id}; GET /api/issuers/denied shows the ids, and what is over is gone");
        Failure::new(Code::NotFound, message)
    };
    let wanted = Uuid::try_parse(&id).map_err(|_| missing())?;
    if !admin.allow_tokens(wanted).await? {
        return Err(missing().into());
    }
    tracing::info!(denied = %wanted, by = admin.caller.label(), "tokens of an issuer are no longer denied");
    Ok(StatusCode::NO_CONTENT)
}

/// The `iss` that is meant by the field `issuer`: the name of an issuer, or its `iss`. Only issuers of the configuration are
/// taken, because an entry for a misspelt one would deny nothing.
fn issuer(fields: &mut Fields, sent: Option<String>, issuers: &Issuers) -> String {
    let Some(named) = sent else {
        if !fields.has_refused("issuer") {
            fields.refuse("issuer", "issuer is missing: the name of an [[issuer]], or its iss");
        }
        return String::new();
    };
    if let Some(issuer) = issuers.named(&named) {
        return issuer.issuer.clone();
    }
    let known: Vec<_> = issuers.names().collect();
    let hint = match nearest(&named, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None if known.is_empty() => "the configuration has no [[issuer]]".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    fields.refuse("issuer", format!("there is no issuer '{named}'; {hint}"));
    String::new()
}

/// The claim that is denied, by the one of two fields that was sent.
fn claim(fields: &mut Fields, subject: Option<String>, id: Option<String>) -> (DeniedClaim, String) {
    match (subject, id) {
        (Some(subject), None) => (DeniedClaim::Subject, subject),
        (None, Some(id)) => (DeniedClaim::TokenId, id),
        (both, _) => {
            if !fields.has_refused("subject") && !fields.has_refused("jti") {
                let what = if both.is_some() { "both of them are" } else { "neither of them is" };
                let message = format!("{what} sent: subject denies all tokens of a subject, jti denies one token");
                fields.refuse("subject", message);
            }
            (DeniedClaim::Subject, "-".to_owned())
        }
    }
}
