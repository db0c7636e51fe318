//! The engine of the dialect's tests, and a shadow that runs each statement over a store, whole and with workers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::arrow::array::RecordBatch;
use futures::TryStreamExt;
use serde_json::Value as Json;
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{
    Binding, ColumnEncoder, Engine, EngineOptions, SavedQuery, SavedTable, Sources, StoredTable, Style, Tables,
};
use tidegate_store::{Store, StoreOptions};

use super::split::{self, counted};

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    Engine::new(options).unwrap()
}

fn options(partitions: usize) -> EngineOptions {
    EngineOptions {
        partitions,
        narrow: tidegate_store::narrowed,
        placed: tidegate_store::placed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    }
}

/// The first is what statements with workers are compared with; the others tell whether the answer is the only one.
static WHOLE: LazyLock<Vec<Engine>> =
    LazyLock::new(|| [2, 1, 4].map(|partitions| Engine::new(&options(partitions)).unwrap()).into());
static REMOTE: LazyLock<Vec<Engine>> =
    LazyLock::new(|| [2, 1].map(|partitions| split::engine(&options(partitions))).into());

/// The sources of a world, in a store when they are needed.
#[derive(Default)]
pub(crate) struct Shadow {
    sources: BTreeMap<String, Vec<Json>>,
    endpoints: BTreeMap<String, Arc<SavedQuery>>,
    off: bool,
    store: OnceLock<Option<Stored>>,
}

struct Stored {
    store: Arc<Store>,
    _folder: tempfile::TempDir,
}

/// The rows of a statement, each as the JSON values of its columns.
type Rows = Vec<Vec<Json>>;

struct World<'s> {
    store: &'s Arc<Store>,
    endpoints: &'s BTreeMap<String, Arc<SavedQuery>>,
}

impl Sources for World<'_> {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.store.table(name).ok().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        self.store.sources().into_iter().map(|source| source.name).collect()
    }
    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        let query = self.endpoints.get(name).cloned()?;
        Some(SavedTable { query, sources: Box::new(self) })
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

impl Shadow {
    pub(crate) fn source(&mut self, name: &str, rows: &[Json]) {
        self.sources.insert(name.to_owned(), rows.to_vec());
    }

    pub(crate) fn endpoint(&mut self, name: &str, saved: &str) {
        self.endpoints.insert(name.to_owned(), Arc::new(SavedQuery::parse(saved).unwrap()));
    }

    /// Its tests are about limits of the machine.
    pub(crate) fn without(&mut self) {
        self.off = true;
    }

    fn stored(&self) -> Option<&Stored> {
        self.store.get_or_init(|| block_on(self.load())).as_ref()
    }

    /// The rows in segments of one to three, every fourth part and the last in memory; `None` if the store does not take
    /// them.
    async fn load(&self) -> Option<Stored> {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { manual_flush: true, durable: false, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("data"), options).unwrap();
        let mut seed = 1_u64;
        for (name, rows) in &self.sources {
            store.create_source(name).ok()?;
            let (mut rest, mut late) = (rows.as_slice(), Vec::new());
            while !rest.is_empty() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let most = (rows.len() / 8).max(2);
                let (part, after) = rest.split_at((1 + (seed >> 33) as usize % most).min(rest.len()));
                if (seed >> 60).is_multiple_of(4) && rows.len() > part.len() {
                    late.extend(part.iter().cloned());
                } else {
                    store.ingest(name, part.to_vec()).await.ok()?;
                    store.flush().await.unwrap();
                }
                rest = after;
            }
            store.ingest(name, late).await.ok()?;
        }
        Some(Stored { store, _folder: folder })
    }

    /// Runs a statement whole and with workers, and compares.
    pub(crate) fn compare(&self, sql: &str, tables: Tables<'_>, arguments: &Arguments, now: i64) {
        let test = std::thread::current();
        // What they measure or stop is the machine; each statement takes long.
        if self.off
            || test.name().is_some_and(|name| name.starts_with("cases::limits::") || name.contains("makes_too_much"))
        {
            return counted("about limits");
        }
        let is_name = |letter: char| letter.is_alphanumeric() || "_.-".contains(letter);
        let mut names = self.sources.keys().chain(self.endpoints.keys());
        let has_word = |name: &String| sql.split(|letter| !is_name(letter)).any(|word| word.eq_ignore_ascii_case(name));
        if matches!(tables, Tables::Sources) && !names.any(has_word) {
            return counted("without a source");
        }
        let Some(Stored { store, .. }) = self.stored() else { return counted("rows that no store takes") };
        let world = World { store, endpoints: &self.endpoints };
        let binding = Binding::new(&world, arguments, now).over(tables);
        // Both numbers of partitions in turn.
        let remote = &REMOTE[sql.len() % REMOTE.len()];
        let (expected, got) = (block_on(rows(&WHOLE[0], sql, binding)), block_on(rows(remote, sql, binding)));
        same(sql, expected, got, |engine| block_on(rows(engine, sql, binding)));
    }
}

async fn rows(engine: &Engine, sql: &str, binding: Binding<'_>) -> Result<Rows, Failure> {
    let stream = engine.run(engine.plan(sql, binding)?, Some(10_000)).await?;
    let columns = stream.columns();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let mut rows = Vec::new();
    for batch in batches {
        let encoders: Vec<_> = columns
            .iter()
            .zip(batch.columns())
            .map(|((_, ty), array)| ColumnEncoder::new(array, ty, Style::Result).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let value = |encoder: &ColumnEncoder| {
                let mut text = Vec::new();
                encoder.write(row, &mut text);
                serde_json::from_slice(&text).expect("valid JSON")
            };
            encoders.iter().map(value).collect()
        }));
    }
    Ok(rows)
}

/// Of expressions that have one value for all rows of a grant: an order by one takes any row.
const ONE_VALUE: &str = "event_message = 'secret'";

/// Compares what a statement gives with workers with what it gives whole; `run` runs that once more.
fn same(
    sql: &str,
    expected: Result<Rows, Failure>,
    got: Result<Rows, Failure>,
    run: impl Fn(&Engine) -> Result<Rows, Failure>,
) {
    let others = || WHOLE[1..].iter().map(&run);
    match (expected, got) {
        (Ok(expected), Ok(got)) if bags(expected.clone(), got.clone()) => {
            counted("compared rows");
            if is_ordered(sql) {
                let is_total = || others().all(|other| other.is_ok_and(|other| equal(&other, &expected)));
                let same = equal(&expected, &got);
                assert!(same || !is_total(), "with workers it gives {got:?}\ninstead of {expected:?}\n{sql}");
                counted(if same { "compared orders" } else { "several orders" });
            }
        }
        (Ok(expected), Ok(got)) => {
            // Random values, or a limit that takes any rows.
            let mut others = others().map(|other| other.unwrap_or_default());
            let takes_any = takes_any(sql) && got.len() == expected.len();
            let takes_any = takes_any || in_any_order(sql) && bags(sorted(&expected), sorted(&got));
            let differ = takes_any || others.any(|other| other.len() == got.len() && !bags(other, expected.clone()));
            assert!(differ, "with workers it gives {got:?}\ninstead of {expected:?}\n{sql}");
            counted("several answers");
        }
        (Err(expected), Err(got)) => {
            assert_eq!(got.code, expected.code, "{got} instead of {expected}\n{sql}");
            counted("compared failures");
        }
        (expected, got) => panic!("with workers it gives {got:?}\ninstead of {expected:?}\n{sql}"),
    }
}

/// Whether any of several rows is a right answer.
fn takes_any(sql: &str) -> bool {
    let upper = sql.to_uppercase();
    let is_ordered = upper.contains("ORDER BY");
    upper.contains("ANY_VALUE") || sql.contains(ONE_VALUE) && is_ordered || upper.contains("LIMIT") && !is_ordered
}

/// Whether it collects values in the order in which rows come.
fn in_any_order(sql: &str) -> bool {
    let upper = sql.to_uppercase();
    ["ARRAY_AGG", "STRING_AGG", "ARRAY_CONCAT_AGG"].iter().any(|name| upper.contains(name))
}

/// Rows whose arrays and texts are in an order of their own.
fn sorted(rows: &Rows) -> Rows {
    rows.iter().map(|row| row.iter().map(sorted_value).collect()).collect()
}

fn sorted_value(value: &Json) -> Json {
    match value {
        Json::Array(items) => {
            let mut items: Vec<Json> = items.iter().map(sorted_value).collect();
            items.sort_by_key(|item| format!("{item:?}"));
            Json::Array(items)
        }
        Json::Object(fields) => fields.iter().map(|(name, of)| (name.clone(), sorted_value(of))).collect(),
        Json::String(text) => {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            Json::String(letters.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// Whether the same rows are there, in any order.
fn bags(mut one: Rows, mut other: Rows) -> bool {
    one.sort_by_key(|row| format!("{row:?}"));
    other.sort_by_key(|row| format!("{row:?}"));
    equal(&one, &other)
}

fn equal(one: &Rows, other: &Rows) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| one.len() == other.len() && one.iter().zip(other).all(|(a, b)| close(a, b)))
}

/// Floats depend on the order in which they are added.
fn close(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(a), Json::Number(b)) if a.is_f64() || b.is_f64() => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            _ => a == b,
        },
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| close(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((name, a), (other, b))| name == other && close(a, b))
        }
        _ => one == other,
    }
}

/// Whether the statement itself has an ORDER BY, and not only a part of it.
fn is_ordered(sql: &str) -> bool {
    let (mut depth, mut outer) = (0_i32, String::new());
    for letter in sql.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            letter if depth == 0 => outer.extend(letter.to_lowercase()),
            _ => {}
        }
    }
    outer.contains("order by")
}
