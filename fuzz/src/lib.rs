//! What must hold for any text that a caller sends, for any component that is uploaded, for any body of events, for any
//! plan that comes to a worker, and for any token and key set of an issuer, whatever it is.
//!
//! [`sql`], [`lql`], [`upload`], [`doors`], [`syslog`], [`plans`] and [`claims`] check one input each and panic where a promise is broken. The fuzz targets
//! call them with texts that they make up (`cargo xtask fuzz`), the tests with the corpus that the
//! targets have found (`corpus/`) and with every text that once broke a promise (`regressions/`).
#![expect(clippy::panic, reason = "a broken promise ends the run")]

mod claims;
mod doors;
mod log;
mod plans;
mod syslog;
mod tenant;
mod tokens;
mod upload;
mod world;

use std::time::Duration;

use futures::StreamExt;
use tidegate_lql::{Mode, Position, Schema, parse, parse_line, to_sql};
use tidegate_model::{Arguments, Code, Failure, Value};
use tidegate_sql::{Binding, ColumnEncoder, Plan, Style};

pub use crate::claims::claims;
pub use crate::doors::doors;
pub use crate::plans::{is_plan, plan_seeds, plans};
pub use crate::syslog::syslog;
pub use crate::tokens::Tokens;
pub use crate::upload::upload;
use crate::world::{MARKER, World};

/// The most rows that a statement is asked for.
const ROWS: usize = 20;
/// How long a statement may run; after that it is dropped, as a request's is.
const PATIENCE: Duration = Duration::from_secs(2);
/// Words of the engine that no caller should ever read.
const ENGINE_WORDS: [&str; 9] = [
    "DataFusion",
    "datafusion",
    "LogicalPlan",
    "Projection:",
    "TableScan",
    "Arrow",
    "RecordBatch",
    "panicked",
    "PhysicalExpr",
];
/// One ad-hoc statement in SQL, over granted tables with a secret beside them.
pub fn sql(text: &str) {
    // What the text brings along may come back.
    if text.contains(&MARKER[..4]) {
        return;
    }
    let world = World::shared();
    let binding = Binding::new(world, &world.arguments, world::NOW).granted(&world.saved);
    let planned = world.engine.plan(text, binding);
    let outcome = planned.and_then(|plan| run(world, plan));
    judge(text, outcome.map(|_| ()));
}

/// One query in LQL, in every mode; what it means in SQL must resolve and run, or be refused.
pub fn lql(text: &str) {
    if text.contains(&MARKER[..4]) {
        return;
    }
    let world = World::shared();
    let tables = world.saved.tables();
    let schema = world::columns();
    for mode in [Mode::Schema, Mode::Schemaless] {
        if let Err(error) = parse(text, mode, Some(&schema), &[]) {
            placed(text, error.position, &error.message);
        }
    }
    let line = serde_json::json!({"lql": text, "mode": "sandbox", "ctes": tables}).to_string();
    let answer: Result<serde_json::Value, _> = serde_json::from_str(&parse_line(&line));
    assert!(answer.is_ok_and(|answer| answer.get("ok").is_some_and(serde_json::Value::is_boolean)), "{text:?}");

    // The text's own `f:` chooses a table; without one the first is there alone.
    let chosen = parse(text, Mode::Sandbox, None, &tables);
    let query = match chosen.or_else(|_| parse(text, Mode::Sandbox, None, tables.get(..1).unwrap_or_default())) {
        Ok(query) => query,
        Err(error) => return placed(text, error.position, &error.message),
    };
    let table = query.from.as_deref().unwrap_or_default();
    // Of the first table the columns are known, of the others nothing is.
    let known: Option<&Schema> = (tables.first().map(String::as_str) == Some(table)).then_some(&schema);
    let translation = match to_sql(&query, table, known) {
        Ok(translation) => translation,
        Err(error) => return placed(text, error.position, &error.message),
    };
    let binding = Binding::new(world, &world.arguments, world::NOW).granted(&world.saved);
    let planned = world.engine.plan_query(&translation.statement, binding);
    let outcome = planned.and_then(|plan| {
        let names: Vec<&String> = plan.columns().iter().map(|(name, _)| name).collect();
        assert!(translation.columns.iter().eq(names), "the columns of {text:?} are not the ones promised");
        run(world, plan)
    });
    if let Ok(rows) = &outcome
        && known.is_some()
        && query.chart.is_none()
    {
        assert!(*rows <= world::EVENTS, "{text:?} multiplies rows: {rows}");
    }
    judge(text, outcome.map(|_| ()));
}

/// The position of an error lies in the text, and its message says something.
fn placed(text: &str, position: Position, message: &str) {
    assert!(position.offset <= text.len() && text.is_char_boundary(position.offset), "{text:?}: {position:?}");
    let lines = text.split('\n').count();
    assert!((1..=lines).contains(&position.line) && position.column >= 1, "{text:?}: {position:?}");
    spoken(text, message);
}

fn spoken(text: &str, message: &str) {
    assert!(!message.trim().is_empty(), "{text:?} is refused without a word");
    assert!(message.len() < 4000, "{text:?} is refused with too many words: {} bytes", message.len());
    assert!(!message.contains(MARKER), "{text:?} reads a secret: {message}");
    for word in ENGINE_WORDS {
        // The message may quote the text.
        assert!(!message.contains(word) || text.contains(word), "{text:?} is refused in the engine's words: {message}");
    }
}

/// A statement succeeds, or its caller is told what to change.
fn judge(text: &str, outcome: Result<(), Failure>) {
    let Err(failure) = outcome else { return };
    spoken(text, &failure.message);
    if (400..500).contains(&failure.code.status()) || failure.code == Code::Timeout {
        return;
    }
    panic!("{text:?} fails as {}: {} ({})", failure.code.name(), failure.message, log::last());
}

/// Runs a statement under tight limits and reads all that comes: the number of rows.
fn run(world: &World, plan: Plan) -> Result<usize, Failure> {
    let all = async {
        let mut stream = world.engine.run(plan, Some(ROWS)).await?;
        let columns = stream.columns();
        let mut rows = 0;
        let mut text = Vec::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            for ((name, ty), array) in columns.iter().zip(batch.columns()) {
                let encoder = ColumnEncoder::new(array, ty, Style::Result)
                    .unwrap_or_else(|error| panic!("the column {name} of type {ty} cannot be shown: {error}"));
                for row in 0..batch.num_rows() {
                    text.clear();
                    encoder.write(row, &mut text);
                    let shown = std::str::from_utf8(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
                    let json: Result<serde_json::Value, _> = serde_json::from_str(shown);
                    assert!(json.is_ok(), "the column {name} of type {ty} is no JSON: {shown}");
                    assert!(!shown.contains(MARKER), "the column {name} has a secret in it: {shown}");
                }
            }
        }
        assert!(rows <= ROWS, "{rows} rows where {ROWS} were asked for");
        Ok(rows)
    };
    let late = |_| Err(Failure::new(Code::Timeout, "the statement took too long"));
    world.runtime.block_on(async { tokio::time::timeout(PATIENCE, all).await }).unwrap_or_else(late)
}

fn arguments() -> Arguments {
    Arguments::from([("project".to_owned(), Value::Text("p1".to_owned()))])
}
