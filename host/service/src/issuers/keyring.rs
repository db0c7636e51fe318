//! The keys of an issuer as they are known now, and when they are read again.
//!
//! Tokens are checked with the keys that are here, and never wait. Keys are read again when they are as old as the issuer
//! allows, and when a token names a key that is not here. Anybody can send such tokens, so an issuer is asked once in
//! `fetch_pause` (30 s) at most, and all who ask at the same time wait for one answer. An answer that cannot be used changes
//! nothing: the keys from before stay, for a day. Only a new set of keys takes away old ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::key_set::KeySet;
use super::refusal::Refusal;
use super::source::{Fetched, Source, SourceError};
use crate::issuer_options::IssuerOptions;

/// How long keys are good that could not be read again.
const GOOD_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The least time between two looks at a file.
const FILE_PAUSE: Duration = Duration::from_secs(1);

/// What can come of reading keys.
const FETCHES: [&str; 3] = ["read", "unchanged", "failed"];

/// What reads keys. Blocks.
type Reading = Box<dyn FnMut() -> Result<Fetched, SourceError> + Send>;

/// The keys of an issuer.
pub(super) struct Keyring {
    name: String,
    pause: Duration,
    known: RwLock<Known>,
    /// Counts the sets of keys that were taken over.
    generation: AtomicU64,
    /// Held while the issuer is asked. When it was asked last stands in it.
    asked: tokio::sync::Mutex<Option<Duration>>,
    reading: Arc<Mutex<Reading>>,
    /// How often keys were read: with new ones, with the same ones, and in vain.
    fetches: [AtomicU64; FETCHES.len()],
    /// Times are counted from here.
    began: Instant,
    /// How much later it is than the clock says, in seconds: a test turns it forward.
    #[cfg(test)]
    later: AtomicU64,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("name", &self.name).field("known", &self.known).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Known {
    keys: Option<Arc<KeySet>>,
    /// When they were confirmed last.
    confirmed: Option<Duration>,
    /// When they are to be read again.
    due: Option<Duration>,
    failure: Option<SourceError>,
}

impl Keyring {
    pub(super) fn new(options: &IssuerOptions) -> Self {
        let mut source = Source::new(options);
        let pause = if source.is_local() { FILE_PAUSE } else { options.fetch_pause };
        Self::reading(&options.name, pause, Box::new(move || source.read()))
    }

    pub(super) fn reading(name: &str, pause: Duration, reading: Reading) -> Self {
        Self {
            name: name.to_owned(),
            pause,
            known: RwLock::default(),
            generation: AtomicU64::new(0),
            asked: tokio::sync::Mutex::default(),
            reading: Arc::new(Mutex::new(reading)),
            fetches: Default::default(),
            began: Instant::now(),
            #[cfg(test)]
            later: AtomicU64::new(0),
        }
    }

    /// A keyring with these keys, whose source is never read.
    pub(super) fn fixed(options: &IssuerOptions, keys: KeySet) -> Self {
        let keyring = Self::new(options);
        let known = Known { keys: Some(Arc::new(keys)), confirmed: Some(keyring.now()), ..Known::default() };
        Self { known: RwLock::new(known), ..keyring }
    }

    fn now(&self) -> Duration {
        let now = self.began.elapsed();
        #[cfg(test)]
        let now = now + Duration::from_secs(self.later.load(Ordering::Relaxed));
        now
    }

    /// The keys.
    ///
    /// # Errors
    /// There have never been any, or those that there were are a day old.
    pub(super) fn keys(&self) -> Result<Arc<KeySet>, Refusal> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_good = known.confirmed.is_some_and(|confirmed| self.now().saturating_sub(confirmed) < GOOD_FOR);
        known.keys.clone().filter(|_| is_good).ok_or(Refusal::NoKeys)
    }

    /// Changes whenever the keys do.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the keys could not be read the last time.
    pub(super) fn is_failing(&self) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).failure.is_some()
    }

    /// How often keys were read, by what came of it.
    pub(super) fn fetches(&self) -> Vec<(&'static str, u64)> {
        FETCHES.into_iter().zip(&self.fetches).map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect()
    }

    /// How long ago the keys were read last, or found to be the same. None if there are none.
    pub(super) fn age(&self) -> Option<Duration> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.confirmed.map(|confirmed| self.now().saturating_sub(confirmed))
    }

    fn count(&self, outcome: &str) {
        let counted = FETCHES.into_iter().zip(&self.fetches).find(|(name, _)| *name == outcome);
        if let Some((_, count)) = counted {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long it is until the keys are to be read again.
    pub(super) fn until_due(&self) -> Duration {
        let due = self.known.read().unwrap_or_else(PoisonError::into_inner).due;
        due.map_or(Duration::ZERO, |due| due.saturating_sub(self.now()))
    }

    /// Reads the keys again, unless that was done within the pause. Who comes while that is done waits for it.
    pub(super) async fn refresh(self: &Arc<Self>) {
        if self.asked.try_lock().is_ok_and(|asked| self.is_recent(*asked)) {
            return;
        }
        let own = Arc::clone(self);
        // A caller who leaves does not break it off for the others.
        let done = tokio::spawn(async move {
            let mut asked = own.asked.lock().await;
            if !own.is_recent(*asked) {
                *asked = Some(own.now());
                own.read().await;
            }
        });
        let _ = done.await;
    }

    fn is_recent(&self, asked: Option<Duration>) -> bool {
        asked.is_some_and(|asked| self.now().saturating_sub(asked) < self.pause)
    }

    async fn read(&self) {
        let reading = Arc::clone(&self.reading);
        let work = move || {
            let mut reading = reading.lock().unwrap_or_else(PoisonError::into_inner);
            (*reading)()
        };
        let Ok(read) = tokio::task::spawn_blocking(work).await else { return };
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        self.count(match &read {
            Ok(Fetched { keys: Some(_), .. }) => "read",
            Ok(_) => "unchanged",
            Err(_) => "failed",
        });
        match read {
            Ok(Fetched { keys, age }) => {
                if let Some(keys) = keys {
                    known.keys = Some(Arc::new(keys));
                    self.generation.fetch_add(1, Ordering::Release);
                    tracing::debug!(issuer = self.name, "the keys of the issuer were read");
                }
                if known.failure.take().is_some() {
                    tracing::info!(issuer = self.name, "the keys of the issuer can be read again");
                }
                (known.confirmed, known.due) = (Some(now), Some(now + age));
            }
            Err(error) => {
                // Told once for each reason: it is tried again and again.
                if known.failure.as_ref() != Some(&error) {
                    tracing::warn!(issuer = self.name, %error, "the keys of the issuer cannot be read; those from before are used, for a day at most");
                }
                known.failure = Some(error);
                known.due = Some(now + self.pause);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::signature_algorithm::Algorithm;

    const KEYS: &[u8] =
        br#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

    fn keys() -> Fetched {
        let keys = KeySet::read(KEYS, &[Algorithm::EdDsa], "test").unwrap();
        Fetched { keys: Some(keys), age: Duration::from_secs(600) }
    }

    /// A keyring whose reads are counted, and fail while `fails` is not 0.
    fn keyring(fails: &Arc<AtomicUsize>) -> (Arc<Keyring>, Arc<AtomicUsize>) {
        let (asked, fails) = (Arc::<AtomicUsize>::default(), Arc::clone(fails));
        let counted = Arc::clone(&asked);
        let reading = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(20));
            if fails.load(Ordering::Relaxed) == 0 { Ok(keys()) } else { Err(SourceError::Status(500)) }
        };
        (Arc::new(Keyring::reading("test", Duration::from_secs(30), Box::new(reading))), asked)
    }

    #[tokio::test]
    async fn all_who_ask_at_once_wait_for_one_answer() {
        let (keyring, asked) = keyring(&Arc::default());
        let all = (0..1_000).map(|_| {
            let keyring = Arc::clone(&keyring);
            tokio::spawn(async move {
                keyring.refresh().await;
                keyring.keys().is_ok()
            })
        });
        for one in all.collect::<Vec<_>>() {
            assert!(one.await.unwrap(), "it has waited for the keys");
        }
        keyring.refresh().await;
        assert_eq!((asked.load(Ordering::Relaxed), keyring.generation()), (1, 1));
    }

    #[tokio::test]
    async fn who_leaves_does_not_break_off_the_reading() {
        let (keyring, asked) = keyring(&Arc::default());
        assert!(tokio::time::timeout(Duration::from_millis(1), keyring.refresh()).await.is_err());
        keyring.refresh().await;
        assert!(keyring.keys().is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn an_issuer_that_is_down_is_asked_once_in_thirty_seconds_and_its_keys_are_good_for_a_day() {
        let fails = Arc::<AtomicUsize>::default();
        let (keyring, asked) = keyring(&fails);
        let later = |seconds: u64| keyring.later.fetch_add(seconds, Ordering::Relaxed);
        assert_eq!(keyring.keys().err(), Some(Refusal::NoKeys));
        keyring.refresh().await;
        let is_soon = |due: u64| {
            keyring.until_due() > Duration::from_secs(due - 20) && keyring.until_due() <= Duration::from_secs(due)
        };
        assert!(!keyring.is_failing() && is_soon(600));
        fails.store(1, Ordering::Relaxed);
        later(600);
        for _ in 0..10 {
            keyring.refresh().await;
        }
        assert_eq!((asked.load(Ordering::Relaxed), keyring.is_failing()), (2, true));
        assert!(is_soon(30));
        assert!(keyring.keys().is_ok(), "the keys from before stay");
        later(24 * 60 * 60 - 720);
        assert!(keyring.keys().is_ok());
        later(120);
        assert_eq!(keyring.keys().err(), Some(Refusal::NoKeys));
        fails.store(0, Ordering::Relaxed);
        keyring.refresh().await;
        assert_eq!((keyring.is_failing(), keyring.keys().is_ok()), (false, true));
    }
}
