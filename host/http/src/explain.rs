//! `POST /api/endpoints/{endpoint}/explain`: what a query would read, without running it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use serde_json::{Map, Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::ComponentKind;
use tidegate_service::answer::Format;
use tidegate_service::execution::{Explanation, code_is_not_explained};
use tidegate_service::queries::learns_cost;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::NewToken;
use tidegate_store::{ScanOutline, ScanPlace, SegmentTotals, TableOutline};

use crate::accept::take_format;
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::notes::note;
use crate::parameters::QueryBody;
use crate::query::read_body;

/// The most scans that are shown, and bytes of the text of a condition.
const MOST_SCANS: usize = 200;
const LONGEST_CONDITION: usize = 2_000;

/// The handler. It takes what a query takes. Its figures tell about rows of all, as the header with the cost of a query
/// does, so it is for the same tokens.
pub(crate) async fn explain(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    let service = &app.service;
    let now = service.clock.now();
    let (head, body) = request.into_parts();
    let access = authenticate(service, &head.headers)?;
    app.limit_rate(RequestClass::Queries, access.identity)?;
    if !learns_cost(&access) {
        let message = "explaining a query needs an access token with the scope private and without pinned parameters";
        return Err(Failure::new(Code::Forbidden, message).into());
    }
    let endpoint = service.endpoints.find(&access, &id_or_name).await?;
    // It is no call of the endpoint, so its statistics do not count it.
    note(|notes| notes.endpoint = Some(endpoint.manifest.name.to_string()));
    let read = |arrived: &QueryBody| arrived.read_with_tenant();
    let (mut sent, tenant) = read_body(service, &endpoint, &access, (&head, body), read).await?;
    let pinned = tenant.map(|tenant| pinned(tenant, now)).transpose()?;
    let access = match &pinned {
        Some(pinned) => Arc::new(access.as_tenant(endpoint.id, pinned.clone())),
        None => access,
    };
    // That of the answer to the query, which nobody gets.
    let _ = take_format(&mut sent.values, &endpoint.manifest, &head.headers)?;
    if sent.adhoc.is_none() {
        let kinds = service.kinds.of(vec![endpoint.component.clone()]).await?;
        if kinds.first() == Some(&ComponentKind::Wasm) {
            return Err(code_is_not_explained().into());
        }
    }
    let redact = endpoint.manifest.settings.redact_pii;
    let checked = service.executor.checked(access.tenant(), endpoint, access, sent, Format::Json, redact).await?;
    let explanation = Arc::clone(&service.executor).explain(Arc::new(checked), now).await?;
    let mut shown = shown(&explanation);
    if let (Some(pinned), Some(fields)) = (pinned, shown.as_object_mut()) {
        fields.insert("as".to_owned(), json!(pinned));
    }
    Ok(Json(shown))
}

/// The tenant as which a query is explained: what a token of it pins.
fn pinned(tenant: Map<String, Value>, now: i64) -> Result<BTreeMap<String, String>, Failure> {
    let wrong = |message: String| Failure::new(Code::InvalidParameter, message).about("as");
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        _ => Err(wrong(format!("as.{name} is no text: as is an object of pinned names and their values"))),
    };
    let pinned: BTreeMap<String, String> = tenant.into_iter().map(text).collect::<Result<_, _>>()?;
    if pinned.is_empty() {
        return Err(wrong("as pins nothing; write e.g. {\"project\": \"abc\"}, or leave it out".to_owned()));
    }
    let token = NewToken { pinned, ..NewToken::new("query") };
    token.validate(now).map_err(|failure| wrong(format!("as: {}", failure.message)))?;
    Ok(token.pinned)
}

fn shown(explanation: &Explanation) -> Value {
    let Explanation { tables, sources, rows, scans, workers } = explanation;
    let table = |(name, columns): (&String, &_)| json!({"name": name, "columns": columns});
    let left_out = scans.len().saturating_sub(MOST_SCANS);
    let mut shown = json!({
        "tables": tables.iter().map(table).collect::<Vec<_>>(),
        "sources": sources.iter().map(|own| source(own, rows)).collect::<Vec<_>>(),
        "scans": scans.iter().take(MOST_SCANS).map(scan).collect::<Vec<_>>(),
    });
    if let Some(fields) = shown.as_object_mut() {
        if left_out > 0 {
            fields.insert("left_out".to_owned(), left_out.into());
        }
        if let Some(report) = workers {
            fields.insert("workers".to_owned(), serde_json::from_str(report).unwrap_or_default());
        }
    }
    shown
}

fn totals(SegmentTotals { segments, runs, rows, bytes }: SegmentTotals) -> Map<String, Value> {
    let all = [("segments", segments as u64), ("runs", runs as u64), ("rows", rows), ("bytes", bytes)];
    all.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn source(
    TableOutline { source, segments, memory_rows }: &TableOutline,
    conditions: &BTreeMap<String, String>,
) -> Value {
    let mut fields = totals(*segments);
    fields.insert("name".to_owned(), source.as_ref().into());
    fields.insert("memory_rows".to_owned(), (*memory_rows).into());
    if let Some(condition) = conditions.get(source.as_ref()) {
        fields.insert("of_tenant".to_owned(), condition.as_str().into());
    }
    fields.into()
}

fn scan(scan: &ScanOutline) -> Value {
    let ScanOutline { source, place, conditions, learns_conditions, in_order, limit, partitions, by_ids, by_texts } =
        scan;
    let (name, mut fields) = match *place {
        ScanPlace::Segments(left) => ("segments", totals(left)),
        ScanPlace::Memory { rows } => ("memory", Map::from_iter([("rows".to_owned(), rows.into())])),
    };
    let indexes: Vec<&str> =
        [("ids", by_ids), ("texts", by_texts)].into_iter().filter(|(_, is)| **is).map(|(name, _)| name).collect();
    let more = json!({
        "source": source.as_ref(),
        "place": name,
        "conditions": conditions.iter().map(|text| shortened(text)).collect::<Vec<_>>(),
        "learns_conditions": learns_conditions,
        "in_order": in_order,
        "limit": limit,
        "partitions": partitions,
        "indexes": indexes,
    });
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    fields.into()
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_CONDITION)).unwrap_or_default()
}
