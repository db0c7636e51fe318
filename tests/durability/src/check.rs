//! The check of a folder after a cut: it opens, and has what it must have.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use datafusion::{
    arrow::array::AsArray,
    prelude::{SessionConfig, SessionContext},
};
use tidegate_store::{Store, StoreError, StoreOptions, verify};

use crate::known::{Fate, Known};

/// What a folder has: the requests of each source, each with the number of its events, and the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) sources: BTreeMap<String, BTreeMap<String, usize>>,
    pub(crate) settings: BTreeMap<String, String>,
}

/// Checks folders. Making a session is expensive, so that one is used for many.
pub(crate) struct Checker {
    session: SessionContext,
    runtime: tokio::runtime::Runtime,
}

/// How thoroughly a folder is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Once,
    /// Also that nothing is damaged before the start and after it, and that a second start finds the same.
    Twice,
}

impl Checker {
    pub(crate) fn new() -> Result<Checker, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let session = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
        Ok(Checker { session, runtime })
    }

    /// Checks the folder `data` below a root, and the backups there.
    pub(crate) fn check(&self, root: &Path, known: &Known, depth: Depth) -> Result<Found, String> {
        let data = root.join("data");
        let verified = (depth == Depth::Twice).then_some(Before::Cut);
        let found = self.open(&data, known, verified)?;
        compare(known, &found)?;
        if depth == Depth::Twice {
            let again = self.open(&data, known, Some(Before::Start))?;
            if again != found {
                return Err(format!("a second start finds something else: {again:?} after {found:?}"));
            }
        }
        for (name, backup) in &known.backups {
            let folder = root.join(name);
            if !folder.join("catalog.sqlite").is_file() {
                if backup.done {
                    return Err(format!("the backup {name} was reported as complete and is not there"));
                }
                continue;
            }
            let copy = self
                .open(&folder, &Known::default(), Some(Before::Start))
                .map_err(|error| format!("backup {name}: {error}"))?;
            for (request, (source, events)) in &backup.requests {
                let there = copy.sources.get(source).and_then(|source| source.get(request));
                if there != Some(events) {
                    return Err(format!("the backup {name} has {there:?} of {events} events of {request}"));
                }
            }
        }
        Ok(found)
    }

    /// Opens a folder and reads everything in it; verifies it before, if it is said what was before.
    fn open(&self, data: &Path, known: &Known, before: Option<Before>) -> Result<Found, String> {
        if let Some(before) = before {
            verified(data, known, before)?;
        }
        let options = StoreOptions { manual_flush: true, ..StoreOptions::default() };
        let store = Store::open(data, options).map_err(|error| format!("it does not open: {error}"))?;
        let found = self.runtime.block_on(self.read(&store, known))?;
        let stats = store.stats();
        if (stats.damaged_segments, stats.set_aside_segments) != (0, 0)
            || stats.lost_transactions > u64::from(before != Some(Before::Start))
            || stats.read_only
        {
            return Err(format!("the start finds damage: {stats:?}"));
        }
        Ok(found)
    }

    async fn read(&self, store: &Arc<Store>, known: &Known) -> Result<Found, String> {
        let mut found = Found::default();
        for source in store.sources() {
            let rows = requests(&self.session, store, &source.name).await?;
            found.sources.insert(source.name, rows);
        }
        for name in known.settings.keys() {
            let value = store.catalog().meta(name).map_err(|error| error.to_string())?;
            found.settings.insert(name.clone(), value.unwrap_or_default());
        }
        Ok(found)
    }
}

/// What was before a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A cut, which may have left the begin of a transaction.
    Cut,
    /// A start that settled what the cut had left.
    Start,
}

/// Fails if `verify` finds damage.
fn verified(data: &Path, known: &Known, before: Before) -> Result<(), String> {
    let cut = before == Before::Cut;
    match verify(data) {
        Ok(report) => {
            let bad = |problem: &str| !(cut && problem.contains("which a power cut may have cut off"));
            let findings: Vec<_> = report.findings.iter().filter(|found| bad(&found.problem)).collect();
            if !findings.is_empty() || !report.set_aside.is_empty() {
                return Err(format!("verify found {findings:?} {:?}", report.set_aside));
            }
            Ok(())
        }
        // The very first start was cut off.
        Err(
            StoreError::NoCatalog(_) | StoreError::Sqlite(_) | StoreError::Incompatible { .. } | StoreError::Io { .. },
        ) if cut && known.sources.values().all(|source| source.fate != Fate::Must) => Ok(()),
        Err(error) => Err(format!("verify: {error}")),
    }
}

/// The requests whose events a source has, each with their number. An event must not be there twice, and must be whole.
pub(crate) async fn requests(
    session: &SessionContext,
    store: &Store,
    source: &str,
) -> Result<BTreeMap<String, usize>, String> {
    let failed = |error: datafusion::error::DataFusionError| format!("reading {source}: {error}");
    let table = store.table(source).map_err(|error| error.to_string())?;
    if table.schema().index_of("event_message").is_err() {
        return Ok(BTreeMap::new());
    }
    let frame = session.read_table(table).map_err(failed)?;
    let frame = frame.select_columns(&["id", "event_message"]).map_err(failed)?;
    let mut seen = BTreeSet::new();
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    for batch in frame.collect().await.map_err(failed)? {
        let (ids, texts) = (batch.column(0).as_string_view(), batch.column(1).as_string_view());
        for (id, text) in ids.iter().zip(texts) {
            let (id, text) = (id.unwrap_or_default(), text.unwrap_or_default());
            let (request, _) = id.rsplit_once('.').ok_or_else(|| format!("an event with the id {id:?}"))?;
            if text != message(id) {
                return Err(format!("event {id} has another message"));
            }
            if !seen.insert(id.to_owned()) {
                return Err(format!("event {id} is there twice"));
            }
            *requests.entry(request.to_owned()).or_default() += 1;
        }
    }
    Ok(requests)
}

/// The message of an event: one in 16 is long, so that bodies take several pages.
pub(crate) fn message(id: &str) -> String {
    let sum: u32 = id.bytes().fold(7, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    id.repeat(if sum.is_multiple_of(16) { 2_000 } else { 1 + (sum % 7) as usize })
}

fn compare(known: &Known, found: &Found) -> Result<(), String> {
    for (name, source) in &known.sources {
        match (source.fate, found.sources.contains_key(name)) {
            (Fate::Must, false) => return Err(format!("source {name} is lost")),
            (Fate::MustNot, true) => return Err(format!("source {name} was deleted and is there")),
            (_, false) => continue,
            (_, true) => {}
        }
        let there = found.sources.get(name);
        for (request, of) in &source.requests {
            let events = there.and_then(|there| there.get(request)).copied().unwrap_or(0);
            if events != 0 && events != of.events {
                return Err(format!("{events} of {} events of request {request} are there", of.events));
            }
            match of.fate {
                Fate::Must if events == 0 => return Err(format!("request {request} in {name} is lost")),
                Fate::MustNot if events != 0 => {
                    return Err(format!("request {request} in {name} was dropped or refused and is there"));
                }
                _ => {}
            }
        }
    }
    for (name, requests) in &found.sources {
        let Some(source) = known.sources.get(name) else {
            if known.others && requests.is_empty() {
                continue;
            }
            return Err(format!("source {name} was never made"));
        };
        if let Some(unknown) = requests.keys().find(|request| !source.requests.contains_key(*request)) {
            return Err(format!("request {unknown} in {name} was never sent"));
        }
    }
    for (name, values) in &known.settings {
        let value = found.settings.get(name).cloned().unwrap_or_default();
        if !values.contains(&value) {
            return Err(format!("setting {name} is {value:?} and not one of {values:?}"));
        }
    }
    Ok(())
}
