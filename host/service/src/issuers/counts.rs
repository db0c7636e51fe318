//! How often tokens were checked, and what came of it. The metrics show it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::refusal::REASONS;

/// What was done about an issuer since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerNumbers<'a> {
    /// Its name in the configuration; empty for tokens of no issuer, which have no keys.
    pub name: &'a str,
    /// Tokens that were accepted, those whose rights were kept from before included.
    pub accepted: u64,
    /// Tokens that were refused, by a word for why.
    pub refused: Vec<(&'static str, u64)>,
    /// How often its keys were read, by what came of it.
    pub fetches: Vec<(&'static str, u64)>,
    /// How long ago its keys were read last, or found to be the same. None if there are none.
    pub keys_age: Option<Duration>,
}

/// The checks of an issuer's tokens.
#[derive(Debug, Default)]
pub(super) struct CheckCounts {
    accepted: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

impl CheckCounts {
    pub(super) fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refusal under one of [`REASONS`].
    pub(super) fn refuse(&self, reason: &str) {
        if let Some((_, count)) = REASONS.into_iter().zip(&self.refused).find(|(name, _)| *name == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> Vec<(&'static str, u64)> {
        REASONS.into_iter().zip(&self.refused).map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect()
    }
}
