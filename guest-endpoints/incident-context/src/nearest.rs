//! Joining by time: of several moments, the one nearest to another.

use std::time::Duration;

use tidegate_sdk::Timestamp;

/// The index of that of `times`, which are sorted, that is nearest to `at` and at most `reach` away. Of two that are
/// equally near, the earlier: a cause comes before.
pub(crate) fn nearest(times: &[Timestamp], at: Timestamp, reach: Duration) -> Option<usize> {
    let after = times.partition_point(|time| *time <= at);
    let distance = |index: usize| {
        let time = *times.get(index)?;
        let distance = if time <= at { at.since(time) } else { time.since(at) };
        (distance <= reach).then_some((distance, index))
    };
    let before = after.checked_sub(1).and_then(distance);
    before.into_iter().chain(distance(after)).min().map(|(_, index)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(times: &[i64], at: i64) -> Option<usize> {
        let times: Vec<_> = times.iter().copied().map(Timestamp::from_micros).collect();
        nearest(&times, Timestamp::from_micros(at), Duration::from_micros(10))
    }

    #[test]
    fn the_nearest_wins_and_of_equals_the_earlier() {
        assert_eq!(find(&[0, 100], 4), Some(0));
        assert_eq!(find(&[0, 100], 96), Some(1));
        assert_eq!(find(&[0, 8], 4), Some(0));
        assert_eq!(find(&[0, 8], 5), Some(1));
        assert_eq!(find(&[5, 5, 5], 5), Some(2), "the last that was not later");
    }

    #[test]
    fn what_is_too_far_is_none() {
        assert_eq!(find(&[0], 10), Some(0));
        assert_eq!(find(&[0], 11), None);
        assert_eq!(find(&[11], 0), None);
        assert_eq!(find(&[10], 0), Some(0));
        assert_eq!(find(&[], 0), None);
    }
}
