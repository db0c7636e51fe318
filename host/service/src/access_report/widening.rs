//! How it is found out what a change widens: for classes of tokens, rules of issuers and alerts.
//!
//! Only the endpoints and readers that a change touches are planned, as they are and as they would be, and at most so many.
//! Private tokens read all there is and are not compared.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Failure, SourceTenancy};
use uuid::Uuid;

use super::compare::{Reach, Told};
use super::plans::{Change, Version, says_nothing};
use super::readers::{AccessRule, AlertReader, alerts_of};
use super::report::AccessReports;
use super::widened::{Who, Widened};
use crate::catalog::EndpointEntry;
use crate::component_kinds::ComponentKind;
use crate::failures::{of_store, unknown_rule};
use crate::registry::Endpoint;
use crate::supposed::Supposed;
use crate::tokens::{Access, ClassKey};

/// The most endpoints that are compared for one change, counted once for each set of pinned names, and for how long.
const MOST_COMPARED: usize = 200;
const LONGEST: Duration = Duration::from_secs(5);

/// How much is left of what one change may take.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    until: Option<Instant>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: MOST_COMPARED, until: Instant::now().checked_add(LONGEST) }
    }

    /// Whether one more endpoint may be compared.
    pub(super) fn takes(&mut self) -> bool {
        let in_time = self.until.is_none_or(|until| Instant::now() < until);
        let takes = in_time && self.left > 0;
        self.left = self.left.saturating_sub(1);
        takes
    }
}

/// Readers that may do the same: a class of tokens, or those of a rule.
#[derive(Debug)]
struct Comparable {
    key: ClassKey,
    access: Arc<Access>,
    who: Who,
}

/// Readers that read the same through an endpoint, because they pin the same names.
#[derive(Debug)]
struct Asking {
    access: Arc<Access>,
    who: Who,
    /// Whether they could ask the endpoint before the change.
    could: bool,
}

/// A change of what a source says of its tenants, or of whether it is there.
#[derive(Debug)]
pub struct TenancyChange {
    source: Option<Uuid>,
    /// Whether rows that a key has bound are bound by it no more, whoever reads them now.
    loosens: bool,
    /// The names that become tenant keys by it, or may be none any more.
    keys: BTreeSet<String>,
    supposed: Supposed,
}

impl TenancyChange {
    /// A source says something else than it did; one that is deleted says nothing.
    pub fn of(source: Uuid, was: Option<&SourceTenancy>, becomes: Option<SourceTenancy>) -> Self {
        let keys = keys_of(was).symmetric_difference(&keys_of(becomes.as_ref())).cloned().collect();
        let loosens = loosens(was, becomes.as_ref());
        Self { source: Some(source), loosens, keys, supposed: Supposed::says(source, becomes) }
    }

    /// A source is made. Nothing reads it, but what it names as a key may be pinned already.
    pub fn of_new(name: &str, tenant: Option<SourceTenancy>) -> Self {
        let keys = keys_of(tenant.as_ref());
        let mut supposed = Supposed::default();
        supposed.make(name, tenant);
        Self { source: None, loosens: false, keys, supposed }
    }

    /// Whether a key is taken away or moved to another field, or all rows become everybody's. Then somebody reads more, or
    /// will: who does not now may be given a token tomorrow.
    pub fn loosens(&self) -> bool {
        self.loosens
    }
}

impl AccessReports {
    /// The rules of issuers, or the one of a name.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn rules_named(&self, only: Option<&str>) -> Result<Vec<AccessRule>, Failure> {
        let found = self.rules.iter().filter(|rule| only.is_none_or(|only| rule.name == only));
        let found: Vec<AccessRule> = found.cloned().collect();
        match only {
            Some(only) if found.is_empty() => Err(unknown_rule(only, self.rules.iter().map(|rule| rule.name.as_str()))),
            _ => Ok(found),
        }
    }

    /// What saving a version of an endpoint would widen, for those who may ask it, for its alerts, and for those who may ask
    /// endpoints that read it. `supposed` are the sources that are made with it. For the compute threads.
    ///
    /// # Errors
    /// Those of [`super::plans::ReportPlanner::plan`].
    pub(crate) fn of_save(&self, changed: Version<'_>, is_code: bool, supposed: &Supposed) -> Result<Widened, Failure> {
        let (mut widened, mut budget) = (Widened::default(), Budget::new());
        let readers = self.comparable();
        let registry = &self.planner.registry;
        let before = changed.id.and_then(|id| registry.by_id(id));
        let name = changed.manifest.name.as_str();
        let change = Change { version: Some(changed), supposed: Some(supposed) };
        let after = |access: &Access, told: Told| -> Result<Reach, Failure> {
            let planned = self.planner.plan(changed, access, self.clock.now(), change)?;
            let adhoc = changed.manifest.settings.sandboxable && told == Told::Keys;
            Ok(Reach::of(&planned, is_code, adhoc, told))
        };
        let could = |reader: &Comparable| {
            before.as_ref().is_some_and(|entry| reader.access.may_query(&entry.name, Some(entry.id)))
        };
        let may_query = |reader: &&Comparable| reader.access.may_query(name, changed.id);
        for asking in grouped(readers.iter().filter(may_query), could) {
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            let reached = match &before {
                Some(entry) if asking.could => self.reach(entry, &asking.access, Told::Keys, Change::default())?,
                _ => Reach::default(),
            };
            widened.add(name, &asking.who, &reached, &after(&asking.access, Told::Keys)?);
        }
        let former = before.as_ref().map(|entry| self.alerts(entry)).unwrap_or_default();
        for alert in alerts_of(changed.manifest, changed.id) {
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            let reached = match (&before, former.iter().find(|former| former.is(&alert))) {
                (Some(entry), Some(former)) => self.reach(entry, &former.access, Told::Values, Change::default())?,
                _ => Reach::default(),
            };
            widened.add(name, &Who::named(alert.who()), &reached, &after(&alert.access, Told::Values)?);
        }
        let Some(before) = before else { return Ok(widened) };
        let above = registry.all().into_iter().filter(|entry| {
            entry.id != before.id && registry.reads(&entry.tables).iter().any(|read| read.id == before.id)
        });
        for entry in above {
            self.compare(&entry, &readers, |_| true, change, (&mut widened, &mut budget))?;
        }
        Ok(widened)
    }

    /// What a source would widen that says something else of its tenants: for those who may ask endpoints that read it, and
    /// for those who pin a name that becomes a tenant key by that or is none any more, through all others.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub async fn of_tenancy(self, change: TenancyChange) -> Result<Widened, Failure> {
        let TenancyChange { source, keys, supposed, loosens: _ } = change;
        let (mut widened, mut budget) = (Widened::default(), Budget::new());
        let readers = self.comparable();
        for entry in self.planner.registry.all() {
            tokio::task::yield_now().await;
            let reads = source.is_some_and(|source| self.reads(&entry, source));
            let is_touched = |access: &Access| reads || access.pinned.keys().any(|name| keys.contains(name));
            let change = Change { version: None, supposed: Some(&supposed) };
            self.compare(&entry, &readers, is_touched, change, (&mut widened, &mut budget))?;
        }
        Ok(widened)
    }

    /// Compares an endpoint as it is with what it would be, for readers that a change touches.
    fn compare(
        &self,
        entry: &EndpointEntry,
        readers: &[Comparable],
        is_touched: impl Fn(&Access) -> bool,
        change: Change<'_>,
        (widened, budget): (&mut Widened, &mut Budget),
    ) -> Result<(), Failure> {
        let asks =
            |reader: &&Comparable| reader.access.may_query(&entry.name, Some(entry.id)) && is_touched(&reader.access);
        let asking = grouped(readers.iter().filter(asks), |_| true).into_iter();
        let asking = asking.map(|asking| (asking.access, asking.who, Told::Keys));
        let alerts = self.alerts(entry).into_iter().filter(|alert| is_touched(&alert.access));
        let alerts = alerts.map(|alert| (Arc::clone(&alert.access), Who::named(alert.who()), Told::Values));
        for (access, who, told) in asking.chain(alerts) {
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            let before = self.reach(entry, &access, told, Change::default())?;
            let after = self.reach(entry, &access, told, change)?;
            widened.add(&entry.name, &who, &before, &after);
        }
        Ok(())
    }

    /// What a token reads that is about to be made. Another one that may do the same reads all that already.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub async fn of_new_token(self, access: Arc<Access>) -> Result<Widened, Failure> {
        let key = access.class();
        if self.comparable().iter().any(|reader| reader.key == key) {
            return Ok(Widened::default());
        }
        self.of_first_token(access).await
    }

    /// What a token reads that is the first of its kind.
    ///
    /// # Errors
    /// As [`Self::of_save`].
    pub(crate) async fn of_first_token(self, access: Arc<Access>) -> Result<Widened, Failure> {
        let mut widened = Widened::of_new();
        if access.is_private() {
            return Ok(widened);
        }
        let (mut budget, who) = (Budget::new(), Who { tokens: 1, ..Who::default() });
        for entry in self.planner.registry.all() {
            if !access.may_query(&entry.name, Some(entry.id)) {
                continue;
            }
            if !budget.takes() {
                widened.left_out += 1;
                continue;
            }
            tokio::task::yield_now().await;
            let reach = self.reach(&entry, &access, Told::Keys, Change::default())?;
            widened.add(&entry.name, &who, &Reach::default(), &reach);
        }
        Ok(widened)
    }

    /// The classes of tokens and the rules that do not read everything anyway.
    fn comparable(&self) -> Vec<Comparable> {
        let classes = self.tokens.classes(self.clock.now()).into_iter();
        let classes = classes.map(|class| {
            let who = Who { tokens: class.tokens, ..Who::default() };
            Comparable { key: class.key, access: class.access, who }
        });
        let rules = self.rules.iter().map(|rule| {
            let who = Who::named(format!("the rule {}", rule.name));
            Comparable { key: rule.access.class(), access: Arc::clone(&rule.access), who }
        });
        classes.chain(rules).filter(|reader| !reader.access.is_private()).collect()
    }

    /// The alerts of an endpoint. One that cannot be read runs none.
    fn alerts(&self, entry: &EndpointEntry) -> Vec<AlertReader> {
        let endpoint = self.planner.registry.peek(&self.planner.store, entry);
        endpoint.map(|endpoint| alerts_of(&endpoint.manifest, Some(entry.id)).collect()).unwrap_or_default()
    }

    /// What a reader reaches through an endpoint, as it is or as it would be after a change.
    pub(super) fn reach(
        &self,
        entry: &EndpointEntry,
        access: &Access,
        told: Told,
        change: Change<'_>,
    ) -> Result<Reach, Failure> {
        let reached = || {
            let endpoint: Arc<Endpoint> = self.planner.registry.peek(&self.planner.store, entry)?;
            let is_code = self.kinds.read(&endpoint.component).map_err(of_store)? == ComponentKind::Wasm;
            let planned = self.planner.plan(Version::of(&endpoint)?, access, self.clock.now(), change)?;
            // An alert sends no text of its own.
            let adhoc = endpoint.manifest.settings.sandboxable && told == Told::Keys;
            Ok(Reach::of(&planned, is_code, adhoc, told))
        };
        match reached() {
            // One that cannot be used gives nobody anything.
            Err(failure) if !says_nothing(&failure) => Ok(Reach::default()),
            reached => reached,
        }
    }
}

/// Readers by the names that they pin, and by whether they could ask the endpoint before.
fn grouped<'c>(readers: impl Iterator<Item = &'c Comparable>, could: impl Fn(&Comparable) -> bool) -> Vec<Asking> {
    let mut groups: HashMap<(&[String], bool), Asking> = HashMap::new();
    for reader in readers {
        let could = could(reader);
        let group = groups.entry((&reader.key.pinned, could)).or_insert_with(|| Asking {
            access: Arc::clone(&reader.access),
            who: Who::default(),
            could,
        });
        group.who.add(&reader.who);
    }
    groups.into_values().collect()
}

fn loosens(was: Option<&SourceTenancy>, becomes: Option<&SourceTenancy>) -> bool {
    match (was, becomes) {
        (Some(SourceTenancy::Keyed(_)), Some(SourceTenancy::Shared)) => true,
        (Some(SourceTenancy::Keyed(was)), Some(SourceTenancy::Keyed(keys))) => {
            was.iter().any(|(name, path)| keys.get(name) != Some(path))
        }
        // A source that says nothing gives tenants nothing.
        (Some(SourceTenancy::Shared) | None, _) | (Some(SourceTenancy::Keyed(_)), None) => false,
    }
}

fn keys_of(tenancy: Option<&SourceTenancy>) -> BTreeSet<String> {
    match tenancy {
        Some(SourceTenancy::Keyed(keys)) => keys.keys().cloned().collect(),
        Some(SourceTenancy::Shared) | None => BTreeSet::new(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_goes_or_moves_loosens() {
        let read = |json: &str| serde_json::from_str::<Option<SourceTenancy>>(json).unwrap();
        let (none, shared) = ("null", "\"shared\"");
        let (one, two, moved) = (r#"{"p":"p"}"#, r#"{"p":"p","t":"t"}"#, r#"{"p":"m.p"}"#);
        for (was, becomes, is_looser) in [
            (one, shared, true),
            (one, moved, true),
            (two, one, true),
            (one, two, false),
            (one, none, false),
            (none, shared, false),
            (none, one, false),
            (shared, one, false),
            (shared, none, false),
        ] {
            let change = TenancyChange::of(Uuid::nil(), read(was).as_ref(), read(becomes));
            assert_eq!(change.loosens(), is_looser, "{was} to {becomes}");
        }
    }
}
