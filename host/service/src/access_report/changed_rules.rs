//! What other rules of issuers widen than those with which the server started before.
//!
//! Rules stand in the configuration, so nothing sees them change but the next start. What they were is kept in the
//! catalog, and the difference is written to the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::Failure;

use super::compare::{Reach, Told};
use super::plans::Change;
use super::readers::AccessRule;
use super::report::AccessReports;
use super::widened::{Who, Widened};
use super::widening::Budget;
use crate::failures::of_store;
use crate::issuer_options::{ClaimValue, IssuerOptions, RuleOptions};

/// Where the rules of the last start are kept.
const KEPT: &str = "issuer_rules";

/// What is kept of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeptRule {
    /// The name of its issuer, and what its tokens have as `iss`.
    issuer: (String, String),
    name: String,
    /// To which tokens it applies.
    when: BTreeMap<String, Vec<ClaimValue>>,
    scopes: String,
    pin: BTreeMap<String, String>,
    redact: bool,
}

impl KeptRule {
    fn all(issuers: &[IssuerOptions]) -> Vec<Self> {
        let of = |issuer: &IssuerOptions, rule: &RuleOptions| Self {
            issuer: (issuer.name.clone(), issuer.issuer.clone()),
            name: rule.name.clone(),
            when: rule.when.clone(),
            scopes: rule.scopes.clone(),
            pin: rule.pin.clone(),
            redact: rule.redact,
        };
        issuers.iter().flat_map(|issuer| issuer.rules.iter().map(move |rule| of(issuer, rule))).collect()
    }

    /// What its tokens may do.
    fn reader(&self) -> AccessRule {
        let (name, issuer) = self.issuer.clone();
        let rule = RuleOptions {
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            pin: self.pin.clone(),
            redact: self.redact,
            ..RuleOptions::default()
        };
        AccessRule::of(&IssuerOptions { name, issuer, ..IssuerOptions::default() }, &rule)
    }

    fn is(&self, other: &Self) -> bool {
        (&self.issuer.0, &self.name) == (&other.issuer.0, &other.name)
    }

    /// What is not seen of what it reads: who has it, whose rows its tokens read, and what is masked.
    fn other_than(&self, before: &Self) -> Vec<&'static str> {
        let moved = |(name, claim): (&String, &String)| before.pin.get(name).is_some_and(|was| was != claim);
        let told = [
            ((&self.issuer.1, &self.when) != (&before.issuer.1, &before.when), "applies to other tokens than before"),
            (self.pin.iter().any(moved), "takes the value of a pin from another claim than before"),
            (before.redact && !self.redact, "masks personal data no more"),
        ];
        told.into_iter().filter_map(|(is_so, what)| is_so.then_some(what)).collect()
    }
}

impl AccessReports {
    /// What these rules widen, compared with those of the last start, and what else is other of them, a line each. They are
    /// the ones of the last start from then on. A folder that has had none kept has nothing to compare with. For the
    /// compute threads.
    ///
    /// # Errors
    /// If the catalog cannot be read or written; those of [`super::plans::ReportPlanner::plan`].
    pub(crate) async fn of_changed_rules(self, issuers: Vec<IssuerOptions>) -> Result<(Widened, Vec<String>), Failure> {
        let (mut widened, mut other, mut budget) = (Widened::default(), Vec::new(), Budget::new());
        let rules = KeptRule::all(&issuers);
        let catalog = self.planner.store.catalog();
        let kept = catalog.meta(KEPT).map_err(of_store)?;
        // What an older version kept in another form is as if there were none.
        let kept: Option<Vec<KeptRule>> = kept.and_then(|kept| serde_json::from_str(&kept).ok());
        for rule in kept.iter().flat_map(|_| &rules) {
            let before = kept.iter().flatten().find(|before| before.is(rule));
            if before == Some(rule) {
                continue;
            }
            let (now, was) = (rule.reader(), before.map(KeptRule::reader));
            let told = before.map(|before| rule.other_than(before)).unwrap_or_default();
            other.extend(told.into_iter().map(|told| format!("the rule {} {told}", now.name)));
            if now.access.is_private() {
                let more = was.is_none_or(|was| !was.access.is_private());
                other.extend(more.then(|| format!("the rule {} reads all there is", now.name)));
                continue;
            }
            let who = Who::named(format!("the rule {}", now.name));
            for entry in self.planner.registry.all() {
                if !now.access.may_query(&entry.name, Some(entry.id)) {
                    continue;
                }
                if !budget.takes() {
                    widened.left_out += 1;
                    continue;
                }
                tokio::task::yield_now().await;
                let reach = |access: &Arc<_>| self.reach(&entry, access, Told::Keys, Change::default());
                let was = was.as_ref().filter(|was| was.access.may_query(&entry.name, Some(entry.id)));
                let reached = was.map_or_else(|| Ok(Reach::default()), |was| reach(&was.access))?;
                widened.add(&entry.name, &who, &reached, &reach(&now.access)?);
            }
        }
        if kept.as_ref() != Some(&rules) {
            let text = serde_json::to_string(&rules).unwrap_or_default();
            catalog.set_meta(KEPT, &text).map_err(of_store)?;
        }
        Ok((widened, other))
    }
}
