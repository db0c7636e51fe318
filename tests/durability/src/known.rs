//! What must be, may be and must not be in a folder, by the marks that a workload left in its record.
//!
//! A mark is a line of words. The workload writes one before it begins something and one when it was told how that
//! ended. So whatever was told before a cut binds, and what was only begun may be there or not, but not in part.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Event;

/// Whether something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Must,
    May,
    MustNot,
}

/// A request: how many events it has, and whether they are there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) events: usize,
    pub(crate) fate: Fate,
}

/// A source: whether it is there, and if so, what is in it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) fate: Fate,
    pub(crate) requests: BTreeMap<String, Request>,
}

/// A backup: whether it was reported as complete, and the requests (with their sources) that it must have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Backup {
    pub(crate) done: bool,
    pub(crate) requests: BTreeMap<String, (String, usize)>,
}

/// All that is known at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    pub(crate) sources: BTreeMap<String, Source>,
    /// The values that a setting may have; empty for none.
    pub(crate) settings: BTreeMap<String, BTreeSet<String>>,
    pub(crate) backups: BTreeMap<String, Backup>,
    /// Whether there may be sources that no mark names: a server makes some itself.
    pub(crate) others: bool,
}

/// The mark behind what was there before the workload.
pub(crate) const START: &str = "start";

/// Sources from which nothing is ever dropped; a backup is compared with these.
pub(crate) const STEADY: [&str; 2] = ["a", "b"];

impl Known {
    /// What is known after the first `cut` events of a record.
    pub(crate) fn at(events: &[Event], cut: usize) -> Result<Known, String> {
        let mut known = Known::default();
        let mut dropping: BTreeSet<&str> = BTreeSet::new();
        for event in events.get(..cut).unwrap_or(events) {
            let Event::Mark(mark) = event else { continue };
            let words: Vec<&str> = mark.split(' ').collect();
            match words.as_slice() {
                ["drop-begin", source] => drop(dropping.insert(source)),
                ["drop-end", source, left @ ..] => {
                    dropping.remove(source);
                    known.dropped(source, left, Fate::MustNot);
                }
                words => known.learn(words).ok_or_else(|| format!("the mark {mark} does not fit"))?,
            }
        }
        // What a retention that the cut interrupts drops is said behind the cut, if anywhere.
        for source in dropping {
            let later = events.get(cut..).unwrap_or_default().iter().find_map(|event| match event {
                Event::Mark(mark) => mark.strip_prefix("drop-end ")?.strip_prefix(source),
                _ => None,
            });
            let left: Vec<&str> = later.unwrap_or_default().split(' ').collect();
            known.dropped(source, &left, Fate::May);
        }
        Ok(known)
    }

    fn dropped(&mut self, source: &str, left: &[&str], fate: Fate) {
        let Some(source) = self.sources.get_mut(source) else { return };
        for (name, request) in &mut source.requests {
            if request.fate != Fate::MustNot && !left.contains(&name.as_str()) {
                request.fate = fate;
            }
        }
    }

    fn request(&mut self, name: &str) -> Option<&mut Request> {
        self.sources.values_mut().find_map(|source| source.requests.get_mut(name))
    }

    fn learn(&mut self, words: &[&str]) -> Option<()> {
        match words {
            ["create-begin", name] => {
                let new = Source { fate: Fate::May, requests: BTreeMap::new() };
                self.sources.entry((*name).to_owned()).or_insert(new);
            }
            ["create-end", name] => self.sources.get_mut(*name)?.fate = Fate::Must,
            ["delete-begin", name] => self.sources.get_mut(*name)?.fate = Fate::May,
            ["delete-end", name] => self.sources.get_mut(*name)?.fate = Fate::MustNot,
            ["begin", request, source, events] => {
                let events = events.parse().ok()?;
                let new = Source { fate: Fate::May, requests: BTreeMap::new() };
                let requests = &mut self.sources.entry((*source).to_owned()).or_insert(new).requests;
                requests.insert((*request).to_owned(), Request { events, fate: Fate::May });
            }
            ["stored", request] => self.request(request)?.fate = Fate::Must,
            ["refused", request] => self.request(request)?.fate = Fate::MustNot,
            ["set-begin", name, value] => drop(self.values(name).insert((*value).to_owned())),
            ["set-end", name, value] => *self.values(name) = BTreeSet::from([(*value).to_owned()]),
            ["backup-begin", name] => {
                let mut backup = Backup::default();
                for source in STEADY {
                    for (request, of) in self.sources.get(source).iter().flat_map(|source| &source.requests) {
                        if of.fate == Fate::Must {
                            backup.requests.insert(request.clone(), (source.to_owned(), of.events));
                        }
                    }
                }
                self.backups.insert((*name).to_owned(), backup);
            }
            ["others"] => self.others = true,
            // From here on cuts are made.
            [START] => {}
            ["backup-end", name] => self.backups.get_mut(*name)?.done = true,
            _ => return None,
        }
        Some(())
    }

    fn values(&mut self, name: &str) -> &mut BTreeSet<String> {
        self.settings.entry(name.to_owned()).or_insert_with(|| BTreeSet::from([String::new()]))
    }
}
