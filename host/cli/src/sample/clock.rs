//! The times of events, and the formats in which services write them.

use std::time::Duration;

use chrono::{DateTime, Datelike, Timelike};
use serde_json::Value;

use super::dice::{Dice, mixed};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// The weight of each hour of the day for requests: low until five, highest in the evening.
const WAVE: [u8; 24] = [3, 2, 2, 2, 2, 3, 6, 10, 14, 16, 17, 17, 18, 18, 17, 17, 18, 20, 26, 29, 30, 26, 16, 8];

/// The times of a series of events, in ascending order.
#[derive(Debug)]
pub(super) struct Spread {
    count: f64,
    start: i64,
    /// The beginning of the last hour, or of the whole span if it is shorter.
    recent: i64,
    now: i64,
    /// For the time before the last hour: the fraction of its events that are before the end of each bin.
    bins: Vec<f64>,
    bin: usize,
    last: i64,
}

impl Spread {
    pub(super) fn new(count: usize, now: i64, span: Duration) -> Self {
        let span = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let start = now.saturating_sub(span);
        let recent = start.max(now.saturating_sub(HOUR));
        let width = bin_width(start, recent);
        let mut sum = 0.0;
        let mut bins: Vec<f64> = (start..recent)
            .step_by(usize::try_from(width).unwrap_or(usize::MAX))
            .map(|bin| {
                let hour = usize::try_from(bin.rem_euclid(24 * HOUR) / HOUR).unwrap_or_default();
                let burst = if mixed(bin.unsigned_abs() / width.unsigned_abs()).is_multiple_of(60) { 4.0 } else { 1.0 };
                sum += f64::from(WAVE.get(hour).copied().unwrap_or(1)) * burst;
                sum
            })
            .collect();
        bins.iter_mut().for_each(|bin| *bin /= sum);
        Self { count: count.max(1) as f64, start, recent, now, bins, bin: 0, last: start }
    }

    /// The time of the event with this index. The index must not decrease from call to call.
    pub(super) fn at(&mut self, index: usize, dice: &mut Dice) -> i64 {
        let part = (index as f64 + dice.fraction()) / self.count;
        let at = if self.bins.is_empty() {
            between(self.start, self.now, part)
        } else if part < 0.5 {
            self.older(part * 2.0)
        } else {
            between(self.recent, self.now, part * 2.0 - 1.0)
        };
        // Some events have the time or the second of the previous one, and some are on a full minute. So pagination by
        // time meets equal times, and filters meet events exactly on their bounds.
        let at = match dice.below(80) {
            0 | 1 if index > 0 => self.last,
            2 | 3 if index > 0 => self.last.div_euclid(1_000) * 1_000 + i64::from(dice.below(1_000)),
            4 => at.div_euclid(MINUTE) * MINUTE,
            _ => at,
        };
        self.last = at.clamp(self.last, self.now);
        self.last
    }

    fn older(&mut self, part: f64) -> i64 {
        while self.bins.get(self.bin).is_some_and(|end| *end < part) {
            self.bin += 1;
        }
        let before = self.bin.checked_sub(1).and_then(|bin| self.bins.get(bin)).copied().unwrap_or(0.0);
        let end = self.bins.get(self.bin).copied().unwrap_or(1.0);
        let width = bin_width(self.start, self.recent);
        let from = self.start + width * self.bin as i64;
        let within = if end > before { (part - before) / (end - before) } else { 0.0 };
        between(from, (from + width).min(self.recent), within)
    }
}

/// The width of a bin: ten minutes, or more if there would be too many bins.
fn bin_width(start: i64, recent: i64) -> i64 {
    (recent.saturating_sub(start) / 10_000).max(10 * MINUTE)
}

fn between(from: i64, to: i64, part: f64) -> i64 {
    from + (to.saturating_sub(from) as f64 * part) as i64
}

/// Formats times as text. Events come in order, so the text of a second is computed once for all events in it.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: Option<i64>,
    date: String,
    time: String,
    weekday: &'static str,
    month: &'static str,
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Clock {
    fn turn(&mut self, at: i64) {
        let second = at.div_euclid(SECOND);
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        let moment = DateTime::from_timestamp(second, 0).unwrap_or_default();
        self.date = format!("{:04}-{:02}-{:02}", moment.year(), moment.month(), moment.day());
        self.time = format!("{:02}:{:02}:{:02}", moment.hour(), moment.minute(), moment.second());
        let name = |names: &[&'static str], place: u32| names.get(place as usize).copied().unwrap_or_default();
        self.weekday = name(&WEEKDAYS, moment.weekday().num_days_from_monday());
        self.month = name(&MONTHS, moment.month0());
    }

    /// `2025-11-20T10:15:02Z`
    pub(super) fn iso(&mut self, at: i64) -> String {
        self.turn(at);
        format!("{}T{}Z", self.date, self.time)
    }

    /// `2025-11-20T10:15:02.345Z`
    pub(super) fn iso_millis(&mut self, at: i64) -> String {
        self.turn(at);
        format!("{}T{}.{:03}Z", self.date, self.time, at.rem_euclid(SECOND) / 1_000)
    }

    /// `2025-11-20 10:15:02.345 UTC`, the format of the database server.
    pub(super) fn of_database(&mut self, at: i64) -> String {
        self.turn(at);
        format!("{} {}.{:03} UTC", self.date, self.time, at.rem_euclid(SECOND) / 1_000)
    }

    /// `2025-11-20 10:15:02 UTC`
    pub(super) fn of_session(&mut self, at: i64) -> String {
        self.turn(at);
        format!("{} {} UTC", self.date, self.time)
    }

    /// `20/Nov/2025:10:15:02 +0000`, the format of access logs.
    pub(super) fn of_access_log(&mut self, at: i64) -> String {
        self.turn(at);
        let (year, day) = (self.date.get(..4).unwrap_or_default(), self.date.get(8..).unwrap_or_default());
        format!("{day}/{}/{year}:{} +0000", self.month, self.time)
    }

    /// `Thu, 20 Nov 2025 10:15:02 GMT`
    pub(super) fn of_http(&mut self, at: i64) -> String {
        self.turn(at);
        let (year, day) = (self.date.get(..4).unwrap_or_default(), self.date.get(8..).unwrap_or_default());
        format!("{}, {day} {} {year} {} GMT", self.weekday, self.month, self.time)
    }

    /// The `timestamp` of an event. The hosted pipeline keeps microseconds, as a number or as text; shippers send what
    /// their service wrote.
    pub(super) fn timestamp(&mut self, dice: &mut Dice, at: i64, bare: bool) -> Value {
        self.turn(at);
        let micros = at.rem_euclid(SECOND);
        match dice.below(4) {
            0 if bare => self.of_database(at).into(),
            _ if bare => self.iso_millis(at).into(),
            0 | 1 => format!("{}T{}.{micros:06}Z", self.date, self.time).into(),
            _ => at.into(),
        }
    }
}
