//! `/api/access-tokens`: creates, lists and revokes access tokens. Only the response to the creation contains the token
//! itself.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Code, Errors, Failure, LimitSet};
use tidegate_service::Service;
use tidegate_service::access_report::Widened;
use tidegate_service::catalog::TokenRecord;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::{Access, NewToken, generate_token};
use uuid::Uuid;

use super::fields::{Definition as _, Fields, definition, shown_names};
use super::{Admin, ERRORS_ARE, LIMITS_ARE, ManageResult, created, found};
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::shown::{Id, Time};

/// Scopes as a text, separated by spaces, or as a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum SentScopes {
    Text(String),
    List(Vec<String>),
}

definition! {
    /// What may be said of an access token.
    pub(crate) struct AccessTokenFields and NewAccessToken needs ["scopes"] {
        description: String,
        /// ingest, ingest:source:NAME, query, query:endpoint:NAME, private; separated by blanks.
        #[schemars(with = "String", length(min = 1))]
        scopes: SentScopes = "a text of scopes with blanks between them, or a list of scopes",
        /// Values of parameters that the holder cannot choose.
        pinned: Option<BTreeMap<String, String>> = "an object of parameters and their texts",
        limits: Option<LimitSet> = LIMITS_ARE,
        /// The choice for this token of how errors of queries are answered; the endpoint's choice, else the server's, if null.
        /// With `ok`, they have status 200 with `"result": null` and `error` as a text, where the answer would be JSON; the true
        /// status is then in x-tidegate-status.
        #[schemars(extend("default" = null))]
        errors: Option<Errors> = ERRORS_ARE,
        #[schemars(extend("format" = "date-time"))]
        expires_at: Option<String> = "an ISO 8601 time, or null",
    }
}

/// An access token.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "scopes"]))]
pub(crate) struct AccessToken {
    id: Id,
    #[serde(flatten)]
    fields: AccessTokenFields,
    inserted_at: Time,
    revoked_at: Option<Time>,
    /// Null if it was never used. A crash of the server forgets the uses of the last minute.
    last_used_at: Option<Time>,
}

/// An access token that was just made.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "scopes", "token"]))]
pub(crate) struct MadeAccessToken {
    #[serde(flatten)]
    made: AccessToken,
    /// Shown once.
    token: String,
    /// Endpoints that a scope names and that are not there so far, and what the token reads that no other of its kind did.
    warnings: Vec<String>,
}

/// The token of a request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "description", "scopes", "pinned", "expires_at"]))]
pub(crate) struct CurrentAccessToken {
    /// Null for the tokens of the server's environment.
    id: Option<Id>,
    #[serde(flatten)]
    fields: AccessTokenFields,
    /// When it was last used, or null; only in reports of who reads what.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Option<Time>>,
}

impl CurrentAccessToken {
    pub(super) fn of(access: &Access) -> Self {
        let fields = AccessTokenFields {
            description: Some(access.who.clone()),
            scopes: Some(SentScopes::Text(access.scopes())),
            pinned: Some(Some(access.pinned.clone())),
            limits: Some(Some(access.limits.clone())),
            errors: Some(access.errors),
            expires_at: Some(access.expires_at().map(|time| Time(time).to_string())),
        };
        Self { id: access.id.map(Id), fields, last_used_at: None }
    }

    /// With its last use.
    pub(super) fn used(self, access: &Access) -> Self {
        Self { last_used_at: Some(access.last_used().map(Time)), ..self }
    }
}

fn shown(record: &TokenRecord) -> AccessToken {
    AccessToken {
        id: Id(record.id),
        fields: AccessTokenFields {
            description: Some(record.description.clone()),
            scopes: Some(SentScopes::Text(record.scopes.clone())),
            pinned: Some(serde_json::from_str(&record.pinned).ok()),
            limits: Some(serde_json::from_str(&record.limits).ok()),
            errors: Some(record.errors.as_deref().and_then(Errors::named)),
            expires_at: Some(record.expires_at.map(|time| Time(time).to_string())),
        },
        inserted_at: Time(record.created_at),
        revoked_at: record.revoked_at.map(Time),
        last_used_at: record.last_used.map(Time),
    }
}

async fn known(service: &Service, id: &str) -> Result<TokenRecord, Failure> {
    let wanted = Uuid::try_parse(id).ok();
    let record = service.token_records().await?.into_iter().find(|record| Some(record.id) == wanted);
    record.ok_or_else(|| Failure::new(Code::NotFound, format!("there is no access token {id}; tokens are named by id")))
}

/// `GET /api/access-tokens`: the tokens that are not revoked.
pub(crate) async fn list(admin: Admin) -> ManageResult<Vec<AccessToken>> {
    let records = admin.token_records().await?;
    found(records.iter().filter(|record| record.revoked_at.is_none()).map(shown).collect())
}

/// `GET /api/access-tokens/current`: what the token of the request may do. Every valid token may ask it.
pub(crate) async fn current(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult<CurrentAccessToken> {
    let access = authenticate(&app.service, &headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    found(CurrentAccessToken::of(&access))
}

/// `GET /api/access-tokens/{id}`.
pub(crate) async fn show(admin: Admin, Path(id): Path<String>) -> ManageResult<AccessToken> {
    found(shown(&known(&admin, &id).await?))
}

/// The fields that answers show.
static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<MadeAccessToken>);

/// `POST /api/access-tokens`.
pub(crate) async fn create(admin: Admin, request: Request) -> ManageResult<MadeAccessToken> {
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    fields.ignore_shown(&SHOWN);
    let sent = AccessTokenFields::take(&mut fields);
    let scopes = match sent.scopes {
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
    let expires_at = sent.expires_at.flatten().and_then(|text| fields.time("expires_at", &text));
    let new = NewToken {
        description: sent.description.unwrap_or_default(),
        scopes,
        pinned: sent.pinned.flatten().unwrap_or_default(),
        limits: sent.limits.flatten().unwrap_or_default(),
        errors: sent.errors.flatten(),
        expires_at,
    };
    fields.check(new.validate(admin.clock.now()));
    fields.done()?;
    let token = generate_token();
    let record = new.record(&token);
    let made = shown(&record);
    let of_new = Arc::new(Access::of_record(&record));
    let reports = admin.access.clone();
    let widened = admin.compute.run(reports.of_new_token(Arc::clone(&of_new))).await;
    let mut warnings = admin.store_token(new, record).await?;
    let widened = widened.unwrap_or_else(|failure| {
        tracing::warn!(%failure, "what the new access token reads is not known");
        Widened::unknown()
    });
    widened.log(&format!("the new access token {}", of_new.who));
    warnings.extend(widened.lines());
    created(MadeAccessToken { made, token, warnings })
}

/// `DELETE /api/access-tokens/{id}`: revokes the token, at once and permanently. Revoking it again is not an error.
pub(crate) async fn revoke(admin: Admin, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    admin.revoke_token(known(&admin, &id).await?.id).await?;
    Ok(StatusCode::NO_CONTENT)
}
