//! Calls, flushes, merges, retention, deletion and queries meet in every order: no query finds a row twice or not at all.
//!
//! The real store runs, one thread at a time, in orders that seeds decide (`sync_points`). What each query found is compared
//! with what was acknowledged before it began and what had been sent when it ended.
//!
//! ```text
//! TIDEGATE_SCHEDULES=100000 [TIDEGATE_SCHEDULE=FIRST_SEED] cargo test -p tidegate-store schedules
//! ```

use std::{
    collections::BTreeSet,
    fs::File,
    path::Path,
    sync::{Arc, Mutex},
};

use datafusion::arrow::{array::AsArray, compute::cast, datatypes::DataType};
use parquet::arrow::{ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder};
use serde_json::{Value, json};
use tidegate_model::Audience;
use uuid::Uuid;

use super::context;
use crate::{
    Dropped, Retention, Store, StoreError, StoreOptions,
    data_folder::paths,
    scan::table::SourceTable,
    source::Snapshot,
    sync_points::{self, schedule::Schedule},
};

/// How many orders are tried.
const SCHEDULES: u64 = 400;

/// After so many, the store is closed and opened again.
const REOPEN: u64 = 50;

fn options() -> StoreOptions {
    StoreOptions {
        manual_flush: true,
        durable: false,
        run_rows: 3,
        row_group_rows: 4,
        compaction_fan_in: 2,
        // Columns are forgotten from half of it on.
        max_fields: 20,
        ..StoreOptions::default()
    }
}

/// A few choices, from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn event(n: u64) -> Value {
    json!({
        "id": n.to_string(), "timestamp": 1_700_000_000_000_000_u64 + n * 7 % 31, "project": format!("p{}", n % 3),
        "event_message": "m", "n": n, "metadata": {format!("k{}", n % 5): n},
    })
}

/// What a query found, and what was known around it.
struct Look {
    reader: usize,
    acked_before: BTreeSet<u64>,
    sent_after: BTreeSet<u64>,
    /// Runs of retention that had ended before, and that had begun after it.
    retained: (usize, usize),
    /// Whether the source was deleted before, and whether its deletion had begun after it.
    deleted: (bool, bool),
    /// `None` if there was no such source.
    found: Option<Vec<u64>>,
}

#[derive(Default)]
struct Known {
    sent: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    retentions_begun: usize,
    dropped: Vec<Dropped>,
    deletion_begun: bool,
    deleted: bool,
    looks: Vec<Look>,
}

/// What a task does.
type Work = Box<dyn FnOnce(&Scene, &mut Dice) + Send>;

/// One source, and the tasks that work on it.
struct Scene {
    store: Arc<Store>,
    id: Uuid,
    name: String,
    known: Mutex<Known>,
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// The numbers of all rows of a snapshot, without the engine.
fn read_plainly(snapshot: &Snapshot) -> Vec<u64> {
    let mut found = Vec::new();
    let mut add = |ids: &datafusion::arrow::array::ArrayRef| {
        let ids = cast(ids, &DataType::Utf8).unwrap();
        found.extend(ids.as_string::<i32>().iter().map(|id| id.unwrap().parse::<u64>().unwrap()));
    };
    for batch in &snapshot.memory {
        add(batch.rows.column_by_name("id").unwrap());
    }
    for segment in snapshot.segments.iter() {
        let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(segment.path().unwrap()).unwrap()).unwrap();
        let mask = ProjectionMask::columns(builder.parquet_schema(), ["id"]);
        for batch in builder.with_projection(mask).build().unwrap() {
            add(batch.unwrap().column(0));
        }
    }
    found
}

/// The same by a query, which also finds every value.
fn read_by_query(table: &Arc<dyn datafusion::catalog::TableProvider>) -> Vec<u64> {
    let rows = block(super::rows(context().read_table(Arc::clone(table)).unwrap()));
    rows.iter()
        .map(|row| {
            let n = row["n"].as_u64().unwrap();
            let key = format!("k{}", n % 5);
            assert_eq!((&row["id"], &row["metadata"][&key]), (&json!(n.to_string()), &json!(n)), "{row}");
            n
        })
        .collect()
}

impl Scene {
    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    fn ingest(&self, numbers: impl Iterator<Item = u64> + Clone) {
        self.known().sent.extend(numbers.clone());
        match block(self.store.ingest(&self.name, numbers.clone().map(event).collect())) {
            Ok(told) => {
                assert_eq!(told.stored, numbers.clone().count());
                self.known().acked.extend(numbers);
            }
            Err(StoreError::UnknownSource { .. }) => assert!(self.known().deletion_begun),
            Err(error) => panic!("{error}"),
        }
    }

    fn flush(&self) {
        block(self.store.flush()).unwrap();
    }

    /// Drops about half of what is in segments.
    fn retain(&self) {
        let bytes = |store: &Store| store.stats().segment_bytes / 2;
        let set = |max_bytes| match self.store.set_retention(self.id, Retention { max_age: None, max_bytes }) {
            Ok(_) | Err(StoreError::UnknownSource { .. }) => {}
            Err(error) => panic!("{error}"),
        };
        set(Some(bytes(&self.store)));
        self.known().retentions_begun += 1;
        let dropped = block(self.store.apply_retention()).unwrap();
        self.known().dropped.push(dropped);
        set(None);
    }

    fn delete(&self) {
        self.known().deletion_begun = true;
        self.store.delete_source(self.id).unwrap();
        self.known().deleted = true;
    }

    /// Looks some times. Each table is read again when the last one was made: it is what it was.
    fn look(&self, reader: usize, dice: &mut Dice) {
        let mut tables = Vec::new();
        for _ in 0..1 + dice.below(3) {
            sync_points::reach("look");
            let (acked_before, retained, deleted) = {
                let known = self.known();
                (known.acked.clone(), known.dropped.len(), known.deleted)
            };
            let table = match self.store.table_for(self.id, &Audience::All).map(|table| table.table) {
                Ok(table) => Some(table),
                Err(StoreError::UnknownSource { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            let (sent_after, retained, deleted) = {
                let known = self.known();
                (known.sent.clone(), (retained, known.retentions_begun), (deleted, known.deletion_begun))
            };
            sync_points::reach("read");
            let found = table.map(|table| {
                let by_query = dice.below(25) == 0;
                let plain = || read_plainly(&table.downcast_ref::<SourceTable>().unwrap().snapshot);
                let found = if by_query { read_by_query(&table) } else { plain() };
                tables.push((table, found.clone()));
                found
            });
            self.known().looks.push(Look { reader, acked_before, sent_after, retained, deleted, found });
        }
        sync_points::reach("read again");
        for (table, before) in tables {
            let mut again = read_plainly(&table.downcast_ref::<SourceTable>().unwrap().snapshot);
            let mut before = before;
            again.sort_unstable();
            before.sort_unstable();
            assert_eq!(again, before, "a snapshot has changed");
        }
    }

    /// Compares what was found with what may be.
    fn check(&self) {
        let known = self.known();
        let last = match self.store.table_for(self.id, &Audience::All).map(|table| table.table) {
            Ok(table) => read_plainly(&table.downcast_ref::<SourceTable>().unwrap().snapshot),
            Err(_) => {
                assert!(known.deleted);
                Vec::new()
            }
        };
        assert_eq!(last.len(), BTreeSet::from_iter(&last).len(), "twice at the end: {last:?}");
        let last = BTreeSet::from_iter(last);
        let dropped: BTreeSet<u64> = known.acked.difference(&last).copied().collect();
        let counts: Vec<u64> = known.dropped.iter().map(|dropped| dropped.rows).collect();
        if !known.deleted {
            assert_eq!(dropped.len() as u64, counts.iter().sum::<u64>(), "lost for no reason");
            assert!(last.is_subset(&known.acked), "{last:?}");
        }
        let mut gone: Vec<(usize, BTreeSet<u64>, BTreeSet<u64>)> = Vec::new();
        for look in &known.looks {
            let Some(found) = &look.found else {
                assert!(look.deleted.1, "no source although nobody deleted it");
                continue;
            };
            assert!(!look.deleted.0, "a deleted source was found");
            let set: BTreeSet<u64> = found.iter().copied().collect();
            assert_eq!(set.len(), found.len(), "a row was found twice: {found:?}");
            assert!(set.is_subset(&look.sent_after), "found what nobody sent: {found:?}");
            let missing: BTreeSet<u64> = look.acked_before.difference(&set).copied().collect();
            let (ended, begun) = look.retained;
            let most: u64 = counts.iter().take(begun).sum();
            assert!(missing.len() as u64 <= most, "rows were not found: {missing:?}");
            if !known.deleted {
                assert!(missing.is_subset(&dropped), "rows were not found that are there: {missing:?}");
                let unseen = dropped.difference(&set).count() as u64;
                assert!(unseen >= counts.iter().take(ended).sum(), "dropped rows were found: {found:?}");
            }
            // What a reader has seen and sees no longer does not come back.
            match gone.iter_mut().find(|(reader, ..)| *reader == look.reader) {
                Some((_, seen, gone)) => {
                    gone.extend(seen.difference(&set));
                    assert!(gone.is_disjoint(&set), "rows came back");
                    seen.extend(&set);
                }
                None => gone.push((look.reader, set, BTreeSet::new())),
            }
        }
    }

    /// The catalog and the folder say the same as the source.
    fn check_disk(&self, data: &Path) {
        let folder = paths::source_folder(data, self.id);
        let files = std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let named: usize = {
            let sql = "SELECT count(*) FROM segments JOIN sources ON key = source WHERE sources.id = ?1";
            self.store.catalog().lock().query_row(sql, [self.id], |row| row.get::<_, i64>(0)).unwrap() as usize
        };
        let listed = self.store.sources.get(self.id).map_or(0, |source| source.segments().len());
        assert_eq!((files, named), (listed, listed), "files, segments of the catalog; segments of the source");
    }
}

/// One order of one set of tasks.
fn one(store: &Arc<Store>, schedule: &Arc<Schedule>, seed: u64) -> (Arc<Scene>, usize) {
    let mut dice = Dice(seed);
    let name = format!("s{seed}");
    let id = store.create_source(&name).unwrap().id;
    let scene = Arc::new(Scene { store: Arc::clone(store), id, name, known: Mutex::default() });
    let first = dice.below(3);
    for part in 0..first {
        scene.ingest(part * 4..part * 4 + 1 + dice.below(4));
        scene.flush();
    }
    let mut tasks: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    let mut task = |seed: u64, work: Work| {
        let scene = Arc::clone(&scene);
        tasks.push(Box::new(move || work(&scene, &mut Dice(seed))));
    };
    // The first is that of the flush thread, the second that of the compaction thread.
    task(
        dice.below(u64::MAX),
        Box::new(|scene, dice| {
            for _ in 0..1 + dice.below(3) {
                if dice.below(4) == 0 { scene.retain() } else { scene.flush() }
            }
        }),
    );
    task(
        dice.below(u64::MAX),
        Box::new(|scene, dice| {
            (0..1 + dice.below(2)).for_each(|_| block(scene.store.compact()).unwrap());
        }),
    );
    for caller in 1..=1 + dice.below(2) {
        task(
            dice.below(u64::MAX),
            Box::new(move |scene, dice| {
                for call in 0..1 + dice.below(3) {
                    let from = caller * 100 + call * 4;
                    scene.ingest(from..from + 1 + dice.below(3));
                }
            }),
        );
    }
    for reader in 0..1 + dice.below(2) as usize {
        task(dice.below(u64::MAX), Box::new(move |scene, dice| scene.look(reader, dice)));
    }
    if dice.below(3) == 0 {
        // The thread that makes columns has work only where there are thousands of events.
        task(
            0,
            Box::new(|scene, _| {
                if let Some(source) = scene.store.sources.get(scene.id) {
                    source.columnize().unwrap();
                }
            }),
        );
    }
    if dice.below(4) == 0 {
        let other = format!("after {seed}");
        task(
            0,
            Box::new(move |scene, _| {
                scene.delete();
                // It may get the key of the deleted one.
                let id = scene.store.create_source(&other).unwrap().id;
                block(scene.store.ingest(&other, vec![event(900), event(901)])).unwrap();
                let table = scene.store.table_for(id, &Audience::All).unwrap().table;
                let mut found = read_plainly(&table.downcast_ref::<SourceTable>().unwrap().snapshot);
                found.sort_unstable();
                assert_eq!(found, [900, 901], "another source has rows of a deleted one");
                scene.store.delete_source(id).unwrap();
            }),
        );
    }
    let steps = schedule.run(seed, tasks).len();
    scene.check();
    (scene, steps)
}

/// Tells which seed failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("TIDEGATE_SCHEDULE={} is the order that failed", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn whatever_the_order_each_row_is_found_once() {
    let count = number("TIDEGATE_SCHEDULES").unwrap_or(SCHEDULES);
    let first = number("TIDEGATE_SCHEDULE").unwrap_or(1);
    // In memory where that is possible: each schedule writes a few files and syncs them.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let schedule = Arc::new(Schedule::default());
    schedule.attach();
    let mut store = Store::open(dir.path(), options()).unwrap();
    let began = std::time::Instant::now();
    let mut steps = 0;
    for seed in first..first + count {
        let _told = Told(seed);
        let (mut scene, made) = one(&store, &schedule, seed);
        steps += made;
        scene.check_disk(dir.path());
        if seed % REOPEN == 0 {
            let known = std::mem::take(&mut *scene.known());
            let (id, name) = (scene.id, scene.name.clone());
            drop((scene, store));
            store = Store::open(dir.path(), options()).unwrap();
            scene = Arc::new(Scene { store: Arc::clone(&store), id, name, known: Mutex::new(known) });
            scene.check();
            scene.check_disk(dir.path());
        }
        if !scene.known().deleted {
            store.delete_source(scene.id).unwrap();
        }
    }
    eprintln!("{count} orders with {steps} steps in {:?}", began.elapsed());
}
