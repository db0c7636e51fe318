//! When an alert is run next, and when a message is tried again.
//!
//! Runs lie on a grid of the alert's interval. Where the grid begins depends on the alert, so that alerts with the same interval
//! are not all run in the same second. A time that was missed, because the server did not run, is not made up for: the alert is
//! run once, and then at the next point of its grid.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tidegate_model::{Alert, milliseconds};
use uuid::Uuid;

const MINUTE: i64 = 60_000_000;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// The first point of an alert's grid after `now` (microseconds).
pub(super) fn next_run(endpoint: Uuid, alert: &Alert, now: i64) -> i64 {
    let interval = i64::try_from(alert.every_minutes).unwrap_or(1).clamp(1, 1_440) * MINUTE;
    let digest = Sha256::new().chain_update(endpoint.as_bytes()).chain_update(alert.name.as_bytes()).finalize();
    let number = digest.iter().take(7).fold(0_i64, |number, byte| (number << 8) | i64::from(*byte));
    let offset = number % interval;
    now.saturating_add(interval - (now - offset).rem_euclid(interval))
}

/// The pause after so many failed attempts, in microseconds.
pub(super) fn pause(first: Duration, failed: u32) -> i64 {
    let doubled = first.saturating_mul(1_u32.checked_shl(failed.saturating_sub(1)).unwrap_or(u32::MAX));
    let micros = milliseconds(doubled.min(LONGEST_PAUSE)).saturating_mul(1_000);
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn alert(name: &str) -> Alert {
        let json = r#"{"name": "a", "every_minutes": 5, "condition": "rows > 0", "url": "https://example.com"}"#;
        Alert { name: name.to_owned(), ..serde_json::from_str(json).unwrap() }
    }

    #[test]
    fn runs_lie_on_a_grid_that_is_the_alerts_own() {
        let (id, now) = (Uuid::from_u128(7), 1_700_000_000_000_000);
        let first = next_run(id, &alert("a"), now);
        assert!(first > now && first <= now + 5 * MINUTE);
        assert_eq!(next_run(id, &alert("a"), first), first + 5 * MINUTE);
        assert_eq!(next_run(id, &alert("a"), first - 1), first);
        assert_eq!(
            next_run(id, &alert("a"), first + 100 * 5 * MINUTE + 3),
            first + 101 * 5 * MINUTE,
            "missed ones are"
        );
        let seconds: BTreeSet<i64> =
            (0..100).map(|n| next_run(id, &alert(&format!("a{n}")), now) / 1_000_000).collect();
        assert!(seconds.len() > 60, "{} of 100 alerts in different seconds", seconds.len());
    }

    #[test]
    fn pauses_double_up_to_an_hour() {
        let pauses: Vec<i64> = [1, 2, 3, 9, 10, 40].map(|n| pause(Duration::from_secs(10), n) / 1_000_000).into();
        assert_eq!(pauses, [10, 20, 40, 2_560, 3_600, 3_600]);
    }
}
