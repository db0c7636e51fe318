//! Rows, cut at random into segments, row groups and memory; and the same rows as one batch.
//!
//! What depends on the cut is all that a scan may rely on: which times a segment spans, whether
//! these overlap or touch, where a row group ends, which columns a segment lacks, by which path its
//! rows lie together.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use serde_json::{Value as Json, json};
use tidegate_model::{Arguments, Failure, TextCondition};
use tidegate_sql::{
    Binding, ColumnEncoder, Engine, EngineOptions, SavedQuery, Sources, StoredTable, Style, Tables, Type,
};
use tidegate_store::{Feed, Store, StoreOptions};

use super::super::engine::engine;
use super::super::tape::Tape;
use super::followed::followed;
use super::tenants::{Tenant, tenants};

/// The first second of the rows.
pub(super) const START: i64 = 1_763_600_000;
/// Rows of all tables together, at most.
const MAX_ROWS: usize = 900;

/// How the times of a segment's rows lie to those of the others.
#[derive(Debug, Clone, Copy)]
enum Times {
    /// Each segment after the one before.
    After,
    /// Each before the one before.
    Before,
    /// A segment begins with the time with which the one before ended.
    Touching,
    /// Anywhere.
    Mixed,
    /// Runs that overlap their neighbours.
    Sliding,
    /// All the same.
    Same,
}

#[derive(Debug)]
pub(super) struct World {
    /// The cut rows; the folder goes with them.
    cut: Arc<Store>,
    /// All calls, as they came.
    feed: Feed,
    whole: Arc<dyn TableProvider>,
    tenants: Vec<Tenant>,
    engines: Vec<Engine>,
    reference: Engine,
    /// No two rows have one time.
    pub(super) unique_times: bool,
    /// The times are those of so many seconds from the start.
    pub(super) seconds: usize,
    /// How many there are.
    pub(super) rows: usize,
    pub(super) shown: String,
    _folder: tempfile::TempDir,
}

thread_local! {
    static DEMANDED: RefCell<Vec<TextCondition>> = const { RefCell::new(Vec::new()) };
}

/// The store's, which also notes what it is told of texts.
fn recorded(
    table: &dyn TableProvider,
    schema: SchemaRef,
    texts: Option<TextCondition>,
) -> Option<Arc<dyn TableProvider>> {
    DEMANDED.with_borrow_mut(|demanded| demanded.extend(texts.clone()));
    tidegate_store::narrowed(table, schema, texts)
}

/// One table under the name `t`.
struct One(StoredTable);

impl Sources for One {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok((name == "t").then(|| self.0.clone()))
    }
    fn names(&self) -> Vec<String> {
        vec!["t".to_owned()]
    }
}

/// How the rows of segments lie.
struct Layout {
    row_group_rows: usize,
    run_rows: usize,
    /// After how many parts segments are merged, and the rows of a full one.
    merge: Option<(usize, usize)>,
    /// The tenant key of the source, from which part on.
    keys: Vec<(usize, Option<&'static str>)>,
}

/// What may be the tenant key of the source.
const KEYS: [Option<&str>; 5] =
    [None, Some("metadata.team"), Some("metadata.team"), Some("metadata.trace"), Some("metadata.o.x")];

impl World {
    pub(super) async fn new(tape: &mut Tape<'_>) -> Self {
        let segments = if tape.below(3) == 0 { 1 + tape.below(4) } else { 1 + tape.below(60) };
        let memory = tape.below(7);
        let per_part = 1 + tape.below((MAX_ROWS / (segments + memory)).max(1));
        let row_group_rows = tape.pick(&[1, 3, 7, 20, 1_000]).max(per_part / 40);
        let run_rows = tape.pick(&[1, 4, 30, 10_000]).max(per_part / 40);
        // After how many segments everything is merged, and how large a merged segment may be.
        let merge = (tape.below(2) == 0).then(|| (1 + tape.below(segments), tape.pick(&[50, 400, 100_000])));
        let keys = vec![(0, tape.pick(&KEYS)), (tape.below(segments + memory), tape.pick(&KEYS))];
        let times = tape.pick(&[
            Times::After,
            Times::After,
            Times::Before,
            Times::Touching,
            Times::Mixed,
            Times::Sliding,
            Times::Same,
        ]);
        let late = tape.below(segments + 1);
        // A text that is of other kinds in some rows is read in another way, in all of them.
        let mixed = tape.below(3) == 0;
        // Segments all of whose ids are UUIDs keep them in another form: in no part, in all, in most.
        let uuids_in = tape.pick(&[0, 1, 1, 2]);
        // A text that is a list in the first row is text for readers, and a list in segments.
        let listed = tape.pick(&[None, None, Some("late"), Some("project")]);
        // One record in most rows, which is a list for readers once a row has two.
        let several = tape.below(5) == 0;
        let shown = format!(
            "{segments} segments and {memory} batches in memory, up to {per_part} rows each, {row_group_rows} rows a \
             row group, {run_rows} a run, merged {merge:?}, times {times:?}, late fields from {late}, UUIDs {uuids_in}, \
             lists of {listed:?}, several records {several}, tenant keys {keys:?}"
        );
        let mut number = 0;
        let parts = (0..segments + memory).map(|part| {
            let count = 1 + tape.below(per_part);
            let uuids = uuids_in == 1 || uuids_in == 2 && tape.below(4) > 0;
            let rows = (0..count).map(|i| {
                let (part, i, per_part) = (part as i64, i as i64, per_part as i64);
                let second = match times {
                    Times::After => part * per_part + i,
                    Times::Before => 100_000 - part * per_part + i,
                    Times::Touching => part * per_part + i * per_part / (count as i64 - 1).max(1),
                    Times::Mixed => tape.below(256) as i64 * 4 + tape.below(4) as i64,
                    Times::Sliding => part * per_part / 2 + i,
                    Times::Same => 7,
                };
                number += 1;
                let kinds = Kinds { late: part as usize >= late, mixed, uuids, listed, several };
                row(tape, number - 1, second, kinds)
            });
            rows.collect()
        });
        let mut parts: Vec<Vec<Json>> = parts.collect();
        // It has been a text, too.
        if let (Some(listed), Some(row)) = (listed, parts.last_mut().and_then(|rows| rows.last_mut())) {
            row[listed] = json!("p1");
        }
        Self::of(parts, segments, Layout { row_group_rows, run_rows, merge, keys }, shown).await
    }

    /// Rows one second apart, 20 in each of so many segments and batches in memory, 4 in a row group.
    pub(super) async fn small(segments: usize, memory: usize) -> Self {
        let row = |i: i64| {
            let mut row = json!({
                "id": format!("{:03}", i * 7 % 1_000), "timestamp": (START + i) * 1_000_000, "project": format!("p{}", i % 3), "nth": i,
                "event_message": if i % 9 == 0 { "503 from 10.0.77.1" } else { "GET" },
            });
            row["metadata"] = json!({"web": {"url": format!("https://p{}.example/rest", i % 3)}});
            if i % 5 < 2 || i == 0 {
                row["n"] = json!(1 + i % 40);
            }
            if i < 15 {
                row["late"] = json!(i);
            }
            row
        };
        let parts =
            (0..(segments + memory) as i64).map(|part| (part * 20..part * 20 + 20).map(row).collect()).collect();
        let layout = Layout { row_group_rows: 4, run_rows: 10_000, merge: None, keys: Vec::new() };
        Self::of(parts, segments, layout, format!("{segments} segments and {memory} batches of 20 rows")).await
    }

    /// The first of the parts become segments, the others stay in memory.
    async fn of(parts: Vec<Vec<Json>>, segments: usize, layout: Layout, shown: String) -> Self {
        // What the engine says of an internal failure goes to the log only: show it with the test.
        let _ = tracing_subscriber::fmt().with_test_writer().with_max_level(tracing::Level::ERROR).try_init();
        let options = StoreOptions {
            manual_flush: true,
            row_group_rows: layout.row_group_rows,
            run_rows: layout.run_rows,
            trigram_rows: 10,
            compaction_rows: layout.merge.map_or(1_000_000, |(_, rows)| rows),
            durable: false,
            zstd_level: 1,
            ..StoreOptions::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let (cut, uncut) = (folder.path().join("cut"), folder.path().join("uncut"));
        let cut = Store::open(&cut, options.clone()).unwrap();
        let uncut = Store::open(&uncut, options).unwrap();
        for store in [&cut, &uncut] {
            let source = store.create_source("t").unwrap();
            store.index_texts(source.id, [["metadata", "web", "url"].map(str::to_owned).to_vec()]).unwrap();
        }
        let feed = cut.feed(cut.source("t").unwrap().id, usize::MAX).unwrap();
        let mut all = Vec::new();
        for (part, rows) in parts.into_iter().enumerate() {
            all.extend(rows.iter().cloned());
            for (_, key) in layout.keys.iter().filter(|(from, _)| *from == part) {
                let tenant = key.map(|path| serde_json::from_value(json!({"key": path})).unwrap());
                cut.set_tenant(cut.source("t").unwrap().id, tenant).unwrap();
            }
            cut.ingest("t", rows).await.unwrap();
            if part < segments {
                cut.flush().await.unwrap();
            } else {
                // What a table was made of is a batch of its own in memory, with bounds of its own.
                drop(cut.table("t").unwrap());
            }
            if layout.merge.is_some_and(|(after, _)| part + 1 == after) {
                cut.compact().await.unwrap();
            }
        }
        uncut.ingest("t", all.clone()).await.unwrap();
        let whole = one_batch(&uncut).await;
        let tenants = tenants(&whole, &all).await;
        uncut.close().await.unwrap();
        let options = |partitions| EngineOptions {
            partitions,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let mut stamps: Vec<i64> = all.iter().map(|row| row["timestamp"].as_i64().unwrap()).collect();
        stamps.sort_unstable();
        let seconds = stamps.last().map_or(1, |last| (last / 1_000_000 - START + 1) as usize);
        stamps.dedup();
        Self {
            cut,
            feed,
            whole,
            tenants,
            engines: (1..=4).map(|partitions| engine(&options(partitions))).collect(),
            reference: Engine::new(&options(1)).unwrap(),
            unique_times: stamps.len() == all.len(),
            seconds,
            rows: all.len(),
            shown: format!("{shown}, {} rows", all.len()),
            _folder: folder,
        }
    }

    /// The number of tenants; each has some of the rows.
    pub(super) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// The cut rows, as a reader has them: all, or those of a tenant.
    fn cut(&self, tenant: Option<usize>) -> One {
        let policy = tenant.map(|tenant| self.tenants[tenant].policy.clone());
        One(StoredTable { provider: self.cut.table("t").unwrap(), policy })
    }

    /// The rows of a statement over the cut rows, with so many partitions; each as the texts of its columns.
    pub(super) async fn answer(
        &self,
        sql: &str,
        grant: Option<&str>,
        tenant: Option<usize>,
        partitions: usize,
    ) -> Result<Vec<Vec<String>>, Failure> {
        answer(&self.engines[partitions - 1], &self.cut(tenant), sql, grant).await
    }

    /// What a follower of the statement gets, from the feed and from what is stored, in pieces of about `rows` rows.
    /// `None` where it is more than a filter over one table.
    pub(super) async fn followed(
        &self,
        sql: &str,
        grant: Option<&str>,
        tenant: Option<usize>,
        rows: usize,
    ) -> Option<Result<[Vec<Vec<String>>; 2], Failure>> {
        let plan = plan(&self.reference, &self.cut(tenant), sql, grant).ok()?;
        followed(&self.reference, &self.cut, &self.feed, &plan, rows).await
    }

    /// The same over all rows in one batch, or over those of a tenant alone.
    pub(super) async fn expected(
        &self,
        sql: &str,
        grant: Option<&str>,
        tenant: Option<usize>,
    ) -> Result<Vec<Vec<String>>, Failure> {
        let rows = tenant.map_or(&self.whole, |tenant| &self.tenants[tenant].rows);
        answer(&self.reference, &One(StoredTable::whole(Arc::clone(rows))), sql, grant).await
    }

    /// What the scans of a statement demand of texts.
    pub(super) async fn demanded_texts(&self, sql: &str, grant: &str) -> Vec<TextCondition> {
        let options = EngineOptions { partitions: 1, narrow: recorded, ..EngineOptions::default() };
        let engine = Engine::new(&options).unwrap();
        drop(DEMANDED.take());
        let plan = plan(&engine, &self.cut(None), sql, Some(grant)).unwrap();
        engine.explain(&plan).await.unwrap();
        DEMANDED.take()
    }

    /// The physical plan, to be shown with a failure.
    pub(super) async fn plan(
        &self,
        sql: &str,
        grant: Option<&str>,
        tenant: Option<usize>,
        partitions: usize,
    ) -> String {
        let engine = &self.engines[partitions - 1];
        let plan = plan(engine, &self.cut(tenant), sql, grant);
        match plan {
            Ok(plan) => engine.explain(&plan).await.unwrap_or_else(|failure| failure.to_string()),
            Err(failure) => failure.to_string(),
        }
    }
}

/// Which kinds of values a row may have.
#[derive(Clone, Copy)]
struct Kinds {
    /// Fields that come late.
    late: bool,
    /// Values of other kinds in the place of a text.
    mixed: bool,
    /// Ids that are UUIDs.
    uuids: bool,
    /// Lists in the place of the texts of a field.
    listed: Option<&'static str>,
    /// Several records in the place of one.
    several: bool,
}

/// The id of a row. In another order than the times.
pub(super) fn id(number: i64, is_uuid: bool) -> String {
    let id = format!("{:02x}{number:04}", (number * 151) % 256);
    if is_uuid { format!("{id}00-0000-4000-8000-{number:012x}") } else { id }
}

fn row(tape: &mut Tape<'_>, number: i64, second: i64, kinds: Kinds) -> Json {
    let Kinds { late, mixed, uuids, listed, several } = kinds;
    let word = tape.pick(&["GET", "POST", "PATCH", "rare", "GET", "503 of 10.0.77", "GET", "POST"]);
    let mut row = json!({
        "id": id(number, uuids), "timestamp": (START + second) * 1_000_000, "project": format!("p{}", tape.below(4)),
        "event_message": format!("{word} {}", tape.below(12)), "nth": number,
    });
    match tape.below(5) {
        0 => {}
        1 => row["n"] = Json::Null,
        n => row["n"] = json!(n * 10 + tape.below(4)),
    }
    // Two zeros, which are one number.
    row["z"] = json!(tape.pick(&[Some(0.0), Some(-0.0), Some(1.5), Some(-0.0), None]));
    if tape.below(6) > 0 {
        row["metadata"] = json!({"status": tape.pick(&[200, 200, 404, 500]), "o": {"x": tape.below(3)}});
        let url = format!("{} {}", tape.pick(&["GET", "rare", "PATCH", "GET", "503 of"]), tape.below(12));
        // Mostly a text; values of other kinds, and in the place of its record, are not in its column.
        match tape.below(24) {
            0..=3 if !mixed => row["metadata"]["web"] = json!({"url": url}),
            0 => row["metadata"]["web"] = json!({"url": ["rare 7", 1]}),
            1 => row["metadata"]["web"] = json!({"url": {"rare 7": url}}),
            2 => row["metadata"]["web"] = json!(url),
            3 => row["metadata"]["web"] = json!([{"url": url}]),
            4 => {}
            _ => row["metadata"]["web"] = json!({"url": url}),
        }
        match tape.below(24) {
            0 if mixed => row["metadata"]["trace"] = json!(number),
            0..=3 => {}
            _ => row["metadata"]["trace"] = json!(id(number, uuids)),
        }
        match tape.below(16) {
            0 if mixed => row["metadata"]["team"] = json!(1),
            1 if mixed => row["metadata"]["team"] = json!(["p1"]),
            0 => {}
            _ => row["metadata"]["team"] = json!(format!("p{}", tape.below(4))),
        }
    }
    if late {
        // The longer ones lie in a buffer, beside their lengths.
        row["late"] = json!(tape.pick(&["a", "b", "b, and longer than a view", "c, and longer than a view", ""]));
        if row.get("metadata").is_some() {
            row["metadata"]["tags"] = json!((0..1 + tape.below(3)).map(|_| tape.below(3)).collect::<Vec<_>>());
        }
    }
    if number == 0 {
        // Every column is there in some row, so that each statement can be planned.
        row["late"] = json!("a");
        row["n"] = json!(1);
        row["z"] = json!(0.5);
        row["metadata"] = json!({"status": 200, "o": {"x": 1}, "tags": [1, 2], "web": {"url": "GET 1"}, "trace": id(0, uuids), "team": "p1"});
    }
    if let Some(listed) = listed.filter(|_| number == 0 || tape.below(8) == 0) {
        row[listed] = json!(["p1"]);
    }
    if several && number > 0 && row.get("metadata").is_some() && tape.below(8) == 0 {
        let metadata = row["metadata"].take();
        row["metadata"] = json!([metadata, {"status": 404, "web": {"url": "PATCH 1"}}]);
    }
    row
}

/// The rows of the source as a table of one batch that promises no order.
async fn one_batch(store: &Arc<Store>) -> Arc<dyn TableProvider> {
    let context = SessionContext::new();
    let table = store.table("t").unwrap();
    let scan = table.scan(&context.state(), None, &[], None).await.unwrap();
    let batches = collect(scan, context.task_ctx()).await.unwrap();
    let batch = concat_batches(&table.schema(), &batches).unwrap();
    Arc::new(MemTable::try_new(table.schema(), vec![vec![batch]]).unwrap())
}

fn plan(engine: &Engine, sources: &One, sql: &str, grant: Option<&str>) -> Result<tidegate_sql::Plan, Failure> {
    let grant = grant.map(|grant| SavedQuery::parse(grant).unwrap());
    let tables = grant.as_ref().map_or(Tables::Sources, Tables::Granted);
    let arguments = Arguments::new();
    engine.plan(sql, Binding::new(sources, &arguments, (START + 1_000) * 1_000_000).over(tables))
}

async fn answer(engine: &Engine, sources: &One, sql: &str, grant: Option<&str>) -> Result<Vec<Vec<String>>, Failure> {
    let stream = engine.run(plan(engine, sources, sql, grant)?, Some(1_000_001)).await?;
    let columns = stream.columns();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    Ok(texts(&batches, &columns))
}

/// The rows of batches, each as the texts of its first columns, which are these.
pub(super) fn texts(batches: &[RecordBatch], columns: &[(String, Type)]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in batches {
        let encoders: Vec<_> = columns
            .iter()
            .zip(batch.columns())
            .map(|((_, ty), array)| ColumnEncoder::new(array, ty, Style::Result).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let text = |encoder: &ColumnEncoder| {
                let mut text = Vec::new();
                encoder.write(row, &mut text);
                String::from_utf8(text).unwrap()
            };
            encoders.iter().map(text).collect()
        }));
    }
    rows
}

/// Rows counted: answers whose order says nothing.
pub(super) fn bag(rows: &[Vec<String>]) -> BTreeMap<&[String], usize> {
    let mut bag = BTreeMap::new();
    for row in rows {
        *bag.entry(row.as_slice()).or_default() += 1;
    }
    bag
}
