//! `/api/access-tokens`: creates, lists and revokes access tokens. Only the response to the creation contains the token
//! itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::{Code, Errors, Failure, LimitSet, parse_timestamp};
use tidegate_service::access_report::Widened;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::{Access, NewToken, generate_token};
use tidegate_service::{Service, blocking};
use tidegate_store::{Store, TokenRecord};
use uuid::Uuid;

use super::fields::Fields;
use super::saving::warn;
use super::{ERRORS_ARE, LIMITS_ARE, ManageResult, created, found, private, time};
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;

/// Scopes as a text, separated by spaces, or as a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum SentScopes {
    Text(String),
    List(Vec<String>),
}

/// The fields of a token that are shown, and ignored when they are sent.
const SHOWN_ONLY: [&str; 6] = ["id", "token", "inserted_at", "revoked_at", "last_used_at", "warnings"];

fn shown(record: &TokenRecord) -> Value {
    let pinned: Value = serde_json::from_str(&record.pinned).unwrap_or_default();
    let limits: Value = serde_json::from_str(&record.limits).unwrap_or_default();
    json!({
        "id": record.id.to_string(),
        "description": record.description,
        "scopes": record.scopes,
        "pinned": pinned,
        "limits": limits,
        "errors": record.errors,
        "inserted_at": time(record.created_at),
        "expires_at": record.expires_at.map_or(Value::Null, time),
        "revoked_at": record.revoked_at.map_or(Value::Null, time),
        "last_used_at": record.last_used.map_or(Value::Null, time),
    })
}

async fn records(service: &Service) -> Result<Vec<TokenRecord>, Failure> {
    let tokens = Arc::clone(&service.tokens);
    blocking(&service.store, move |store| tokens.records(store.catalog())).await
}

async fn known(service: &Service, id: &str) -> Result<TokenRecord, Failure> {
    let wanted = Uuid::try_parse(id).ok();
    let record = records(service).await?.into_iter().find(|record| Some(record.id) == wanted);
    record.ok_or_else(|| Failure::new(Code::NotFound, format!("there is no access token {id}; tokens are named by id")))
}

/// `GET /api/access-tokens`: the tokens that are not revoked.
pub(crate) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    found(records(&app.service).await?.iter().filter(|record| record.revoked_at.is_none()).map(shown).collect())
}

/// `GET /api/access-tokens/current`: what the token of the request may do. Every valid token may ask it.
pub(crate) async fn current(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    let access = authenticate(&app.service, &headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    found(json!({
        "id": access.id.map(|id| id.to_string()),
        "description": access.who,
        "scopes": access.scopes(),
        "pinned": access.pinned,
        "limits": access.limits,
        "errors": access.errors,
        "expires_at": access.expires_at().map_or(Value::Null, time),
    }))
}

/// `GET /api/access-tokens/{id}`.
pub(crate) async fn show(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    found(shown(&known(&app.service, &id).await?))
}

/// `POST /api/access-tokens`.
pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let mut fields = Fields::read(&app.service, &access, request).await?;
    fields.ignore(&SHOWN_ONLY);
    let scopes = match fields.take("scopes", "a text of scopes with blanks between them, or a list of scopes") {
        Some(SentScopes::Text(text)) => text,
        Some(SentScopes::List(scopes)) => {
            if let Some(scope) = scopes.iter().find(|scope| scope.contains(char::is_whitespace)) {
                let message = format!("the scope '{scope}' has a blank in it; name the endpoint or source by its id");
                fields.refuse("scopes", message);
            }
            scopes.join(" ")
        }
        None => String::new(),
    };
    let expires_at = match fields.take::<Option<String>>("expires_at", "an ISO 8601 time, or null").flatten() {
        Some(text) => {
            let time = parse_timestamp(&text);
            if time.is_none() {
                fields.refuse("expires_at", format!("'{text}' is no ISO 8601 time; write e.g. 2027-01-31T12:00:00Z"));
            }
            time
        }
        None => None,
    };
    let new = NewToken {
        description: fields.text("description").unwrap_or_default(),
        scopes,
        pinned: fields
            .take::<Option<BTreeMap<String, String>>>("pinned", "an object of parameters and their texts")
            .flatten()
            .unwrap_or_default(),
        limits: fields.take::<Option<LimitSet>>("limits", LIMITS_ARE).flatten().unwrap_or_default(),
        errors: fields.take::<Option<Errors>>("errors", ERRORS_ARE).flatten(),
        expires_at,
    };
    if let Err(failure) = new.validate(app.service.clock.now()) {
        for failure in failure.each() {
            if !failure.location.as_deref().is_some_and(|field| fields.has_refused(field)) {
                fields.fail(failure);
            }
        }
    }
    fields.done()?;
    let token = generate_token();
    let record = new.record(&token);
    let mut value = shown(&record);
    let of_new = Arc::new(Access::of_record(&record));
    let reports = app.service.access.clone();
    let widened = app.service.compute.run(reports.of_new_token(Arc::clone(&of_new))).await;
    let tokens = Arc::clone(&app.service.tokens);
    let put = move |store: &Store| {
        // The warnings are made first: if that failed after the token was stored, the token would never be shown.
        let warnings = new.warnings(store.catalog())?;
        tokens.change(store.catalog(), |catalog| catalog.put_token(&record))?;
        Ok(warnings)
    };
    let warnings = blocking(&app.service.store, put).await?;
    let widened = widened.unwrap_or_else(|failure| {
        tracing::warn!(%failure, "what the new access token reads is not known");
        Widened::unknown()
    });
    widened.log(&format!("the new access token {}", of_new.who));
    if let Value::Object(fields) = &mut value {
        fields.insert("warnings".to_owned(), warnings.into());
        fields.insert("token".to_owned(), token.into());
    }
    warn(&mut value, &widened);
    created(value)
}

/// `DELETE /api/access-tokens/{id}`: revokes the token, at once and permanently. Revoking it again is not an error.
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    private(&app.service, &headers)?;
    let record = known(&app.service, &id).await?;
    let tokens = Arc::clone(&app.service.tokens);
    let revoke = move |store: &Store| tokens.change(store.catalog(), |catalog| catalog.revoke_token(record.id));
    blocking(&app.service.store, revoke).await?;
    Ok(StatusCode::NO_CONTENT)
}
