//! What the gate finds in an endpoint. The gate decides what is wrong and how severe it is; its callers decide what follows:
//! registration refuses, the check after a start warns or takes the endpoint out of service, the workbench lists all.

use tidegate_model::{Code, Failure};

/// A part of an endpoint, as it is stored in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The manifest.
    Manifest,
    /// The saved query.
    Query,
    /// A named statement.
    Statement(String),
}

/// A mistake or a warning about a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub part: Part,
    /// What is wrong, and where in the text of the part.
    pub failure: Failure,
}

impl Finding {
    /// The failure for a reader who does not see which part it is about: the name of a statement is in its message.
    fn named(self) -> Failure {
        let Self { part, mut failure } = self;
        if let Part::Statement(name) = part {
            failure.message = format!("in the statement {name}: {}", failure.message);
        }
        failure
    }
}

/// What was found in an endpoint, in the order of the checks.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Mistakes: an endpoint with one of these cannot be saved or used.
    pub(crate) errors: Vec<Finding>,
    /// Texts that may not mean what their author believes.
    pub(crate) warnings: Vec<Finding>,
}

impl Findings {
    pub(super) fn error(&mut self, part: Part, failure: Failure) {
        self.errors.push(Finding { part, failure });
    }

    pub(super) fn warn(&mut self, part: Part, failure: Failure) {
        self.warnings.push(Finding { part, failure });
    }

    /// Adds the failure of a statement. An unknown column is a warning: columns come with the logs, so it may exist
    /// tomorrow.
    pub(super) fn failed(&mut self, part: Part, failure: Failure) {
        if failure.code == Code::UnknownColumn { self.warn(part, failure) } else { self.error(part, failure) }
    }

    /// Adds what checking a statement gave: remarks, or why it failed.
    pub(super) fn checked(&mut self, part: &Part, checked: Result<Vec<Failure>, Failure>) {
        match checked {
            Ok(remarks) => remarks.into_iter().for_each(|remark| self.warn(part.clone(), remark)),
            Err(failure) => self.failed(part.clone(), failure),
        }
    }

    /// Whether a failure is known of the saved query already: each statement that reads a granted table meets the mistakes
    /// of that table again.
    pub(super) fn has_of_query(&self, failure: &Failure) -> bool {
        let mut all = self.errors.iter().chain(&self.warnings);
        all.any(|finding| finding.part == Part::Query && finding.failure == *failure)
    }

    /// The warnings beside these, whether or not there are errors.
    pub(crate) fn warnings_beside(self, known: &[Failure]) -> Vec<Failure> {
        self.warnings.into_iter().map(Finding::named).filter(|warning| !known.contains(warning)).collect()
    }

    /// The warnings, if there are no errors.
    ///
    /// # Errors
    /// The first error.
    pub(crate) fn into_warnings(self) -> Result<Vec<Failure>, Failure> {
        match self.errors.into_iter().next() {
            Some(error) => Err(error.named()),
            None => Ok(self.warnings.into_iter().map(Finding::named).collect()),
        }
    }
}
