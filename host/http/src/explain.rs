//! `POST /api/endpoints/{endpoint}/explain`: what a query would read, without running it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure};
use tidegate_service::answer::Format;
use tidegate_service::execution::{Explanation, code_is_not_explained};
use tidegate_service::queries::learns_cost;
use tidegate_service::rate::RequestClass;
use tidegate_service::tokens::NewToken;
use tidegate_service::{ComponentKind, StatementReport};
use tidegate_store::{ScanOutline, ScanPlace, SegmentTotals, TableOutline};

use crate::accept::take_format;
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::parameters::QueryBody;
use crate::query::read_body;
use crate::request_context::note;

/// The most scans that are shown, and bytes of the text of a condition.
const MOST_SCANS: usize = 200;
const LONGEST_CONDITION: usize = 2_000;

/// The handler. It takes what a query takes. Its figures tell about rows of all, as the header with the cost of a query
/// does, so it is for the same tokens.
pub(crate) async fn explain(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Json<ExplanationView>, Refusal> {
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
    note(|context| context.endpoint = Some(endpoint.manifest.name.to_string()));
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
    let checked = service.executor.checked(access.account(), endpoint, access, sent, Format::Json, redact).await?;
    let explanation = Arc::clone(&service.executor).explain(Arc::new(checked), now).await?;
    Ok(Json(shown(&explanation, pinned)))
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

/// What a query would read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
pub(crate) struct ExplanationView {
    /// Granted tables that it reads; empty for a text over the sources.
    tables: Vec<TableView>,
    /// The sources that it reads, with all that they have.
    sources: Vec<SourceView>,
    /// What is left to read. Of a source of which nothing is left there is none.
    scans: Vec<ScanView>,
    /// Scans that are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    left_out: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "StatementReport")]
    workers: Option<Value>,
    /// The tenant as which it is explained; absent for all rows.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, String>")]
    pinned: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct TableView {
    name: String,
    columns: BTreeSet<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct SourceView {
    #[serde(flatten)]
    totals: Totals,
    name: String,
    /// Rows that are in no segment yet.
    memory_rows: usize,
    /// With `as`: the condition on its rows, such as `project = 'abc'`, or ALL (shared).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    of_tenant: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Totals {
    /// Segments that are left, or all of a source.
    segments: usize,
    /// Runs of them: the rows of one project in a segment are one.
    runs: usize,
    /// The rows of these runs.
    rows: u64,
    /// Of these runs, about: as they are stored, with all columns.
    bytes: u64,
}

/// What a scan reads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "place", rename_all = "lowercase")]
enum PlaceView {
    Segments(Totals),
    Memory {
        /// The rows of batches in memory.
        rows: usize,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ScanView {
    source: String,
    #[serde(flatten)]
    place: PlaceView,
    conditions: Vec<String>,
    /// Whether a join or a limit tells it more conditions while it runs.
    learns_conditions: bool,
    /// Whether it gives the newest rows first.
    in_order: bool,
    /// The most rows of a partition.
    limit: Option<usize>,
    /// In how many parts it is read at once.
    partitions: usize,
    /// What excludes more when a segment is opened.
    #[schemars(with = "Vec<Index>")]
    indexes: Vec<&'static str>,
}

/// An index of a segment.
#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum Index {
    Ids,
    Texts,
}

fn shown(explanation: &Explanation, pinned: Option<BTreeMap<String, String>>) -> ExplanationView {
    let Explanation { tables, sources, rows, scans, workers } = explanation;
    let table =
        |(name, columns): (&String, &BTreeSet<String>)| TableView { name: name.clone(), columns: columns.clone() };
    let left_out = scans.len().saturating_sub(MOST_SCANS);
    ExplanationView {
        tables: tables.iter().map(table).collect(),
        sources: sources.iter().map(|own| source(own, rows)).collect(),
        scans: scans.iter().take(MOST_SCANS).map(scan).collect(),
        left_out: (left_out > 0).then_some(left_out),
        workers: workers.as_ref().map(|report| serde_json::from_str(report).unwrap_or_default()),
        pinned,
    }
}

impl From<SegmentTotals> for Totals {
    fn from(SegmentTotals { segments, runs, rows, bytes }: SegmentTotals) -> Self {
        Self { segments, runs, rows, bytes }
    }
}

fn source(outline: &TableOutline, conditions: &BTreeMap<String, String>) -> SourceView {
    let TableOutline { source, segments, memory_rows } = outline;
    let of_tenant = conditions.get(source.as_ref()).cloned();
    SourceView { totals: (*segments).into(), name: source.to_string(), memory_rows: *memory_rows, of_tenant }
}

fn scan(scan: &ScanOutline) -> ScanView {
    let indexes = [("ids", scan.by_ids), ("texts", scan.by_texts)];
    ScanView {
        source: scan.source.to_string(),
        place: match scan.place {
            ScanPlace::Segments(left) => PlaceView::Segments(left.into()),
            ScanPlace::Memory { rows } => PlaceView::Memory { rows },
        },
        conditions: scan.conditions.iter().map(|text| shortened(text).to_owned()).collect(),
        learns_conditions: scan.learns_conditions,
        in_order: scan.in_order,
        limit: scan.limit,
        partitions: scan.partitions,
        indexes: indexes.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect(),
    }
}

fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_CONDITION)).unwrap_or_default()
}
