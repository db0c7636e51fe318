//! Failures between machines: of statements, with all that a caller is told of them, and of workers.

use prost::{Message, Oneof};
use tidegate_cluster::{DamagedCopy, WorkerFailure};
use tidegate_model::{Code, Failure, Position, Quota};

/// The most failures in another one.
const MAX_OTHERS: usize = 64;

/// A failure.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FailureMessage {
    /// The name of its code.
    #[prost(string, tag = "1")]
    code: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, optional, tag = "3")]
    location: Option<String>,
    /// The name of its quota.
    #[prost(string, optional, tag = "4")]
    quota: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    line: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    column: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    retry_after: Option<u64>,
    /// Without others of their own.
    #[prost(message, repeated, tag = "8")]
    others: Vec<FailureMessage>,
}

impl From<&Failure> for FailureMessage {
    fn from(failure: &Failure) -> Self {
        let Failure { code, message, location, quota, position, retry_after, others } = failure;
        Self {
            code: code.name().to_owned(),
            message: message.clone(),
            location: location.clone(),
            quota: quota.map(|quota| quota.name().to_owned()),
            line: position.map(|position| position.line),
            column: position.map(|position| position.column),
            retry_after: *retry_after,
            others: others.iter().take(MAX_OTHERS).map(|other| Self { others: Vec::new(), ..other.into() }).collect(),
        }
    }
}

impl From<FailureMessage> for Failure {
    fn from(sent: FailureMessage) -> Self {
        let quotas = [Quota::Rows, Quota::Bytes, Quota::Statements, Quota::Memory];
        let quota = sent.quota.and_then(|name| quotas.into_iter().find(|quota| quota.name() == name));
        let position = sent.line.zip(sent.column).map(|(line, column)| Position { line, column });
        let flat = |other| Failure { others: Vec::new(), ..Self::from(other) };
        Self {
            code: Code::named(&sent.code).unwrap_or(Code::Internal),
            message: sent.message,
            location: sent.location,
            quota,
            position,
            retry_after: sent.retry_after,
            others: sent.others.into_iter().take(MAX_OTHERS).map(flat).collect(),
        }
    }
}

/// Why a worker does not do what it was asked, which is not the statement's fault.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RefusedMessage {
    #[prost(oneof = "RefusedKind", tags = "1, 2, 3, 4")]
    kind: Option<RefusedKind>,
}

/// What is damaged.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DamagedMessage {
    #[prost(message, optional, tag = "1")]
    failure: Option<FailureMessage>,
    #[prost(bool, tag = "2")]
    is_shared: bool,
}

/// The kinds of [`WorkerFailure`] that are of the worker, with their texts.
#[derive(Clone, PartialEq, Oneof)]
enum RefusedKind {
    #[prost(string, tag = "1")]
    Gone(String),
    #[prost(string, tag = "2")]
    Busy(String),
    #[prost(string, tag = "3")]
    Nonsense(String),
    #[prost(message, tag = "4")]
    Damaged(DamagedMessage),
}

impl RefusedMessage {
    /// The message for a failure of the worker.
    ///
    /// # Errors
    /// The failure of the statement, if it is one.
    pub(crate) fn of(failure: &WorkerFailure) -> Result<Self, &Failure> {
        let kind = match failure {
            WorkerFailure::Gone(why) => RefusedKind::Gone(why.clone()),
            WorkerFailure::Busy(why) => RefusedKind::Busy(why.clone()),
            WorkerFailure::Nonsense(why) => RefusedKind::Nonsense(why.clone()),
            WorkerFailure::Damaged(copy) => RefusedKind::Damaged(DamagedMessage {
                failure: Some((&copy.failure).into()),
                is_shared: copy.is_shared,
            }),
            WorkerFailure::Statement(failure) => return Err(failure),
        };
        Ok(Self { kind: Some(kind) })
    }
}

impl From<RefusedMessage> for WorkerFailure {
    fn from(message: RefusedMessage) -> Self {
        match message.kind {
            Some(RefusedKind::Gone(why)) => Self::Gone(why),
            Some(RefusedKind::Busy(why)) => Self::Busy(why),
            Some(RefusedKind::Nonsense(why)) => Self::Nonsense(why),
            Some(RefusedKind::Damaged(DamagedMessage { failure: Some(failure), is_shared })) => {
                Self::Damaged(Box::new(DamagedCopy { failure: failure.into(), is_shared }))
            }
            Some(RefusedKind::Damaged(_)) => Self::Nonsense("it has a damaged copy and does not say which".to_owned()),
            None => Self::Nonsense("it refuses without a reason".to_owned()),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn failures_are_the_same_again() {
        let other = Failure::new(Code::UnknownColumn, "another").about("column");
        let place = Some(Position { line: 3, column: 9 });
        let mut failure = Failure::new(Code::LimitExceeded, "too much").quota(Quota::Memory).at(place).retry_after(7);
        failure.others.push(other);
        let bytes = FailureMessage::from(&failure).encode_to_vec();
        assert_eq!(Failure::from(FailureMessage::decode(bytes.as_slice()).unwrap()), failure);
        let unknown = FailureMessage { code: "a code of tomorrow".to_owned(), ..FailureMessage::from(&failure) };
        assert_eq!(Failure::from(unknown).code, Code::Internal);
    }

    #[test]
    fn failures_of_workers_are_the_same_again() {
        let why = || "a reason".to_owned();
        let damaged = Failure::new(Code::DataDamaged, why()).about("a segment");
        let damaged = WorkerFailure::Damaged(Box::new(DamagedCopy { failure: damaged, is_shared: true }));
        for failure in [WorkerFailure::Gone(why()), WorkerFailure::Busy(why()), WorkerFailure::Nonsense(why()), damaged]
        {
            let bytes = RefusedMessage::of(&failure).unwrap().encode_to_vec();
            assert_eq!(WorkerFailure::from(RefusedMessage::decode(bytes.as_slice()).unwrap()), failure);
        }
        assert!(matches!(RefusedMessage { kind: None }.into(), WorkerFailure::Nonsense(_)));
    }
}
