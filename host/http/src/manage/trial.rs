//! `POST /api/endpoints/{id or name}/try`: a draft runs once, as its callers would run it. Nothing is saved or kept.

use std::sync::Arc;

use axum::extract::{Path, Request};
use axum::response::Response;
use schemars::JsonSchema;
use serde_json::{Map, Value};
use tidegate_service::execution::{RunRecord, SentParameters, redaction};
use tidegate_service::queries::learns_cost;
use tidegate_service::rate::RequestClass;
use tidegate_service::{SaveRequest, Service};

use super::Admin;
use super::endpoint_view::EndpointFields;
use super::endpoints::{draft_of, known_if_there};
use super::fields::Fields;
use super::saving::on_save;
use crate::accept::take_format;
use crate::cached::bypassed;
use crate::failure::Refusal;
use crate::query::write_cost;
use crate::request_context::note;
use crate::response::respond;

/// The error text for the field `arguments`: what it must be.
const ARGUMENTS_ARE: &str = "an object of parameters and their values";

/// A draft of an endpoint, and the request that it is run with.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("required" = []))]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct TriedEndpoint {
    #[serde(flatten)]
    fields: EndpointFields,
    /// The parameters of the request, as a query takes them.
    arguments: Map<String, Value>,
}

/// The handler. It takes the fields of an endpoint, and in `arguments` the parameters of a request to it.
pub(crate) async fn run(admin: Admin, Path(id): Path<String>, request: Request) -> Result<Response, Refusal> {
    let (service, access): (&Service, _) = (&admin, Arc::clone(&admin.caller));
    let (now, headers) = (service.clock.now(), request.headers().clone());
    admin.app.limit_rate(RequestClass::Queries, access.identity)?;
    let old = known_if_there(service, &id).await?;
    let mut fields = Fields::read(service, &admin.caller, request).await?;
    let arguments = fields.take::<Map<String, Value>>("arguments", ARGUMENTS_ARE).unwrap_or_default();
    let draft = draft_of(service, &mut fields, old.as_ref()).await?;
    let kept = old.as_ref().map(|old| old.digest.clone());
    let saving = old.map(|old| old.saving("")).unwrap_or_default();
    let saving = SaveRequest { same_query: draft.same_query, from: None, ..saving };
    let endpoint = service.registrar.draft(&draft.component, kept, saving).await.map_err(on_save)?;
    // It is no call of the endpoint, so its statistics do not count it.
    note(|context| context.endpoint = Some(endpoint.manifest.name.to_string()));
    let mut sent = SentParameters::of_object(arguments)?;
    let format = take_format(&mut sent.values, &endpoint.manifest, &headers)?;
    let redact = redaction(&endpoint, &admin.caller, None)?;
    let (account, shows_cost) = (admin.caller.account(), learns_cost(&admin.caller));
    let checked = Arc::new(service.executor.checked(account, endpoint, access, sent, format, redact).await?);
    let record = Arc::<RunRecord>::default();
    let answer = Arc::clone(&service.executor).execute(checked, now, account, Arc::clone(&record)).await?;
    let mut response = bypassed(respond(answer));
    if shows_cost {
        write_cost(record.cost(), response.headers_mut());
    }
    Ok(response)
}
