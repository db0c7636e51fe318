//! The key under which a request or an event is stored only once: [`crate::wal::idempotency`].

/// The key of a request or of an event, and what was sent under it, all as digests, which are short whatever was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// Stands for the sender. Keys are bounded for each, so that one pushes out none of another.
    pub sender: [u8; 8],
    /// The digest of the key and of the identity of the sender.
    pub name: [u8; 24],
    /// The SHA-256 of the body.
    pub body: [u8; 32],
}

impl RequestKey {
    /// The key as it is stored: the sender first, so that its keys lie together.
    pub(crate) fn stored_name(&self) -> [u8; 32] {
        let mut name = [0; 32];
        let (sender, rest) = name.split_at_mut(self.sender.len());
        sender.copy_from_slice(&self.sender);
        rest.copy_from_slice(&self.name);
        name
    }
}
