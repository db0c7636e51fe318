//! `/api/access` and its like: who reads what. The reports are made of plans, so they take a permit like a query.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use serde::Deserialize;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::access_report::AccessReports;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::Access;
use uuid::Uuid;

use super::access_view::{self, AccessOfClasses, AccessOfToken, AlertView, ClassView, RuleView, Shown};
use super::tokens::CurrentAccessToken;
use super::{Admin, ManageResult, answer_room, found};
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

/// Makes a report with one of the token's permits.
async fn planned<T: Send + 'static>(
    service: &Service,
    access: &Access,
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let executor = &service.executor;
    executor.run_with_permit(access.account(), executor.limits().wall_clock, work).await
}

/// `GET /api/access`: what the tokens of each class may do, those of each rule of an issuer, and what alerts read; `?source=`
/// by what reads that source, `?rule=` of that rule alone.
pub(crate) async fn all(admin: Admin, Query(narrowed): Query<Narrowed>) -> ManageResult<AccessOfClasses> {
    answer_room::take(&admin, &admin.caller).await?;
    let reports = admin.access.clone();
    let source = narrowed.source(&reports)?;
    let ((id, name), only) = (source.unzip(), narrowed.rule());
    let work = async move {
        let rules = reports.clone().of_rules(only.as_deref(), id).await?;
        let (classes, alerts) = match only {
            Some(_) => (Vec::new(), Vec::new()),
            None => (reports.clone().of_classes(id).await?, reports.clone().of_alerts(id).await?),
        };
        let name = name.as_deref();
        let classes = classes.iter().map(|of| ClassView::of(of, reports.writes(&of.class.access), name));
        let rules = rules.iter().map(|of| RuleView::of(of, reports.writes(&of.rule.access), name));
        // Classes that may not read the source at all say nothing about it.
        Ok(AccessOfClasses {
            classes: classes.filter(|class| id.is_none() || class.of.says_anything()).collect(),
            rules: rules.filter(|rule| id.is_none() || rule.of.says_anything()).collect(),
            alerts: alerts.iter().map(|alert| AlertView::of(alert, name)).collect(),
        })
    };
    found(planned(&admin, &admin.caller, work).await?)
}

/// `GET /api/access-tokens/{id}/access`: what a token may do.
pub(crate) async fn of_token(
    admin: Admin,
    Path(id): Path<String>,
    Query(narrowed): Query<Narrowed>,
) -> ManageResult<AccessOfToken> {
    answer_room::take(&admin, &admin.caller).await?;
    let of = Uuid::try_parse(&id).ok().and_then(|id| admin.tokens.by_id(id));
    let unknown = || {
        let message = format!("there is no access token {id}, or it is revoked; tokens are named by id");
        Failure::new(Code::NotFound, message)
    };
    let of = of.ok_or_else(unknown)?;
    found(report(&admin, &admin.caller, of, Shown::Token, &narrowed).await?)
}

/// `GET /api/access-tokens/current/access`: what the token of the request may do. Every valid token may ask it.
pub(crate) async fn of_itself(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult<AccessOfToken> {
    let access = authenticate(&app.service, &headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    let shown = if access.is_private() { Shown::Token } else { Shown::Itself };
    let of = Arc::clone(&access);
    found(report(&app.service, &access, of, shown, &Narrowed { source: None, rule: None }).await?)
}

async fn report(
    service: &Service,
    asker: &Access,
    of: Arc<Access>,
    shown: Shown,
    narrowed: &Narrowed,
) -> Result<AccessOfToken, Failure> {
    let reports = service.access.clone();
    let (source, name) = narrowed.source(&reports)?.unzip();
    let work = async move {
        let endpoints = reports.clone().of_reader(Arc::clone(&of), source).await?;
        let (token, writes) = (CurrentAccessToken::of(&of).used(&of), reports.writes(&of));
        Ok(AccessOfToken { token, of: access_view::reader(&of, writes, &endpoints, shown, name.as_deref()) })
    };
    planned(service, asker, work).await
}
