//! `POST /api/endpoints/{id or name}/try`: a draft runs once, as its callers would run it. Nothing is saved or kept.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::{Map, Value};
use tidegate_service::SaveRequest;
use tidegate_service::execution::{RunRecord, SentParameters, redaction};
use tidegate_service::queries::learns_cost;
use tidegate_service::rate::RequestClass;

use super::components::on_save;
use super::endpoints::{draft_of, known_if_there};
use super::fields::Fields;
use super::private;
use crate::accept::take_format;
use crate::app::App;
use crate::cached::bypassed;
use crate::failure::Refusal;
use crate::notes::note;
use crate::query::write_cost;
use crate::response::respond;

/// The error text for the field `arguments`: what it must be.
const ARGUMENTS_ARE: &str = "an object of parameters and their values";

/// The handler. It takes the fields of an endpoint, and in `arguments` the parameters of a request to it.
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let service = &app.service;
    let (now, headers) = (service.clock.now(), request.headers().clone());
    let access = private(service, &headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    let old = known_if_there(service, &id).await?;
    let mut fields = Fields::read(service, &access, request).await?;
    let arguments = fields.take::<Map<String, Value>>("arguments", ARGUMENTS_ARE).unwrap_or_default();
    let draft = draft_of(service, &mut fields, old.as_ref()).await?;
    let kept = old.as_ref().map(|old| old.digest.clone());
    let saving = SaveRequest {
        id: old.as_ref().map(|old| old.id),
        known: old.map(|old| old.tables).unwrap_or_default(),
        same_query: draft.same_query,
        ..SaveRequest::default()
    };
    let endpoint = service.registrar.draft(&draft.component, kept, saving).await.map_err(on_save)?;
    // It is no call of the endpoint, so its statistics do not count it.
    note(|notes| notes.endpoint = Some(endpoint.manifest.name.to_string()));
    let mut sent = SentParameters::of_object(arguments)?;
    let format = take_format(&mut sent.values, &endpoint.manifest, &headers)?;
    let redact = redaction(&endpoint, &access, None)?;
    let (tenant, shows_cost) = (access.tenant(), learns_cost(&access));
    let checked = Arc::new(service.executor.checked(tenant, endpoint, access, sent, format, redact).await?);
    let record = Arc::<RunRecord>::default();
    let answer = Arc::clone(&service.executor).execute(checked, now, tenant, Arc::clone(&record)).await?;
    let mut response = bypassed(respond(answer));
    if shows_cost {
        write_cost(record.cost(), response.headers_mut());
    }
    Ok(response)
}
