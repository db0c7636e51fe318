//! What follows from a run for the state of an alert, and which message it makes.
//!
//! An occurrence begins when the condition begins to hold, and ends when it holds no more. It gets at most one message that it
//! fires and one that it is over. With `again_after_minutes`, an occurrence that begins too soon after the last message is
//! kept back: its message is made when the pause is over, if the condition still holds then.

use tidegate_model::Alert;
use uuid::Uuid;

use crate::catalog::AlertState;

const MINUTE: i64 = 60_000_000;

/// A message that a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Firing,
    Resolved,
}

impl Made {
    /// Its state, as it is sent.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// The state after a run at `now` (microseconds) that found whether the condition `holds`, and the message that it makes, with
/// the occurrence that it is about. `new` is the identity of an occurrence that begins.
pub(super) fn after_run(
    alert: &Alert,
    state: AlertState,
    holds: bool,
    now: i64,
    new: Uuid,
) -> (AlertState, Option<(Made, Uuid, i64)>) {
    let AlertState { occurrence, announced, last_fired } = state;
    if !holds {
        let message = occurrence.filter(|_| announced && alert.notify_resolved);
        let state = AlertState { occurrence: None, announced: false, last_fired };
        return (state, message.map(|(id, since)| (Made::Resolved, id, since)));
    }
    let (id, since) = occurrence.unwrap_or((new, now));
    let announced = announced && occurrence.is_some();
    let pause = i64::try_from(alert.again_after_minutes).unwrap_or(i64::MAX).saturating_mul(MINUTE);
    // A message of the future was sent while the clock was ahead.
    let may_fire = last_fired.is_none_or(|last| last > now || now.saturating_sub(last) >= pause);
    if announced || !may_fire {
        return (AlertState { occurrence: Some((id, since)), announced, last_fired }, None);
    }
    let state = AlertState { occurrence: Some((id, since)), announced: true, last_fired: Some(now) };
    (state, Some((Made::Firing, id, since)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn alert(again_after_minutes: u64, notify_resolved: bool) -> Alert {
        let json = r#"{"name": "a", "every_minutes": 1, "condition": "rows > 0", "url": "https://example.com"}"#;
        Alert { again_after_minutes, notify_resolved, ..serde_json::from_str(json).unwrap() }
    }

    /// The messages of runs that are a minute apart, as letters: `f`iring, `r`esolved, `.` none.
    fn told(alert: &Alert, holds: &str) -> (String, usize) {
        let (mut state, mut told, mut ids) = (AlertState::default(), String::new(), Vec::new());
        for (minute, holds) in holds.chars().enumerate() {
            let now = i64::try_from(minute).unwrap() * MINUTE;
            let (next, message) = after_run(alert, state, holds == '1', now, Uuid::new_v4());
            state = next;
            told.push(message.map_or('.', |(made, ..)| made.name().chars().next().unwrap()));
            ids.extend(message.map(|(_, id, _)| id));
        }
        ids.dedup();
        (told, ids.len())
    }

    #[test]
    fn a_clock_that_was_ahead_keeps_no_alert_quiet() {
        let state = AlertState { occurrence: None, announced: false, last_fired: Some(900 * MINUTE) };
        let (state, message) = after_run(&alert(60, true), state, true, 5 * MINUTE, Uuid::new_v4());
        assert!(message.is_some() && state.last_fired == Some(5 * MINUTE));
    }

    #[test]
    fn an_occurrence_is_told_once() {
        assert_eq!(told(&alert(0, true), "0111001011"), (".f..r.frf.".to_owned(), 3));
        assert_eq!(told(&alert(0, false), "0111001011"), (".f....f.f.".to_owned(), 3));
    }

    #[test]
    fn the_next_message_waits_for_the_pause() {
        // One that ends in the pause is never told, one that goes on is told when the pause is over.
        assert_eq!(told(&alert(4, true), "1010111100"), ("fr..f...r.".to_owned(), 2));
        assert_eq!(told(&alert(5, true), "1010111100"), ("fr...f..r.".to_owned(), 2));
        assert_eq!(told(&alert(30, true), "1010111100"), ("fr........".to_owned(), 1));
    }

    #[test]
    fn a_clock_that_was_set_back_sends_nothing_twice() {
        let alert = alert(5, true);
        let (state, message) = after_run(&alert, AlertState::default(), true, 100 * MINUTE, Uuid::new_v4());
        assert!(message.is_some());
        assert_eq!(after_run(&alert, state, true, 50 * MINUTE, Uuid::new_v4()), (state, None));
    }
}
