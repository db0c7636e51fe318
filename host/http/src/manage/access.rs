//! `/api/access` and its like: who reads what. The reports are made of plans, so they take a place like a query.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::Tenant;
use tidegate_service::access_report::AccessReports;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::Access;
use uuid::Uuid;

use super::access_view::{self, Shown};
use super::{ManageResult, answer_room, found, private};
use crate::app::App;
use crate::auth::authenticate;

/// The query string of the reports.
#[derive(Deserialize)]
pub(crate) struct Narrowed {
    source: Option<String>,
    /// Only of `/api/access`: one rule of an issuer.
    rule: Option<String>,
}

impl Narrowed {
    /// The rule that alone is told.
    fn rule(&self) -> Option<String> {
        self.rule.clone().filter(|name| !name.is_empty())
    }

    /// The source by which a report is narrowed, with the name that it has now.
    fn source(&self, reports: &AccessReports) -> Result<Option<(Uuid, String)>, Failure> {
        self.source.as_deref().filter(|name| !name.is_empty()).map(|name| reports.source(name)).transpose()
    }
}

/// Makes a report in one of the token's places.
async fn planned<T: Send + 'static>(
    app: &App,
    access: &Access,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let executor = &app.service.executor;
    executor.run_in_place(Tenant::Token(access.identity), executor.limits().wall_clock, work).await
}

/// `GET /api/access`: what the tokens of each class may do, those of each rule of an issuer, and what alerts read; `?source=`
/// by what reads that source, `?rule=` of that rule alone.
pub(crate) async fn all(
    State(app): State<Arc<App>>,
    Query(narrowed): Query<Narrowed>,
    headers: HeaderMap,
) -> ManageResult {
    let access = private(&app.service, &headers)?;
    answer_room::take(&app.service, &access).await?;
    let reports = app.service.access.clone();
    let source = narrowed.source(&reports)?;
    let ((id, name), only) = (source.unzip(), narrowed.rule());
    let work = async move {
        let rules = reports.clone().of_rules(only.as_deref(), id).await?;
        let (classes, alerts) = match only {
            Some(_) => (Vec::new(), Vec::new()),
            None => (reports.clone().of_classes(id).await?, reports.clone().of_alerts(id).await?),
        };
        let name = name.as_deref();
        let class = |class| access_view::class(class, reports.writes(&class.class.access), name);
        let rule = |rule| access_view::rule(rule, reports.writes(&rule.rule.access), name);
        let alert = |alert| access_view::alert(alert, name);
        Ok((
            classes.iter().map(class).collect::<Vec<Value>>(),
            rules.iter().map(rule).collect::<Vec<Value>>(),
            alerts.iter().map(alert).collect::<Vec<Value>>(),
        ))
    };
    let (classes, rules, alerts) = planned(&app, &access, work).await?;
    // Classes that may not read the source at all say nothing about it. Private tokens read every source.
    let says = |class: &Value| {
        let endpoints = class.get("endpoints").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        id.is_none() || endpoints || class.get("private") == Some(&Value::Bool(true))
    };
    let those = |all: Vec<Value>| all.into_iter().filter(says).collect::<Vec<_>>();
    found(json!({"classes": those(classes), "rules": those(rules), "alerts": alerts}))
}

/// `GET /api/access-tokens/{id}/access`: what a token may do.
pub(crate) async fn of_token(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(narrowed): Query<Narrowed>,
    headers: HeaderMap,
) -> ManageResult {
    let access = private(&app.service, &headers)?;
    answer_room::take(&app.service, &access).await?;
    let of = Uuid::try_parse(&id).ok().and_then(|id| app.service.tokens.by_id(id));
    let unknown = || {
        let message = format!("there is no access token {id}, or it is revoked; tokens are named by id");
        Failure::new(Code::NotFound, message)
    };
    let of = of.ok_or_else(unknown)?;
    found(report(&app, &access, of, Shown::Token, &narrowed).await?)
}

/// `GET /api/access-tokens/current/access`: what the token of the request may do. Every valid token may ask it.
pub(crate) async fn of_itself(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    let access = authenticate(&app.service, &headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    let shown = if access.is_private() { Shown::Token } else { Shown::Itself };
    let of = Arc::clone(&access);
    found(report(&app, &access, of, shown, &Narrowed { source: None, rule: None }).await?)
}

async fn report(
    app: &App,
    asker: &Access,
    of: Arc<Access>,
    shown: Shown,
    narrowed: &Narrowed,
) -> Result<Value, Failure> {
    let reports = app.service.access.clone();
    let (source, name) = narrowed.source(&reports)?.unzip();
    let work = async move {
        let endpoints = reports.clone().of_reader(Arc::clone(&of), source).await?;
        let fields = [
            ("token", access_view::token(&of)),
            ("private", of.is_private().into()),
            ("writes", access_view::writes(reports.writes(&of))),
            ("endpoints", access_view::endpoints(&endpoints, shown, name.as_deref())),
        ];
        Ok(Map::from_iter(fields.map(|(name, value)| (name.to_owned(), value))).into())
    };
    planned(app, asker, work).await
}
