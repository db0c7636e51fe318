//! `/api/sources`: the sources of logs, their schemas and their retention.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::extract::{Path, Query, Request};
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_model::{Code, Failure, SourceTenancy};
use tidegate_service::access_report::{TenancyChange, Widened};
use tidegate_service::failures::unknown_source;
use tidegate_service::tokens::Access;
use tidegate_service::{Service, blocking};
use tidegate_store::{Retention, SourceDescription, SourceInfo, Store, StoreError};
use uuid::Uuid;

use super::fields::{Definition as _, Fields, definition, shown_names};
use super::precondition::{Precondition, tag_of_settings};
use super::saving::flag;
use super::{Admin, ManageResult, created, found, tagged};
use crate::failure::Refusal;
use crate::response::respond;
use crate::shown::{Id, Time};

const DAY: u64 = 86_400;
/// The longest retention in days. Logs that are to be kept longer are kept for ever (0).
const MOST_DAYS: u64 = 36_500;
/// How many rows `/recent` returns by default, and at most.
const RECENT: usize = 100;
const MOST_RECENT: usize = 1_000;

definition! {
    /// What may be said of a source.
    pub(crate) struct SourceFields and NewSource needs ["name"] {
        #[schemars(length(min = 1))]
        name: String,
        /// 0 keeps for ever, null is the server's setting.
        #[schemars(range(max = MOST_DAYS))]
        retention_days: Option<u64>,
        /// 0 is without limit, null is the server's setting.
        retention_bytes: Option<u64>,
        /// Whose its rows are: "shared", or the tenant keys with the field that holds each; null where nobody says it.
        tenant: Option<SourceTenancy> = "\"shared\", an object of tenant keys and paths to fields, or null",
        /// Whether it is meant that tokens read more by that.
        #[schemars(skip_serializing, extend("default" = false))]
        widens: bool,
    }
}

/// A source.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "name"]))]
pub(crate) struct Source {
    id: Id,
    inserted_at: Time,
    #[serde(flatten)]
    fields: SourceFields,
    effective_retention_days: Option<u64>,
    effective_retention_bytes: Option<u64>,
    #[serde(flatten)]
    amounts: Option<SourceAmounts>,
    /// What a change of the tenant keys widens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    warnings: Option<Vec<String>>,
}

/// How much a source holds. It is not in the list of all.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceAmounts {
    rows: u64,
    bytes: u64,
    segments: usize,
    memory_rows: u64,
    memory_bytes: u64,
    oldest: Option<Time>,
    newest: Option<Time>,
    fields: usize,
    max_fields: usize,
    overflows: bool,
}

/// Types by path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SourceSchema(#[schemars(with = "BTreeMap<String, String>")] Map<String, Value>);

/// How often the fields of a source have a value.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FillRates {
    /// Of the source.
    rows: u64,
    /// Those that were looked at.
    counted_rows: u64,
    /// Of the counted rows those that have a value, by path.
    fields: BTreeMap<String, u64>,
}

fn known(service: &Service, id_or_name: &str) -> Result<SourceInfo, Failure> {
    service.store.source(id_or_name).ok_or_else(|| {
        let names: Vec<String> = service.store.sources().into_iter().map(|source| source.name).collect();
        unknown_source(id_or_name, &names)
    })
}

fn days(age: Option<Duration>) -> Option<u64> {
    age.filter(|age| *age != Duration::MAX).map(|age| age.as_secs().div_ceil(DAY))
}

fn brief(service: &Service, source: &SourceInfo) -> Source {
    let Retention { max_age, max_bytes } = source.retention;
    let effective = source.retention.or(service.options.store.retention);
    Source {
        id: Id(source.id),
        inserted_at: Time(source.created_at),
        fields: SourceFields {
            name: Some(source.name.clone()),
            retention_days: Some(if max_age == Some(Duration::MAX) { Some(0) } else { days(max_age) }),
            retention_bytes: Some(max_bytes.map(|bytes| if bytes == u64::MAX { 0 } else { bytes })),
            tenant: Some(source.tenant.clone()),
            widens: None,
        },
        effective_retention_days: days(effective.max_age),
        effective_retention_bytes: effective.max_bytes.filter(|bytes| *bytes != u64::MAX),
        amounts: None,
        warnings: None,
    }
}

/// The entity tag of a source: that of its settings, because its rows come and go by themselves.
fn tag_of(source: &SourceInfo) -> String {
    let SourceInfo { name, retention, tenant, .. } = source;
    let seconds = retention.max_age.map(|age| age.as_secs());
    tag_of_settings(source.id, &json!([name, seconds, retention.max_bytes, tenant]))
}

/// Checks that a source is as the request wants to change it.
///
/// # Errors
/// Those of [`Precondition::check`].
fn allow(wanted: &Precondition, source: &SourceInfo) -> Result<(), Failure> {
    wanted.check(&tag_of(source), || format!("the settings of the source {} were changed meanwhile", source.name))
}

async fn shown(service: &Service, id: Uuid) -> Result<Source, Failure> {
    let found: SourceDescription = blocking(&service.store, move |store| store.describe(id)).await?;
    let amounts = SourceAmounts {
        rows: found.rows,
        bytes: found.bytes,
        segments: found.segments,
        memory_rows: found.memory_rows,
        memory_bytes: found.memory_bytes,
        oldest: found.oldest.map(Time),
        newest: found.newest.map(Time),
        fields: found.fields,
        max_fields: found.max_fields,
        overflows: found.overflows,
    };
    Ok(Source { amounts: Some(amounts), ..brief(service, &found.info) })
}

/// The definition of a source that a request sends.
struct Definition {
    name: Option<String>,
    retention: Option<Retention>,
    /// Whose its rows are, if that changes; `None` within takes it back.
    tenant: Option<Option<SourceTenancy>>,
    /// Whether it is meant that tokens read more by that.
    widens: bool,
}

impl Definition {
    /// Makes a source as it is defined.
    fn apply(self, store: &Store, id: Uuid) -> Result<(), StoreError> {
        let Self { name, retention, tenant, widens: _ } = self;
        if let Some(name) = name {
            store.rename_source(id, &name)?;
        }
        if let Some(retention) = retention {
            store.set_retention(id, retention)?;
        }
        if let Some(tenant) = tenant {
            store.set_tenant(id, tenant)?;
        }
        Ok(())
    }
}

/// The fields that answers show.
static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<Source>);

async fn definition(
    service: &Service,
    access: &Access,
    request: Request,
    old: Option<&SourceInfo>,
) -> Result<Definition, Failure> {
    let mut fields = Fields::read(service, access, request).await?;
    fields.ignore_shown(&SHOWN);
    fields.ignore("token");
    let SourceFields { name, retention_days, retention_bytes, tenant, widens } = SourceFields::take(&mut fields);
    if old.is_none() && name.is_none() && !fields.has_refused("name") {
        fields.refuse("name", "a source needs a name");
    }
    if let Some(name) = &name {
        // SQL writes the name in backticks, and requests may use it in place of an id.
        if name.contains(['`', '\\']) {
            fields.refuse("name", "the name has a backtick or a backslash in it, and could not be written in SQL");
        } else if Uuid::try_parse(name).is_ok() {
            fields.refuse("name", "the name reads as an id");
        } else if service.registry.find(name).is_some() {
            fields.refuse("name", format!("there is an endpoint {name}; as tables the two could not be told apart"));
        }
    }
    let mut retention = old.map(|old| old.retention).unwrap_or_default();
    let before = retention;
    if let Some(days) = retention_days {
        retention.max_age = match days {
            Some(days) if days > MOST_DAYS => {
                fields.refuse("retention_days", format!("retention_days is at most {MOST_DAYS}; 0 keeps for ever"));
                retention.max_age
            }
            days => days.map(|days| if days == 0 { Duration::MAX } else { Duration::from_secs(days * DAY) }),
        };
    }
    if let Some(bytes) = retention_bytes {
        retention.max_bytes = bytes.map(|bytes| if bytes == 0 { u64::MAX } else { bytes });
    }
    fields.done()?;
    let tenant = tenant.filter(|tenant| old.is_none_or(|old| old.tenant != *tenant));
    let name = name.filter(|name| old.is_none_or(|old| old.name != *name));
    Ok(Definition {
        name,
        retention: (retention != before).then_some(retention),
        tenant,
        widens: widens.unwrap_or_default(),
    })
}

/// `GET /api/sources`.
pub(crate) async fn list(admin: Admin) -> ManageResult<Vec<Source>> {
    found(admin.store.sources().iter().map(|source| brief(&admin, source)).collect())
}

/// `GET /api/sources/{id or name}`: one source, with the amount of its data.
pub(crate) async fn show(admin: Admin, Path(id): Path<String>) -> ManageResult<Source> {
    let source = known(&admin, &id)?;
    tagged(found(shown(&admin, source.id).await?), &tag_of(&source))
}

/// `POST /api/sources`.
pub(crate) async fn create(admin: Admin, request: Request) -> ManageResult<Source> {
    let definition = definition(&admin, &admin.caller, request, None).await?;
    let (name, tenant) = (definition.name.clone().unwrap_or_default(), definition.tenant.clone().flatten());
    let widened = widened_by(&admin, &name, TenancyChange::of_new(&name, tenant)).await;
    let id = blocking(&admin.store, move |store| {
        let id = store.create_source(definition.name.as_deref().unwrap_or_default())?.id;
        Definition { name: None, ..definition }.apply(store, id)?;
        Ok(id)
    })
    .await?;
    let mut source = shown(&admin, id).await?;
    tell(&name, &widened, &mut source);
    created(source)
}

/// `PUT` and `PATCH /api/sources/{id or name}`: changes the name, the retention, or whose the rows are. If the source has said
/// whose they are, tokens read more only if the request says that this is meant.
pub(crate) async fn update(admin: Admin, Path(id): Path<String>, request: Request) -> ManageResult<Source> {
    let wanted = &admin.precondition;
    let source = known(&admin, &id)?;
    allow(wanted, &source)?;
    let definition = definition(&admin, &admin.caller, request, Some(&source)).await?;
    // Until it is changed: of two requests that have seen the same state, one comes first.
    let _one = admin.app.changing_sources.lock().await;
    allow(wanted, &known(&admin, &source.id.to_string())?)?;
    let (id, was) = (source.id, source.tenant.as_ref());
    let mut widened = Widened::default();
    if let Some(becomes) = &definition.tenant {
        let change = TenancyChange::of(id, was, becomes.clone());
        let loosens = change.loosens();
        widened = widened_by(&admin, &source.name, change).await;
        // What nobody has said so far is no word that is broken.
        if was.is_some() && !definition.widens && (loosens || widened.is_wider()) {
            let what = format!("what the source {} says of its tenants would open more of its rows", source.name);
            return Err(widened.needs_word(&what).into());
        }
    }
    blocking(&admin.store, move |store| definition.apply(store, id)).await?;
    let mut source_shown = shown(&admin, id).await?;
    tell(&source.name, &widened, &mut source_shown);
    tagged(found(source_shown), &tag_of(&known(&admin, &id.to_string())?))
}

/// What a change of a source would widen. If that is not known, the answer says so.
async fn widened_by(service: &Service, name: &str, change: TenancyChange) -> Widened {
    let compared = service.compute.run(service.access.clone().of_tenancy(change)).await;
    compared.unwrap_or_else(|failure| {
        tracing::warn!(source = name, %failure, "what the change of the tenant keys widens is not known");
        Widened::unknown()
    })
}

/// Adds what a change has widened to the warnings of its answer, and to the log.
fn tell(name: &str, widened: &Widened, shown: &mut Source) {
    widened.log(&format!("the tenant keys of the source {name}"));
    shown.warnings = Some(widened.lines());
}

/// How a source is deleted.
#[derive(Deserialize)]
pub(crate) struct Deleting {
    widens: Option<String>,
}

/// `DELETE /api/sources/{id or name}`: deletes the source with all its rows. Refused while an endpoint reads it, and, without
/// `widens=true`, if tokens read more of others after it: those that pin a key which no other source has.
pub(crate) async fn delete(
    admin: Admin,
    Path(id): Path<String>,
    Query(Deleting { widens }): Query<Deleting>,
) -> Result<StatusCode, Refusal> {
    let widens = flag("widens", widens.as_deref())?;
    let source = known(&admin, &id)?;
    allow(&admin.precondition, &source)?;
    let readers = admin.registry.readers(source.id);
    if !readers.is_empty() {
        let message =
            format!("the source {} is read by {}; change or delete those first", source.name, readers.join(", "));
        return Err(Failure::new(Code::Refused, message).about("id").into());
    }
    if source.tenant.is_some() {
        let change = TenancyChange::of(source.id, source.tenant.as_ref(), None);
        let widened = widened_by(&admin, &source.name, change).await;
        if !widens && widened.is_wider() {
            let what = format!(
                "without the source {}, a name that tokens pin would be a tenant key of no source",
                source.name
            );
            return Err(widened.needs_word(&what).into());
        }
        widened.log(&format!("the source {} is deleted", source.name));
    }
    blocking(&admin.store, move |store| store.delete_source(source.id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/sources/{id or name}/schema`: every path that an event has had so far, with its type.
pub(crate) async fn schema(admin: Admin, Path(id): Path<String>) -> ManageResult<SourceSchema> {
    let id = known(&admin, &id)?.id;
    let paths = blocking(&admin.store, move |store| store.schema(id)).await?;
    found(SourceSchema(paths.into_iter().map(|(path, ty)| (path, ty.into())).collect()))
}

/// `GET /api/sources/{id or name}/fill-rates`: how often its fields have a value.
pub(crate) async fn fill_rates(admin: Admin, Path(id): Path<String>) -> ManageResult<FillRates> {
    let id = known(&admin, &id)?.id;
    let rates = blocking(&admin.store, move |store| store.fill_rates(id)).await?;
    found(FillRates { rows: rates.rows, counted_rows: rates.counted, fields: rates.fields.into_iter().collect() })
}

#[derive(Deserialize)]
pub(crate) struct Recent {
    limit: Option<String>,
}

/// `GET /api/sources/{id or name}/recent?limit=`: the newest rows, newest first.
pub(crate) async fn recent(
    admin: Admin,
    Path(id): Path<String>,
    Query(Recent { limit }): Query<Recent>,
) -> Result<Response, Refusal> {
    let source = known(&admin, &id)?;
    let rows = match limit.map(|limit| limit.parse()) {
        None => RECENT,
        Some(Ok(rows)) if (1..=MOST_RECENT).contains(&rows) => rows,
        Some(_) => {
            let message = format!("limit is a number from 1 to {MOST_RECENT}");
            return Err(Failure::new(Code::InvalidParameter, message).about("limit").into());
        }
    };
    let (executor, account) = (Arc::clone(&admin.executor), admin.caller.account());
    Ok(respond(executor.recent_rows(source.name, rows, account, admin.clock.now()).await?))
}
