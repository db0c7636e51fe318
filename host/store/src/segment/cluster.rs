//! Clustering: the order in which the rows of a segment are written, so that the rows of a project lie together.
//!
//! The rows are cut into [`Run`]s. A project with many rows gets a run of its own; projects with few rows share one with
//! their neighbours in the order of names, because a run costs a row group, and each row group costs some bytes in the
//! footer and some time at each scan. Within a run the newest row comes first, and rows with the same time stay in their order.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use datafusion::arrow::array::{Array, ArrayRef, AsArray};

use crate::{
    schema::run_projects::{LONGEST_PROJECT, RunProjects},
    segment::run::Run,
};

/// The sort keys of rows: project and time. Rows are added in the order in which they arrived, newest first within
/// each call.
#[derive(Debug, Default)]
pub(crate) struct ClusterKeys {
    /// For each row the number of its project. Empty while no row has a project column.
    projects: Vec<u32>,
    times: Vec<i64>,
    /// The number of each project; `None` are rows without a project.
    numbers: HashMap<Option<String>, u32>,
    /// Some value of `project` is not short text.
    refused: bool,
}

/// The order of the rows of a segment, and its runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clustering {
    /// The rows as they are to be written, by the number under which they were added. The rows of the first run come
    /// first. `None` if the rows were added in this order.
    pub(crate) order: Option<Vec<u32>>,
    pub(crate) runs: Vec<Run>,
}

impl ClusterKeys {
    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Adds rows. `project` is the column of that name, if there is one.
    pub(crate) fn add(&mut self, times: &[i64], project: Option<&ArrayRef>) {
        self.times.extend_from_slice(times);
        let texts = match project {
            None => {
                let number = self.number(None);
                self.projects.resize(self.times.len(), number);
                return;
            }
            Some(column) => column.as_string_view_opt(),
        };
        let Some(texts) = texts.filter(|texts| texts.len() == times.len() && !self.refused) else {
            self.refused = true;
            return;
        };
        let mut last: Option<(Option<&str>, u32)> = None;
        for text in texts {
            if text.is_some_and(|text| text.len() > LONGEST_PROJECT) {
                self.refused = true;
                return;
            }
            let number = match last {
                Some((known, number)) if known == text => number,
                _ => self.number(text),
            };
            last = Some((text, number));
            self.projects.push(number);
        }
    }

    fn number(&mut self, project: Option<&str>) -> u32 {
        let project = project.map(str::to_owned);
        let next = self.numbers.len() as u32;
        *self.numbers.entry(project).or_insert(next)
    }

    /// Decides about runs and order. A project with at least `run_rows` rows has a run of its own; a shared run is closed
    /// when it has so many. Each run has row groups of at most `group_rows` rows.
    pub(crate) fn cluster(self, run_rows: usize, group_rows: usize) -> Clustering {
        let ClusterKeys { projects, times, numbers, refused } = self;
        let mut runs: Vec<RunDraft> = Vec::new();
        let mut run_of: Vec<u32> = vec![0; numbers.len().max(1)];
        if !refused && projects.len() == times.len() {
            let mut counts: Vec<usize> = vec![0; numbers.len()];
            for number in &projects {
                if let Some(count) = counts.get_mut(*number as usize) {
                    *count += 1;
                }
            }
            let mut sorted: Vec<(Option<String>, u32)> = numbers.into_iter().collect();
            sorted.sort_unstable();
            // The shared run that takes the next project with few rows.
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
            let projects = match (refused, runs.pop()) {
                (false, Some(run)) => run.projects(),
                _ => RunProjects::Any,
            };
            let run = Run {
                rows: times.len(),
                groups: times.len().div_ceil(group_rows.max(1)),
                min_time: times.iter().min().copied().unwrap_or(0),
                max_time: times.iter().max().copied().unwrap_or(0),
                projects,
            };
            let order = (!times.is_sorted_by(|a, b| a >= b)).then(|| {
                let mut keyed: Vec<(Reverse<i64>, u32)> = times.iter().map(|time| Reverse(*time)).zip(0..).collect();
                keyed.sort_unstable();
                keyed.into_iter().map(|(_, row)| row).collect()
            });
            return Clustering { order, runs: vec![run] };
        }
        let run_of_row = |project: u32| run_of.get(project as usize).copied().unwrap_or(0);
        let mut keyed: Vec<(u32, Reverse<i64>, u32)> = projects
            .iter()
            .zip(&times)
            .zip(0..)
            .map(|((project, time), row)| (run_of_row(*project), Reverse(*time), row))
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
                projects: draft.projects(),
            }
        });
        let runs = runs.collect();
        Clustering { order: Some(keyed.into_iter().map(|(_, _, row)| row).collect()), runs }
    }
}

/// A run while projects are assigned to it.
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

    fn projects(self) -> RunProjects {
        RunProjects::of_names(self.names)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringViewArray;
    use proptest::prelude::*;

    use super::*;

    fn column(names: &[Option<&str>]) -> ArrayRef {
        Arc::new(names.iter().copied().collect::<StringViewArray>())
    }

    /// Small projects share a run, large ones have their own.
    #[test]
    fn large_projects_have_runs_of_their_own() {
        const RUN_ROWS: usize = 8_192;
        let sizes = [("a", 100), ("b", 200), ("c", RUN_ROWS), ("d", 5_000), ("e", 5_000), ("f", 10)];
        let names: Vec<Option<&str>> =
            sizes.iter().flat_map(|(name, rows)| std::iter::repeat_n(Some(*name), *rows)).collect();
        let times: Vec<i64> = (0..names.len() as i64).map(|i| (i * 7_919) % 1_000).collect();
        let mut keys = ClusterKeys::default();
        keys.add(&times, Some(&column(&names)));
        let clustering = keys.cluster(RUN_ROWS, 1_000);
        let listed = |names: &[&str]| RunProjects::Listed(names.iter().map(|name| (*name).to_owned()).collect());
        let expected =
            [(listed(&["a", "b", "d", "e"]), 10_300, 11), (listed(&["c"]), RUN_ROWS, 9), (listed(&["f"]), 10, 1)];
        let found: Vec<_> = clustering.runs.iter().map(|run| (run.projects.clone(), run.rows, run.groups)).collect();
        assert_eq!(found, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
        /// However rows are distributed: each row is in one run, the runs say which projects and times they have, and
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
            let mut keys = ClusterKeys::default();
            for _ in 0..copies {
                keys.add(&times, Some(&column(&names)));
            }
            let total = keys.rows();
            let Clustering { order, runs } = keys.cluster(least, 100);
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
                        prop_assert!(run.projects.may_have(name));
                    }
                }
            }
        }
    }
}
