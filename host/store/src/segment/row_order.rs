//! The order in which the rows of a segment are written, so that the rows of a tenant lie together.
//!
//! The rows are cut into [`Run`]s. A tenant with many rows gets a run of its own; tenants with few rows share one with
//! their neighbours in the order of names, because a run costs a row group, and each row group costs some bytes in the
//! footer and some time at each scan. Within a run the newest row comes first, and rows with the same time stay in their order.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use datafusion::arrow::array::Array;

use crate::{
    memory::tenant_column::TenantColumn,
    schema::run_tenants::{LONGEST_TENANT, RunTenants},
    segment::run::Run,
};

/// The sort keys of rows: tenant and time. Rows are added in the order in which they arrived, newest first within
/// each call.
#[derive(Debug, Default)]
pub(crate) struct OrderKeys {
    /// For each row the number of its tenant, as long as all are known.
    tenants: Vec<u32>,
    times: Vec<i64>,
    /// The number of each tenant; `None` are rows without one.
    numbers: HashMap<Option<String>, u32>,
    /// The tenant of some row is not known, or no short text.
    refused: bool,
}

/// The order of the rows of a segment, and its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowOrder {
    /// The rows as they are to be written, by the number under which they were added. The rows of the first run come
    /// first. `None` if the rows were added in this order.
    pub(crate) order: Option<Vec<u32>>,
    pub(crate) runs: Vec<Run>,
}

impl OrderKeys {
    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Adds rows.
    pub(crate) fn add(&mut self, times: &[i64], tenants: TenantColumn<'_>) {
        self.times.extend_from_slice(times);
        let texts = match tenants {
            TenantColumn::Missing => {
                let number = self.number(None);
                self.tenants.resize(self.times.len(), number);
                return;
            }
            TenantColumn::Texts(texts) if texts.len() == times.len() && !self.refused => texts,
            TenantColumn::Texts(_) | TenantColumn::Unknown => {
                self.refused = true;
                return;
            }
        };
        let mut last: Option<(Option<&str>, u32)> = None;
        for text in texts {
            if text.is_some_and(|text| text.len() > LONGEST_TENANT) {
                self.refused = true;
                return;
            }
            let number = match last {
                Some((known, number)) if known == text => number,
                _ => self.number(text),
            };
            last = Some((text, number));
            self.tenants.push(number);
        }
    }

    fn number(&mut self, tenant: Option<&str>) -> u32 {
        let tenant = tenant.map(str::to_owned);
        let next = self.numbers.len() as u32;
        *self.numbers.entry(tenant).or_insert(next)
    }

    /// Decides about runs and order. A tenant with at least `run_rows` rows has a run of its own; a shared run is closed
    /// when it has so many. Each run has row groups of at most `group_rows` rows.
    pub(crate) fn order(self, run_rows: usize, group_rows: usize) -> RowOrder {
        let OrderKeys { tenants, times, numbers, refused } = self;
        let mut runs: Vec<RunDraft> = Vec::new();
        let mut run_of: Vec<u32> = vec![0; numbers.len().max(1)];
        if !refused && tenants.len() == times.len() {
            let mut counts: Vec<usize> = vec![0; numbers.len()];
            for number in &tenants {
                if let Some(count) = counts.get_mut(*number as usize) {
                    *count += 1;
                }
            }
            let mut sorted: Vec<(Option<String>, u32)> = numbers.into_iter().collect();
            sorted.sort_unstable();
            // The shared run that takes the next tenant with few rows.
            let mut open: Option<usize> = None;
            for (name, number) in sorted {
                let rows = counts.get(number as usize).copied().unwrap_or(0);
                let shared = open.filter(|_| rows < run_rows);
                let at = match shared.and_then(|at| Some((at, runs.get_mut(at)?))) {
                    Some((at, run)) => {
                        run.add(name, rows);
                        at
                    }
                    None => {
                        runs.push(RunDraft::of(name, rows));
                        runs.len() - 1
                    }
                };
                if rows < run_rows {
                    open = runs.get(at).is_some_and(|run| run.rows < run_rows).then_some(at);
                }
                if let Some(run) = run_of.get_mut(number as usize) {
                    *run = at as u32;
                }
            }
        }
        if runs.len() < 2 {
            let tenants = match (refused, runs.pop()) {
                (false, Some(run)) => run.tenants(),
                _ => RunTenants::Any,
            };
            let run = Run {
                rows: times.len(),
                groups: times.len().div_ceil(group_rows.max(1)),
                min_time: times.iter().min().copied().unwrap_or(0),
                max_time: times.iter().max().copied().unwrap_or(0),
                tenants,
            };
            let order = (!times.is_sorted_by(|a, b| a >= b)).then(|| {
                let mut keyed: Vec<(Reverse<i64>, u32)> = times.iter().map(|time| Reverse(*time)).zip(0..).collect();
                keyed.sort_unstable();
                keyed.into_iter().map(|(_, row)| row).collect()
            });
            return RowOrder { order, runs: vec![run] };
        }
        let run_of_row = |tenant: u32| run_of.get(tenant as usize).copied().unwrap_or(0);
        let mut keyed: Vec<(u32, Reverse<i64>, u32)> = tenants
            .iter()
            .zip(&times)
            .zip(0..)
            .map(|((tenant, time), row)| (run_of_row(*tenant), Reverse(*time), row))
            .collect();
        keyed.sort_unstable();
        let mut start = 0;
        let runs = runs.into_iter().map(|draft| {
            let rows = keyed.get(start..start + draft.rows).unwrap_or_default();
            start += draft.rows;
            Run {
                rows: draft.rows,
                groups: draft.rows.div_ceil(group_rows.max(1)),
                min_time: rows.last().map_or(0, |(_, time, _)| time.0),
                max_time: rows.first().map_or(0, |(_, time, _)| time.0),
                tenants: draft.tenants(),
            }
        });
        let runs = runs.collect();
        RowOrder { order: Some(keyed.into_iter().map(|(_, _, row)| row).collect()), runs }
    }
}

/// A run while tenants are assigned to it.
#[derive(Debug)]
struct RunDraft {
    rows: usize,
    names: BTreeSet<String>,
}

impl RunDraft {
    fn of(name: Option<String>, rows: usize) -> RunDraft {
        RunDraft { rows, names: name.into_iter().collect() }
    }

    fn add(&mut self, name: Option<String>, rows: usize) {
        self.rows += rows;
        self.names.extend(name);
    }

    fn tenants(self) -> RunTenants {
        RunTenants::of_names(self.names)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use proptest::prelude::*;

    use super::*;

    fn column(names: &[Option<&str>]) -> StringViewArray {
        names.iter().copied().collect()
    }

    /// Small tenants share a run, large ones have their own.
    #[test]
    fn large_tenants_have_runs_of_their_own() {
        const RUN_ROWS: usize = 8_192;
        let sizes = [("a", 100), ("b", 200), ("c", RUN_ROWS), ("d", 5_000), ("e", 5_000), ("f", 10)];
        let names: Vec<Option<&str>> =
            sizes.iter().flat_map(|(name, rows)| std::iter::repeat_n(Some(*name), *rows)).collect();
        let times: Vec<i64> = (0..names.len() as i64).map(|i| (i * 7_919) % 1_000).collect();
        let mut keys = OrderKeys::default();
        keys.add(&times, TenantColumn::Texts(&column(&names)));
        let ordered = keys.order(RUN_ROWS, 1_000);
        let listed = |names: &[&str]| RunTenants::Listed(names.iter().map(|name| (*name).to_owned()).collect());
        let expected =
            [(listed(&["a", "b", "d", "e"]), 10_300, 11), (listed(&["c"]), RUN_ROWS, 9), (listed(&["f"]), 10, 1)];
        let found: Vec<_> = ordered.runs.iter().map(|run| (run.tenants.clone(), run.rows, run.groups)).collect();
        assert_eq!(found, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        /// However rows are distributed: each row is in one run, the runs say which tenants and times they have, and
        /// within a run rows are newest first and stable.
        #[test]
        fn runs_hold_what_they_say(
            rows in prop::collection::vec((prop::option::of(0_u8..90), 0_i64..50), 0..300),
            copies in 1_usize..20,
            least in 1_usize..2_000,
        ) {
            let names: Vec<Option<String>> = rows.iter().map(|(name, _)| name.map(|n| format!("p{n}"))).collect();
            let names: Vec<Option<&str>> = names.iter().map(Option::as_deref).collect();
            let times: Vec<i64> = rows.iter().map(|(_, time)| *time).collect();
            let mut keys = OrderKeys::default();
            for _ in 0..copies {
                keys.add(&times, TenantColumn::Texts(&column(&names)));
            }
            let total = keys.rows();
            let RowOrder { order, runs } = keys.order(least, 100);
            let order = order.unwrap_or_else(|| (0..total as u32).collect());
            let mut seen = order.clone();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..total as u32));
            prop_assert_eq!(runs.iter().map(|run| run.rows).sum::<usize>(), total);
            let mut start = 0;
            for run in &runs {
                let part = &order[start..start + run.rows];
                start += run.rows;
                let time = |row: u32| times[row as usize % times.len()];
                prop_assert!(part.is_sorted_by_key(|row| (Reverse(time(*row)), *row)));
                if let Some(first) = part.first() {
                    prop_assert_eq!((run.max_time, run.min_time), (time(*first), time(*part.last().unwrap())));
                }
                for row in part {
                    if let Some(name) = names[*row as usize % names.len()] {
                        prop_assert!(run.tenants.may_have(name));
                    }
                }
            }
        }
    }
}
