//! What an endpoint answers: the columns of its saved query, as a JSON schema.
//!
//! They are known when the query is planned, and change when logs bring new fields; so they are
//! planned again, but at most once a minute, and for a bounded time in one request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tidegate_model::{Failure, Manifest};
use tidegate_sql::{Binding, Type};
use uuid::Uuid;

use crate::app::App;
use crate::manage::components::{Kind, kind};
use crate::registry::{Endpoint, Entry, with_parameters_of};
use crate::tables::StoredTables;
use crate::vet::example_arguments;

/// How long columns are taken as planned.
const FRESH: Duration = Duration::from_secs(60);
/// How long one request may plan; what is left over then is described without columns.
const PLANNING: Duration = Duration::from_secs(2);
/// The most parts of a row, fields of records included, that are described.
const MOST_PARTS: usize = 500;

/// What an endpoint answers.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Rows with these columns, as a JSON schema.
    Rows(Value),
    /// Rows, of which no more is known.
    SomeRows,
    /// Whatever its component makes.
    Any,
}

/// What was found out so far.
#[derive(Debug, Default)]
pub(crate) struct Described {
    known: Mutex<HashMap<Uuid, Known>>,
    /// One request finds out more at a time: the others then find most of it known.
    finding: tokio::sync::Mutex<()>,
}

impl Described {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a version of an endpoint, and whether it is fresh.
    fn known(&self, id: Uuid, version: i64) -> Option<(Answer, bool)> {
        let all = self.lock();
        let known = all.get(&id).filter(|known| known.version == version)?;
        let is_fresh = matches!(known.answer, Answer::Any) || known.since.elapsed() < FRESH;
        Some((known.answer.clone(), is_fresh))
    }
}

#[derive(Debug)]
struct Known {
    version: i64,
    since: Instant,
    answer: Answer,
}

/// What each of the endpoints takes, those included that it reads, and what it answers. One that
/// cannot be used is left out.
///
/// # Errors
/// While the server shuts down.
pub(super) async fn answers(app: &Arc<App>, entries: Vec<Arc<Entry>>) -> Result<Vec<(Manifest, Answer)>, Failure> {
    let all_known =
        entries.iter().all(|entry| app.described.known(entry.id, entry.version).is_some_and(|(_, is_fresh)| is_fresh));
    let _alone = if all_known { None } else { Some(app.described.finding.lock().await) };
    let this = Arc::clone(app);
    // Plans may be deep, and take milliseconds each.
    app.compute
        .run(async move {
            let began = Instant::now();
            let mut answers = Vec::with_capacity(entries.len());
            for entry in &entries {
                let Ok(endpoint) = this.registry.peek(&this.store, entry) else { continue };
                let Ok(reads) = this.registry.load_reads(&this.store, &endpoint.tables) else { continue };
                let answer = answer(&this, &endpoint, began.elapsed() < PLANNING);
                answers.push((with_parameters_of(&endpoint.manifest, &reads).into_owned(), answer));
                tokio::task::yield_now().await;
            }
            Ok(answers)
        })
        .await
}

fn answer(app: &App, endpoint: &Endpoint, may_plan: bool) -> Answer {
    let is_generated = match app.described.known(endpoint.id, endpoint.version) {
        Some((answer, is_fresh)) if is_fresh || !may_plan => return answer,
        None if !may_plan => return Answer::Any,
        Some(_) => true,
        // Only a saved query answers the rows of its own, whatever its code is.
        None => kind(app, &endpoint.component).is_ok_and(|kind| kind == Kind::Sql),
    };
    let answer = if is_generated { planned(app, endpoint) } else { Answer::Any };
    let mut known = app.described.lock();
    // Endpoints that are gone go from here too.
    if known.len() > 2 * app.registry.all().len() + 16 {
        known.clear();
    }
    let entry = Known { version: endpoint.version, since: Instant::now(), answer: answer.clone() };
    known.insert(endpoint.id, entry);
    answer
}

fn planned(app: &App, endpoint: &Endpoint) -> Answer {
    let Ok(reads) = app.registry.load_reads(&app.store, &endpoint.tables) else { return Answer::SomeRows };
    let manifest = with_parameters_of(&endpoint.manifest, &reads);
    let arguments = example_arguments(&manifest);
    let tables = StoredTables::of(&app.store, &app.registry, endpoint, true);
    let binding = Binding::new(&tables, &arguments, app.clock.now());
    let planned = endpoint.saved().and_then(|saved| app.engine.plan_saved(saved, binding));
    let Ok(plan) = planned else { return Answer::SomeRows };
    let mut parts = MOST_PARTS;
    let columns: Map<String, Value> =
        plan.columns().iter().map(|(name, ty)| (name.clone(), schema(ty, &mut parts))).collect();
    Answer::Rows(json!({"type": "object", "properties": columns, "required": columns.keys().collect::<Vec<_>>()}))
}

/// The JSON schema of the values of a type. Each may be null.
fn schema(ty: &Type, parts: &mut usize) -> Value {
    let Some(left) = parts.checked_sub(1) else { return json!({}) };
    *parts = left;
    let mut object = |fields: &[tidegate_sql::Field]| {
        let shown = fields.iter().filter(|field| !field.is_hidden());
        let properties: Map<String, Value> =
            shown.map(|field| (field.name.clone(), schema(&field.ty, parts))).collect();
        json!({"type": ["object", "null"], "properties": properties})
    };
    match ty {
        // A path that no log had so far may have any value tomorrow.
        Type::Null | Type::Json => json!({}),
        Type::Bool => json!({"type": ["boolean", "null"]}),
        Type::Int64 => json!({"type": ["integer", "null"], "format": "int64"}),
        Type::Float64 => {
            json!({"type": ["number", "string", "null"], "description": "A number; NaN, Infinity and -Infinity are texts."})
        }
        Type::String => json!({"type": ["string", "null"]}),
        Type::Bytes => json!({"type": ["string", "null"], "contentEncoding": "base64"}),
        Type::Timestamp => {
            json!({"type": ["integer", "null"], "format": "int64", "description": "Microseconds since 1970-01-01, UTC."})
        }
        Type::Datetime => json!({"type": ["string", "null"], "description": "Date and time without a zone."}),
        Type::Date => json!({"type": ["string", "null"], "format": "date"}),
        Type::Time => json!({"type": ["string", "null"], "description": "Time of day."}),
        Type::Interval => json!({"type": ["string", "null"], "description": "An interval of time."}),
        Type::Array(item) => json!({"type": ["array", "null"], "items": schema(item, parts)}),
        Type::Struct { fields, .. } => object(fields),
        Type::Record(fields) => json!({"type": ["array", "null"], "items": object(fields), "maxItems": 1}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_bounded_whatever_the_type_is() {
        let mut ty = Type::String;
        for _ in 0..12 {
            let field = |name: &str| tidegate_sql::Field { name: name.to_owned(), ty: ty.clone() };
            ty = Type::Record([field("a"), field("b"), field("c"), field("_present")].into());
        }
        let text = schema(&ty, &mut 500).to_string();
        assert!(text.len() < 60_000 && !text.contains("_present"), "{}", text.len());
    }
}
