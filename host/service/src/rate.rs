//! Rate limits of one access token: a token bucket for queries and one for ingest.
//!
//! A bucket holds `burst` requests and fills at the configured rate. Only requests with a valid token have one, so the
//! number of buckets is bounded by the number of tokens and of subjects of issuers that were just active. Requests with a wrong token have no bucket by address, on
//! purpose: a token has too many random bits to be guessed at any rate, and behind a proxy all clients have one address.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};

use crate::account::Identity;
use crate::options::RateOptions;

/// The class in which a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestClass {
    /// A query.
    Queries,
    /// Sent logs.
    Ingest,
}

impl RequestClass {
    /// The name in headers and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queries => "queries",
            Self::Ingest => "ingest",
        }
    }
}

/// From so many buckets on, those that are full again are let go. Others are not: whoever makes many would empty them.
const MOST_BUCKETS: usize = 10_000;

/// The state of a bucket after a request, for the headers of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateStatus {
    /// The class of the request.
    pub class: RequestClass,
    /// Requests that may come now.
    pub remaining: u64,
    /// Seconds until the bucket is full.
    pub reset: u64,
    /// Requests that a full bucket holds.
    pub burst: u64,
    /// Seconds in which the bucket fills from empty.
    pub window: u64,
}

#[derive(Debug)]
struct Bucket {
    /// Requests, with fractions.
    level: f64,
    at: Instant,
}

/// The buckets of all tokens.
#[derive(Debug)]
pub struct RateLimiter {
    options: RateOptions,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    of: HashMap<(RequestClass, Identity), Bucket>,
    /// How many there were when full ones were last let go. They are looked for when there are twice as many, so that a
    /// request does not look at all of them each time.
    kept: usize,
}

impl RateLimiter {
    /// Full buckets for everybody.
    pub fn new(options: RateOptions) -> Self {
        Self { options, buckets: Mutex::default() }
    }

    fn rate(&self, class: RequestClass) -> u64 {
        match class {
            RequestClass::Queries => self.options.queries_per_second,
            RequestClass::Ingest => self.options.ingest_per_second,
        }
    }

    fn burst(&self, class: RequestClass) -> u64 {
        if self.options.burst == 0 { self.rate(class).saturating_mul(2) } else { self.options.burst }
    }

    /// Takes one request out of a token's bucket. The status is none where the class has no limit.
    ///
    /// # Errors
    /// [`Code::TooManyRequests`] with the seconds until the bucket holds a request again.
    pub fn take(
        &self,
        class: RequestClass,
        identity: Identity,
        now: Instant,
    ) -> (Result<(), Failure>, Option<RateStatus>) {
        let (rate, burst) = (self.rate(class), self.burst(class));
        if rate == 0 {
            return (Ok(()), None);
        }
        let (per_second, most) = (as_f64(rate), as_f64(burst));
        let mut held = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { of: buckets, kept } = &mut *held;
        if buckets.len() > MOST_BUCKETS.max(*kept * 2) {
            // A bucket that would be full by now is as good as none: those of tokens that are gone go here.
            buckets.retain(|(of, _), bucket| {
                let rate = as_f64(self.rate(*of));
                bucket.level + now.saturating_duration_since(bucket.at).as_secs_f64() * rate < as_f64(self.burst(*of))
            });
            *kept = buckets.len();
        }
        let bucket = buckets.entry((class, identity)).or_insert(Bucket { level: most, at: now });
        // A clock that goes back fills nothing.
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.level = (bucket.level + passed * per_second).min(most);
        bucket.at = bucket.at.max(now);
        let good = bucket.level >= 1.0;
        if good {
            bucket.level -= 1.0;
        }
        let level = bucket.level;
        drop(held);
        let seconds = |missing: f64| {
            Duration::try_from_secs_f64(missing / per_second)
                .map_or(u64::MAX, |time| time.as_secs() + u64::from(time.subsec_nanos() > 0))
        };
        let left = RateStatus {
            class,
            remaining: as_u64(level),
            reset: seconds(most - level),
            burst,
            window: burst.div_ceil(rate),
        };
        if good {
            return (Ok(()), Some(left));
        }
        let message = format!(
            "the access token may send {rate} requests a second of this kind ({}), {burst} at once; try again later",
            class.name()
        );
        let failure = Failure::new(Code::TooManyRequests, message).retry_after(seconds(1.0 - level).max(1));
        (Err(failure), Some(left))
    }
}

/// Rates and levels are far below where this loses anything.
fn as_f64(n: u64) -> f64 {
    u32::try_from(n).map_or(f64::from(u32::MAX), f64::from)
}

fn as_u64(x: f64) -> u64 {
    Duration::try_from_secs_f64(x).map_or(0, |whole| whole.as_secs())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const A: Identity = [1; 32];
    const B: Identity = [2; 32];

    fn rates(queries: u64, burst: u64) -> RateLimiter {
        RateLimiter::new(RateOptions { queries_per_second: queries, ingest_per_second: 0, burst })
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let (rates, start) = (rates(10, 20), Instant::now());
        let take = |at: Duration| rates.take(RequestClass::Queries, A, start + at);
        for i in 0..20 {
            let (result, left) = take(Duration::ZERO);
            result.unwrap();
            assert_eq!(left.unwrap().remaining, 19 - i);
        }
        let (refused, left) = take(Duration::ZERO);
        let failure = refused.unwrap_err();
        assert_eq!((failure.code, failure.retry_after), (Code::TooManyRequests, Some(1)));
        let status = RateStatus { class: RequestClass::Queries, remaining: 0, reset: 2, burst: 20, window: 2 };
        assert_eq!(left.unwrap(), status);
        // After a second there are ten again, and no more.
        let second = Duration::from_secs(1);
        assert_eq!((0..20).filter(|_| take(second).0.is_ok()).count(), 10);
        // However long the pause, never more than the burst.
        assert_eq!((0..99).filter(|_| take(second * 3600).0.is_ok()).count(), 20);
    }

    #[test]
    fn slow_rates_say_how_long_to_wait() {
        let (rates, start) = (rates(1, 1), Instant::now());
        rates.take(RequestClass::Queries, A, start).0.unwrap();
        assert_eq!(rates.take(RequestClass::Queries, A, start).0.unwrap_err().retry_after, Some(1));
        rates.take(RequestClass::Queries, A, start + Duration::from_secs(1)).0.unwrap();
    }

    #[test]
    fn tokens_and_kinds_do_not_share() {
        let (rates, now) = (rates(1, 1), Instant::now());
        rates.take(RequestClass::Queries, A, now).0.unwrap();
        assert!(rates.take(RequestClass::Queries, A, now).0.is_err());
        rates.take(RequestClass::Queries, B, now).0.unwrap();
        for _ in 0..100 {
            let (result, left) = rates.take(RequestClass::Ingest, A, now);
            result.unwrap();
            assert_eq!(left, None, "no limit, no header");
        }
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let (rates, now) = (rates(1, 1), Instant::now() + Duration::from_secs(10));
        rates.take(RequestClass::Queries, A, now).0.unwrap();
        assert!(rates.take(RequestClass::Queries, A, now - Duration::from_secs(5)).0.is_err());
        assert!(rates.take(RequestClass::Queries, A, now).0.is_err());
    }

    #[test]
    fn buckets_that_are_full_again_are_let_go() {
        let (rates, now) = (rates(1, 1), Instant::now());
        let who = |n: u64| {
            let mut identity = [0; 32];
            identity.iter_mut().zip(n.to_le_bytes()).for_each(|(to, from)| *to = from);
            identity
        };
        for n in 0..=number_of(MOST_BUCKETS) {
            rates.take(RequestClass::Queries, who(n), now).0.unwrap();
        }
        rates.take(RequestClass::Queries, A, now + Duration::from_secs(2)).0.unwrap();
        assert_eq!(rates.buckets.lock().unwrap().of.len(), 1);
    }

    fn number_of(n: usize) -> u64 {
        tidegate_model::number(n)
    }
}
