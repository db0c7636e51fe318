//! Sessions by gap, and how far each gets: pure counting.

use std::time::Duration;

use tidegate_sdk::Timestamp;

/// Counts sessions, of one user after the other.
pub(crate) struct Funnel<'a> {
    steps: &'a [&'a str],
    gap: Duration,
    user: String,
    session: Option<Session>,
    sessions: u64,
    /// For each step, the seconds since the one before of all sessions that reached it; 0 for the first.
    seconds: Vec<Vec<f64>>,
}

struct Session {
    last: Timestamp,
    /// When the steps so far were reached.
    reached: Vec<Timestamp>,
}

/// How a step went.
#[derive(Debug, PartialEq)]
pub(crate) struct Reached {
    pub(crate) sessions: u64,
    /// The median of the seconds since the step before; none for the first, and where no session came so far.
    pub(crate) median: Option<f64>,
}

impl<'a> Funnel<'a> {
    pub(crate) fn new(steps: &'a [&'a str], gap: Duration) -> Self {
        let seconds = steps.iter().map(|_| Vec::new()).collect();
        Self { steps, gap, user: String::new(), session: None, sessions: 0, seconds }
    }

    /// A request. Users come one after the other, and each one's requests in the order of time.
    pub(crate) fn see(&mut self, user: &str, at: Timestamp, path: &str) {
        let same = self.user == user;
        let goes_on = |session: &Session| same && at.since(session.last) <= self.gap;
        if !self.session.as_ref().is_some_and(goes_on) {
            self.end();
            self.session = Some(Session { last: at, reached: Vec::new() });
        }
        if !same {
            user.clone_into(&mut self.user);
        }
        if let Some(session) = &mut self.session {
            session.last = at;
            if self.steps.get(session.reached.len()).is_some_and(|step| path.starts_with(step)) {
                session.reached.push(at);
            }
        }
    }

    /// All sessions, and how each step went.
    pub(crate) fn finish(mut self) -> (u64, Vec<Reached>) {
        self.end();
        let steps = self.seconds.into_iter().enumerate().map(|(step, mut seconds)| Reached {
            sessions: seconds.len() as u64,
            median: if step == 0 { None } else { median(&mut seconds) },
        });
        (self.sessions, steps.collect())
    }

    fn end(&mut self) {
        let Some(session) = self.session.take() else { return };
        self.sessions += 1;
        let mut before = None;
        for (at, seconds) in session.reached.into_iter().zip(&mut self.seconds) {
            seconds.push(at.since(before.unwrap_or(at)).as_secs_f64());
            before = Some(at);
        }
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((*values.get(values.len() / 2 - 1)? + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [&str; 3] = ["/token", "/cart", "/orders"];

    /// Requests as user, second and path; how many sessions there are, and how many reached each step.
    fn count(requests: &[(&str, i64, &str)]) -> (u64, Vec<u64>) {
        let (sessions, reached) = run(requests);
        (sessions, reached.iter().map(|step| step.sessions).collect())
    }

    fn run(requests: &[(&str, i64, &str)]) -> (u64, Vec<Reached>) {
        let mut funnel = Funnel::new(&STEPS, Duration::from_secs(60));
        for (user, second, path) in requests {
            funnel.see(user, Timestamp::from_micros(second * 1_000_000), path);
        }
        funnel.finish()
    }

    #[test]
    fn a_gap_ends_a_session_and_its_very_end_does_not() {
        assert_eq!(count(&[("a", 0, "/x"), ("a", 60, "/x")]), (1, vec![0, 0, 0]));
        assert_eq!(count(&[("a", 0, "/x"), ("a", 61, "/x")]), (2, vec![0, 0, 0]));
        assert_eq!(count(&[("a", 0, "/token"), ("a", 61, "/cart")]), (2, vec![1, 0, 0]), "steps of two sessions");
    }

    #[test]
    fn users_have_sessions_of_their_own() {
        assert_eq!(count(&[("a", 0, "/token"), ("b", 1, "/cart")]), (2, vec![1, 0, 0]));
        assert_eq!(count(&[("", 0, "/token")]), (1, vec![1, 0, 0]), "also one without a name");
    }

    #[test]
    fn steps_count_in_their_order_with_others_between() {
        assert_eq!(count(&[("a", 0, "/cart"), ("a", 1, "/token"), ("a", 2, "/orders")]), (1, vec![1, 0, 0]));
        let through =
            [("a", 0, "/token?x"), ("a", 1, "/x"), ("a", 2, "/cart/1"), ("a", 3, "/token"), ("a", 4, "/orders")];
        assert_eq!(count(&through), (1, vec![1, 1, 1]));
        let again =
            [("a", 0, "/token"), ("a", 1, "/cart"), ("a", 2, "/cart"), ("a", 3, "/orders"), ("a", 4, "/orders")];
        assert_eq!(count(&again), (1, vec![1, 1, 1]), "once each");
    }

    #[test]
    fn times_are_from_step_to_step() {
        let (_, reached) = run(&[
            ("a", 0, "/token"),
            ("a", 10, "/cart"),
            ("b", 0, "/token"),
            ("b", 20, "/cart"),
            ("b", 25, "/orders"),
        ]);
        let medians: Vec<_> = reached.into_iter().map(|step| step.median).collect();
        assert_eq!(medians, [None, Some(15.0), Some(5.0)]);
    }

    #[test]
    fn nothing_is_no_session() {
        assert_eq!(count(&[]), (0, vec![0, 0, 0]));
        assert_eq!(median(&mut []), None);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
    }
}
