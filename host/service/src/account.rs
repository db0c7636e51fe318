//! Who work is done for: the unit in which permits, threads and memory are shared out.

/// The identity of an access token: the SHA-256 of its text, or of its issuer and subject.
pub type Identity = [u8; 32];

/// For whom a query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Account {
    /// The holder of a token.
    Token(Identity),
    /// The holder of a token of an issuer: one of those who have the same issuer and the same pinned values.
    Subject {
        /// The issuer and the pinned values.
        group: Identity,
        /// The issuer and the subject.
        subject: Identity,
    },
    /// All holders of tokens of an issuer with the same pinned values.
    Group(Identity),
    /// Cache warming, which runs without a request.
    Warming,
    /// Alerts, which run on a schedule. All of them are one account.
    Alerts,
    /// The followers of queries together: looking at new rows for them.
    Following,
}

impl Account {
    /// Whose share it is that counts first: a subject's is within that of its group.
    pub fn group(self) -> Self {
        match self {
            Self::Subject { group, .. } => Self::Group(group),
            other => other,
        }
    }

    /// The most that this account may take of a shared resource: half of it, a subject half of what its group may, and
    /// alerts an eighth, so that they never keep people waiting; at least 1, where there is any.
    pub fn share(self, whole: usize) -> usize {
        match self {
            Self::Subject { .. } => half(half(whole)),
            Self::Token(_) | Self::Group(_) | Self::Warming | Self::Following => half(whole),
            Self::Alerts => (whole / 8).max(whole.min(1)),
        }
    }
}

/// The most that one account may take of a shared resource: half of it, rounded down, and 1 where there is only 1.
pub(crate) fn half(whole: usize) -> usize {
    (whole / 2).max(whole.min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_never_none_of_some() {
        assert_eq!([0, 1, 2, 3, 4, 5, 64].map(half), [0, 1, 1, 1, 2, 2, 32]);
    }
}
