//! `/api/issuers/denied`: the deny list, by which tokens of issuers are refused before they end.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure, nearest, parse_timestamp};
use tidegate_service::issuers::Issuers;
use tidegate_service::tokens::{DeniedClaim, MOST_DENIED, NewDenial};
use tidegate_service::{Service, blocking};
use tidegate_store::{DeniedRecord, Store};
use uuid::Uuid;

use super::fields::Fields;
use super::{ManageResult, created, found, private, time};
use crate::app::App;
use crate::failure::Refusal;

/// The fields of an entry that are shown, and ignored when they are sent.
const SHOWN_ONLY: [&str; 3] = ["id", "name", "inserted_at"];

/// An entry as it is shown. Its `name` is null if the configuration has no such issuer any more.
fn shown(issuers: &Issuers, record: &DeniedRecord) -> Value {
    let of = |claim: DeniedClaim| (record.claim == claim.name()).then_some(&record.value);
    json!({
        "id": record.id.to_string(),
        "name": issuers.named(&record.issuer).map(|issuer| &issuer.name),
        "issuer": record.issuer,
        "subject": of(DeniedClaim::Subject),
        "jti": of(DeniedClaim::TokenId),
        "until": time(record.until),
        "reason": record.reason,
        "inserted_at": time(record.created_at),
    })
}

async fn records(service: &Service) -> Result<Vec<DeniedRecord>, Failure> {
    let now = service.clock.now();
    blocking(&service.store, move |store| store.catalog().denied(now)).await
}

/// `GET /api/issuers/denied`: what is denied now, oldest first.
pub(crate) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let all = records(&app.service).await?;
    found(all.iter().map(|record| shown(&app.service.issuers, record)).collect())
}

/// `POST /api/issuers/denied`: denies the tokens of a subject, or one token. It is in effect when it is answered. If they are
/// denied already, the entry gets the new end and reason.
pub(crate) async fn deny(State(app): State<Arc<App>>, request: Request) -> ManageResult {
    let service = &app.service;
    let access = private(service, request.headers())?;
    let mut fields = Fields::read(service, &access, request).await?;
    fields.ignore(&SHOWN_ONLY);
    let issuer = issuer(&mut fields, &service.issuers);
    let (claim, value) = claim(&mut fields);
    let until = fields.take::<String>("until", "an ISO 8601 time").map(|text| (parse_timestamp(&text), text));
    match &until {
        Some((None, text)) => {
            fields.refuse("until", format!("'{text}' is no ISO 8601 time; write e.g. 2027-01-31T12:00:00Z"));
        }
        None if !fields.has_refused("until") => {
            fields.refuse("until", "until is missing: when the tokens are good again, as an ISO 8601 time");
        }
        _ => {}
    }
    let now = service.clock.now();
    // What is missing is told already; a time that is none stands for one that is fine.
    let until = until.and_then(|(time, _)| time).unwrap_or(now + 1);
    let reason = fields.take::<Option<String>>("reason", "a text, or null").flatten().unwrap_or_default();
    let new = NewDenial { issuer, claim, value, until, reason };
    if let Err(failure) = new.validate(now) {
        for failure in failure.each() {
            if !failure.location.as_deref().is_some_and(|field| fields.has_refused(field)) {
                fields.fail(failure);
            }
        }
    }
    fields.done()?;
    let tokens = Arc::clone(&service.tokens);
    let record = new.record(now);
    let put = move |store: &Store| tokens.change(store.catalog(), |catalog| catalog.deny(&record, MOST_DENIED));
    let Some(stored) = blocking(&service.store, put).await? else {
        let message = format!(
            "the deny list has {MOST_DENIED} entries, which is the most; DELETE /api/issuers/denied/ID takes one away, and \
             not_before of the [[issuer]] refuses all its tokens from before a time"
        );
        return Err(Failure::new(Code::Refused, message).into());
    };
    tracing::info!(denied = %stored.id, issuer = stored.issuer, by = access.label(), "tokens of an issuer are denied");
    created(shown(&service.issuers, &stored))
}

/// `DELETE /api/issuers/denied/{denied}`: the tokens are good again.
pub(crate) async fn allow(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    let access = private(&app.service, &headers)?;
    let missing = || {
        let message =
            format!("the deny list has no entry {id}; GET /api/issuers/denied shows the ids, and what is over is gone");
        Failure::new(Code::NotFound, message)
    };
    let wanted = Uuid::try_parse(&id).map_err(|_| missing())?;
    let tokens = Arc::clone(&app.service.tokens);
    let delete = move |store: &Store| tokens.change(store.catalog(), |catalog| catalog.allow(wanted));
    if !blocking(&app.service.store, delete).await? {
        return Err(missing().into());
    }
    tracing::info!(denied = %wanted, by = access.label(), "tokens of an issuer are no longer denied");
    Ok(StatusCode::NO_CONTENT)
}

/// The `iss` that is meant by the field `issuer`: the name of an issuer, or its `iss`. Only issuers of the configuration are
/// taken, because an entry for a misspelt one would deny nothing.
fn issuer(fields: &mut Fields, issuers: &Issuers) -> String {
    let Some(named) = fields.text("issuer") else {
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
fn claim(fields: &mut Fields) -> (DeniedClaim, String) {
    let subject = fields.take::<Option<String>>("subject", "a text, or null");
    let id = fields.take::<Option<String>>("jti", "a text, or null");
    match (subject.flatten(), id.flatten()) {
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
