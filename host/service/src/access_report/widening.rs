//! What a change widens: the classes of tokens that read more of a source through an endpoint than before.
//!
//! Only the endpoints and classes that a change touches are planned, before and after it, and at most so many. Private
//! tokens read all there is and are not compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Failure, SourceTenancy};
use tidegate_store::EndpointEntry;
use uuid::Uuid;

use super::compare::Reach;
use super::plans::{Version, says_nothing};
use super::report::AccessReports;
use crate::component_kinds::ComponentKind;
use crate::failures::{of_store, refused};
use crate::registry::Endpoint;
use crate::tokens::{Access, AccessClass};

/// The most endpoints that are compared for one change, counted once for each set of pinned names, and for how long.
const MOST_COMPARED: usize = 200;
const LONGEST: Duration = Duration::from_secs(5);
/// The most lines that are told.
const MOST_TOLD: usize = 20;

/// What a change widens.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Widened {
    /// What is wider, with how many tokens it is wider for.
    changes: BTreeMap<String, usize>,
    /// How many endpoints were too many to be compared.
    left_out: usize,
}

/// How endpoints stood before a change: what their readers reached.
#[derive(Debug, Default)]
pub struct Compared {
    endpoints: Vec<(Arc<EndpointEntry>, Asking, Reach)>,
    left_out: usize,
}

/// How much is left of what one change may take.
#[derive(Debug)]
struct Budget {
    left: usize,
    until: Option<Instant>,
}

impl Budget {
    fn new() -> Self {
        Self { left: MOST_COMPARED, until: Instant::now().checked_add(LONGEST) }
    }

    /// Whether one more endpoint may be compared.
    fn takes(&mut self) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        let takes = in_time && self.left > 0;
        self.left = self.left.saturating_sub(1);
        takes
    }
}

/// Classes that read the same through an endpoint, because they pin the same names.
#[derive(Debug, Clone)]
struct Asking {
    access: Arc<Access>,
    tokens: usize,
    /// Whether they could ask the endpoint before the change.
    could: bool,
}

impl Widened {
    /// What a change widens that could not be compared at all.
    pub fn unknown() -> Self {
        Self { left_out: 1, ..Self::default() }
    }

    /// Whether nothing is wider, and everything was compared.
    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.left_out == 0
    }

    /// One line for each change.
    pub fn lines(&self) -> Vec<String> {
        let line = |(change, tokens): (&String, &usize)| {
            let who = if *tokens == 1 { "token reads" } else { "tokens read" };
            format!("{tokens} {who} more than before: {change}")
        };
        let mut lines: Vec<String> = self.changes.iter().take(MOST_TOLD).map(line).collect();
        let more = self.changes.len().saturating_sub(MOST_TOLD);
        if more > 0 {
            lines.push(format!("and {more} more such changes; GET /api/access tells who reads what"));
        }
        if self.left_out > 0 {
            lines.push(format!(
                "{} endpoints could not be compared with before; GET /api/access tells who reads what",
                self.left_out
            ));
        }
        lines
    }

    /// The refusal of a change that must widen nothing.
    ///
    /// # Errors
    /// Something is wider, or could not be compared.
    pub fn refuse(&self) -> Result<(), Failure> {
        if self.is_nothing() {
            return Ok(());
        }
        let what = "tokens would read more than before, and the request says refuse_wider; nothing is saved".to_owned();
        let mut failure = refused(what).about("refuse_wider");
        failure.others = self.lines().into_iter().map(|line| refused(line).about("refuse_wider")).collect();
        Err(failure)
    }

    /// Writes what is wider to the log.
    pub fn log(&self, change: &str) {
        for line in self.lines() {
            tracing::info!(change, "{line}");
        }
    }

    fn add(&mut self, endpoint: &str, tokens: usize, before: &Reach, after: &Reach) {
        for wider in after.wider_than(before) {
            let change = format!("{} through {endpoint}, {}", wider.source, wider.change);
            *self.changes.entry(change).or_default() += tokens;
        }
    }
}

impl AccessReports {
    /// What saving a version of an endpoint would widen, for those who may ask it and for those who may ask endpoints that
    /// read it. For the compute threads.
    ///
    /// # Errors
    /// Those of [`super::plans::ReportPlanner::plan`].
    pub(crate) fn of_save(&self, changed: Version<'_>, is_code: bool) -> Result<Widened, Failure> {
        let mut widened = Widened::default();
        let classes = self.comparable();
        if classes.is_empty() {
            return Ok(widened);
        }
        let registry = &self.planner.registry;
        let before = changed.id.and_then(|id| registry.by_id(id));
        let name = changed.manifest.name.as_str();
        let could = |class: &AccessClass| {
            before.as_ref().is_some_and(|entry| class.access.may_query(&entry.name, Some(entry.id)))
        };
        let asking = grouped(classes.iter().filter(|class| class.access.may_query(name, changed.id)), could);
        let now = self.clock.now();
        let mut budget = Budget::new();
        for asking in asking {
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            let planned = self.planner.plan(changed, &asking.access, now, Some(changed))?;
            let after = Reach::of(&planned, is_code, changed.manifest.settings.sandboxable);
            let reached = match &before {
                Some(entry) if asking.could => self.reach(entry, &asking.access, None)?,
                _ => Reach::default(),
            };
            widened.add(name, asking.tokens, &reached, &after);
        }
        let Some(before) = before else { return Ok(widened) };
        let readers = registry.all().into_iter().filter(|entry| {
            entry.id != before.id && registry.reads(&entry.tables).iter().any(|read| read.id == before.id)
        });
        for entry in readers {
            let may_query = |class: &&AccessClass| class.access.may_query(&entry.name, Some(entry.id));
            for asking in grouped(classes.iter().filter(may_query), |_| true) {
                if !budget.takes() {
                    widened.left_out += 1;
                    continue;
                }
                let before = self.reach(&entry, &asking.access, None)?;
                let after = self.reach(&entry, &asking.access, Some(changed))?;
                widened.add(&entry.name, asking.tokens, &before, &after);
            }
        }
        Ok(widened)
    }

    /// How endpoints stand before a source says something else of its tenants: those that read it, and for tokens that pin
    /// a name which becomes a tenant key by that or is none any more, all others.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub async fn before_tenancy(
        self,
        source: Option<Uuid>,
        was: Option<SourceTenancy>,
        becomes: Option<SourceTenancy>,
    ) -> Result<Compared, Failure> {
        let (was, becomes) = (keys_of(was.as_ref()), keys_of(becomes.as_ref()));
        let names: BTreeSet<&String> = was.symmetric_difference(&becomes).collect();
        let (classes, registry) = (self.comparable(), &self.planner.registry);
        let (mut compared, mut budget) = (Compared::default(), Budget::new());
        for entry in registry.all() {
            let reads = source.is_some_and(|source| self.reads(&entry, source));
            let is_touched = |class: &&AccessClass| {
                class.access.may_query(&entry.name, Some(entry.id))
                    && (reads || class.access.pinned.keys().any(|name| names.contains(name)))
            };
            for asking in grouped(classes.iter().filter(is_touched), |_| true) {
                if !budget.takes() {
                    compared.left_out += 1;
                    continue;
                }
                tokio::task::yield_now().await;
                let reach = self.reach(&entry, &asking.access, None)?;
                compared.endpoints.push((Arc::clone(&entry), asking, reach));
            }
        }
        Ok(compared)
    }

    /// What is wider than it was.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub async fn widened_since(self, compared: Compared) -> Result<Widened, Failure> {
        let mut widened = Widened { left_out: compared.left_out, ..Widened::default() };
        for (entry, asking, before) in compared.endpoints {
            tokio::task::yield_now().await;
            let after = self.reach(&entry, &asking.access, None)?;
            widened.add(&entry.name, asking.tokens, &before, &after);
        }
        Ok(widened)
    }

    /// What a token reads that is about to be made. Another one that may do the same reads all that already.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub async fn of_new_token(self, access: Arc<Access>) -> Result<Widened, Failure> {
        let mut widened = Widened::default();
        let key = access.class();
        if access.is_private() || self.comparable().iter().any(|class| class.key == key) {
            return Ok(widened);
        }
        let mut budget = Budget::new();
        for entry in self.planner.registry.all() {
            if !access.may_query(&entry.name, Some(entry.id)) {
                continue;
            }
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            tokio::task::yield_now().await;
            let reach = self.reach(&entry, &access, None)?;
            widened.add(&entry.name, 1, &Reach::default(), &reach);
        }
        Ok(widened)
    }

    /// The classes that do not read everything anyway.
    fn comparable(&self) -> Vec<AccessClass> {
        let classes = self.tokens.classes(self.clock.now());
        classes.into_iter().filter(|class| !class.access.is_private()).collect()
    }

    /// What a reader reaches through an endpoint, as it is or as it would be if `changed` were saved.
    fn reach(&self, entry: &EndpointEntry, access: &Access, changed: Option<Version<'_>>) -> Result<Reach, Failure> {
        let reached = || {
            let endpoint: Arc<Endpoint> = self.planner.registry.peek(&self.planner.store, entry)?;
            let is_code = self.kinds.read(&endpoint.component).map_err(of_store)? == ComponentKind::Wasm;
            let planned = self.planner.plan(Version::of(&endpoint)?, access, self.clock.now(), changed)?;
            Ok(Reach::of(&planned, is_code, endpoint.manifest.settings.sandboxable))
        };
        match reached() {
            // One that cannot be used gives nobody anything.
            Err(failure) if !says_nothing(&failure) => Ok(Reach::default()),
            reached => reached,
        }
    }
}

/// The classes by the names that they pin, and by whether they could ask the endpoint before.
fn grouped<'c>(classes: impl Iterator<Item = &'c AccessClass>, could: impl Fn(&AccessClass) -> bool) -> Vec<Asking> {
    let mut groups: HashMap<(&[String], bool), Asking> = HashMap::new();
    for class in classes {
        let could = could(class);
        let group = groups.entry((&class.key.pinned, could)).or_insert_with(|| Asking {
            access: Arc::clone(&class.access),
            tokens: 0,
            could,
        });
        group.tokens += class.tokens;
    }
    groups.into_values().collect()
}

fn keys_of(tenancy: Option<&SourceTenancy>) -> BTreeSet<String> {
    match tenancy {
        Some(SourceTenancy::Keyed(keys)) => keys.keys().cloned().collect(),
        Some(SourceTenancy::Shared) | None => BTreeSet::new(),
    }
}
