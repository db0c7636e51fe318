//! What a change widens, as lines for readers: who reads more, of which sources, through which endpoints.
//!
//! Changes that say the same of the same readers are one line, with the first few names. A token of a new kind reads dozens
//! of sources, and nobody reads a line for each.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::{Code, Failure};

use super::compare::Reach;

/// The most lines that are told, and names in one of them.
const MOST_TOLD: usize = 20;
const MOST_NAMES: usize = 4;
/// How the change of a source begins that nobody of the kind has read.
const NOT_READ: &str = "was not read, now ";

/// What a change widens.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Widened {
    /// What is wider, with whom it is wider for.
    changes: BTreeMap<Change, Who>,
    /// How many endpoints were too many to be compared.
    pub(super) left_out: usize,
    /// Whether it is of a token that is new, as are all who may do the same.
    is_new: bool,
}

/// What is wider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    source: String,
    endpoint: String,
    what: String,
}

/// Who reads the same through an endpoint.
#[derive(Debug, Default, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    /// The number of stored tokens.
    pub(super) tokens: usize,
    /// Rules of issuers and receivers of alerts, as they are called.
    pub(super) others: BTreeSet<String>,
}

impl Who {
    /// Counts in others.
    pub(super) fn add(&mut self, more: &Self) {
        self.tokens += more.tokens;
        self.others.extend(more.others.iter().cloned());
    }

    /// Somebody who is no stored token.
    pub(super) fn named(name: String) -> Self {
        Self { tokens: 0, others: BTreeSet::from([name]) }
    }

    /// Who they are, with the verb.
    fn read(&self) -> String {
        let tokens = match self.tokens {
            0 => None,
            1 => Some("1 token".to_owned()),
            tokens => Some(format!("{tokens} tokens")),
        };
        let is_one = self.tokens + self.others.len() == 1;
        let named = (!self.others.is_empty()).then(|| first_of(self.others.iter().map(String::as_str)));
        let all: Vec<String> = tokens.into_iter().chain(named).collect();
        format!("{} {}", all.join(" and "), if is_one { "reads" } else { "read" })
    }
}

impl Widened {
    /// What a change widens that could not be compared at all.
    pub fn unknown() -> Self {
        Self { left_out: 1, ..Self::default() }
    }

    /// Of a token that is new, nothing so far.
    pub(super) fn of_new() -> Self {
        Self { is_new: true, ..Self::default() }
    }

    /// Whether nothing is wider, and everything was compared.
    pub fn is_nothing(&self) -> bool {
        self.changes.is_empty() && self.left_out == 0
    }

    /// Whether somebody is known to read more.
    pub fn is_wider(&self) -> bool {
        !self.changes.is_empty()
    }

    /// One line for each change of some readers.
    pub fn lines(&self) -> Vec<String> {
        let mut groups: BTreeMap<(&str, &Who), Vec<String>> = BTreeMap::new();
        for (Change { source, endpoint, what }, who) in &self.changes {
            groups.entry((what, who)).or_default().push(format!("{source} through {endpoint}"));
        }
        let line = |((what, who), names): (&(&str, &Who), &Vec<String>)| {
            let shown = first_of(names.iter().map(String::as_str));
            match (what.strip_prefix(NOT_READ), names.as_slice()) {
                (Some(now), _) if self.is_new => format!("the first token of its kind reads {now}: {shown}"),
                (_, [_]) => format!("{} more than before: {shown}, {what}", who.read()),
                _ => format!("{} more than before: {shown}; each {what}", who.read()),
            }
        };
        let mut lines: Vec<String> = groups.iter().take(MOST_TOLD).map(line).collect();
        let more = groups.len().saturating_sub(MOST_TOLD);
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
        let what = "tokens would read more than before, and the request says refuse_wider; nothing is saved";
        if self.is_nothing() { Ok(()) } else { Err(self.refusal(Failure::new(Code::Refused, what), "refuse_wider")) }
    }

    /// The refusal of a change that needs the word of whoever makes it.
    pub fn needs_word(&self, what: &str) -> Failure {
        let message = format!("{what}; nothing is changed; set widens to true if that is meant");
        self.refusal(Failure::new(Code::Conflict, message), "widens")
    }

    fn refusal(&self, failure: Failure, about: &str) -> Failure {
        let code = failure.code;
        let mut failure = failure.about(about);
        failure.others = self.lines().into_iter().map(|line| Failure::new(code, line).about(about)).collect();
        failure
    }

    /// Writes what is wider to the log.
    pub fn log(&self, change: &str) {
        for line in self.lines() {
            tracing::info!(change, "{line}");
        }
    }

    pub(super) fn add(&mut self, endpoint: &str, who: &Who, before: &Reach, after: &Reach) {
        for wider in after.wider_than(before) {
            let change = Change { source: wider.source, endpoint: endpoint.to_owned(), what: wider.change };
            self.changes.entry(change).or_default().add(who);
        }
    }
}

/// The first few of some names, and how many more there are.
fn first_of<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let count = names.len();
    // One more name is as short as the word that there is one.
    let most = if count == MOST_NAMES + 1 { count } else { MOST_NAMES };
    let shown: Vec<&str> = names.take(most).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn widened(changes: &[(&str, &str, &str, usize, &[&str])]) -> Widened {
        let mut widened = Widened::default();
        for (source, endpoint, what, tokens, others) in changes {
            let change = Change { source: (*source).into(), endpoint: (*endpoint).into(), what: (*what).into() };
            let others = others.iter().map(|&name| name.to_owned()).collect();
            widened.changes.insert(change, Who { tokens: *tokens, others });
        }
        widened
    }

    #[test]
    fn one_change_is_told_whole() {
        let one = widened(&[("app.users", "team.list", "was refused, now project = own", 3, &[])]);
        let told = "3 tokens read more than before: app.users through team.list, was refused, now project = own";
        assert_eq!(one.lines(), [told]);
        let failure = one.refuse().unwrap_err();
        assert_eq!((failure.others.len(), failure.others.first().unwrap().message.as_str()), (1, told));
        assert!(Widened::default().refuse().is_ok() && Widened::unknown().refuse().is_err());
    }

    #[test]
    fn the_same_change_of_many_is_one_line() {
        let names: Vec<String> = (0..16).map(|n| format!("s{n:02}")).collect();
        let of = |count: usize| {
            let all: Vec<_> = names
                .iter()
                .take(count)
                .map(|name| (name.as_str(), "all", "was not read, now ALL", 1, &[][..]))
                .collect();
            widened(&all)
        };
        let begin = "s00 through all, s01 through all, s02 through all, s03 through all";
        assert_eq!(
            of(16).lines(),
            [format!("1 token reads more than before: {begin} and 12 more; each was not read, now ALL")]
        );
        assert!(of(5).lines().first().unwrap().contains("s04 through all; each"));
        let new = Widened { is_new: true, ..of(16) };
        assert_eq!(new.lines(), [format!("the first token of its kind reads ALL: {begin} and 12 more")]);
    }

    #[test]
    fn who_reads_without_a_stored_token_is_named() {
        let told = |tokens: usize, others: &[&str]| {
            let lines = widened(&[("a", "b", "was refused, now ALL", tokens, others)]).lines();
            lines.first().unwrap().split(" more than").next().unwrap().to_owned()
        };
        assert_eq!(told(0, &["the rule main/1"]), "the rule main/1 reads");
        assert_eq!(told(1, &["the rule main/1"]), "1 token and the rule main/1 read");
        assert_eq!(told(2, &[]), "2 tokens read");
    }
}
