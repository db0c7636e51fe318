//! Reads syslog messages as they were sent before RFC 5424, and are by many programs still (RFC 3164).
//!
//! After the priority comes a time (`Oct 11 22:14:15`, or one of RFC 3339 as rsyslog's RSYSLOG_ForwardFormat has it), then
//! the host and a tag: `host program[pid]: text`. Programs that write to the socket of their own machine leave out the
//! host. Whatever does not have this form is text.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;

use super::message::{Message, bare, priority};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// The longest tag, in bytes.
const LONGEST_TAG: usize = 128;

/// What messages without a year or a zone are read with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calendar {
    /// The present time, in microseconds since 1970.
    pub(crate) now: i64,
    /// The zone of times without one.
    pub(crate) zone: Tz,
}

/// Reads a message. A line without a priority is one only if it has the form of a line in a log file of a system:
/// `Oct 11 22:14:15 host program[pid]: text`. Every other text is a message that has nothing but its text.
pub(crate) fn read(message: &str, calendar: Calendar) -> Message<'_> {
    let Some((priority, rest)) = priority(message) else {
        let of_file = after_time(message, calendar, false)
            .map(|(time, rest)| of_host(Message { time: Some(time.into()), ..Message::default() }, rest))
            .filter(|message| message.hostname.is_some() && message.app_name.is_some());
        return of_file.unwrap_or(Message { text: bare(message), ..Message::default() });
    };
    let message = Message { priority: Some(priority), ..Message::default() };
    let rest = rest.trim_start_matches(' ');
    match after_time(rest, calendar, true) {
        Some((time, rest)) => of_host(Message { time: Some(time.into()), ..message }, rest),
        None => Message { text: bare(rest), ..message },
    }
}

/// Reads what follows the time: host, tag, text.
fn of_host<'m>(mut message: Message<'m>, rest: &'m str) -> Message<'m> {
    if tag(rest).is_none()
        && let Some((host, after)) = rest.split_once(' ')
        && !host.is_empty()
    {
        message.hostname = Some(host);
        return of_tag(message, after);
    }
    of_tag(message, rest)
}

fn of_tag<'m>(mut message: Message<'m>, rest: &'m str) -> Message<'m> {
    let text = match tag(rest) {
        Some((app_name, proc_id, text)) => {
            (message.app_name, message.proc_id) = (Some(app_name), proc_id);
            text
        }
        None => rest,
    };
    message.text = bare(text.strip_prefix(' ').unwrap_or(text));
    message
}

/// The program, its process, and what follows `program:` or `program[process]:`.
fn tag(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let end = text.find([':', '[', ' ']).filter(|end| (1..=LONGEST_TAG).contains(end))?;
    let (name, rest) = text.split_at(end);
    if let Some(rest) = rest.strip_prefix(':') {
        // An address of IPv6 as host has more behind its first colon.
        return (rest.is_empty() || rest.starts_with(' ')).then_some((name, None, rest));
    }
    let (process, rest) = rest.strip_prefix('[')?.split_once(']')?;
    let rest = rest.strip_prefix(':')?;
    let is_short = process.len() <= LONGEST_TAG && !process.contains([' ', '[']);
    is_short.then_some((name, Some(process).filter(|process| !process.is_empty()), rest))
}

/// The time at the beginning, as text of RFC 3339, and what follows its blank. `any` takes times of RFC 3339, too.
fn after_time(text: &str, calendar: Calendar, any: bool) -> Option<(String, &str)> {
    let (month, rest) = text.split_at_checked(3)?;
    let Some(month) = MONTHS.iter().position(|name| *name == month) else {
        return if any { with_year(text, calendar) } else { None };
    };
    let month = u32::try_from(month).ok()? + 1;
    let (day, rest) = word(rest)?;
    let (mut time, mut rest) = word(rest)?;
    let mut year = None;
    if time.len() == 4 && !time.contains(':') {
        year = Some(time.parse().ok()?);
        (time, rest) = word(rest)?;
    }
    let time = chrono::NaiveTime::parse_from_str(time.trim_end_matches(':'), "%H:%M:%S%.f").ok()?;
    let day = day.parse().ok()?;
    let of_year = |year| Some(NaiveDate::from_ymd_opt(year, month, day)?.and_time(time));
    let moment = match year {
        Some(year) => in_zone(of_year(year)?, calendar.zone)?,
        None => {
            let now = DateTime::from_timestamp_micros(calendar.now)?;
            let this = now.with_timezone(&calendar.zone).year();
            // The 29th of February is not there in every year.
            let years = (this - 4..=this + 4).filter_map(|year| in_zone(of_year(year)?, calendar.zone));
            years.min_by_key(|moment| (moment.timestamp_micros() - calendar.now).unsigned_abs())?
        }
    };
    Some((moment.to_rfc3339(), rest.strip_prefix(' ').unwrap_or(rest)))
}

/// A time of RFC 3339, or the same without a zone.
fn with_year(text: &str, calendar: Calendar) -> Option<(String, &str)> {
    let (time, rest) = text.split_once(' ').unwrap_or((text, ""));
    if DateTime::parse_from_rfc3339(time).is_ok() {
        return Some((time.to_owned(), rest));
    }
    let local = NaiveDateTime::parse_from_str(time, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    Some((in_zone(local, calendar.zone)?.to_rfc3339(), rest))
}

/// A local time as a moment: the first of two where clocks are set back, and by the offset before where they are set
/// forward.
fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Tz>> {
    let hour = chrono::TimeDelta::hours(1);
    let forward = || Some(zone.from_local_datetime(&local.checked_sub_signed(hour)?).earliest()? + hour);
    zone.from_local_datetime(&local).earliest().or_else(forward)
}

/// The word after one or two blanks, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(' ')?;
    let text = text.strip_prefix(' ').unwrap_or(text);
    let end = text.find(' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn at(now: &str, zone: Tz) -> Calendar {
        Calendar { now: DateTime::parse_from_rfc3339(now).unwrap().timestamp_micros(), zone }
    }

    fn parts(message: &str) -> [String; 5] {
        let message = read(message, at("2025-11-20T12:00:00Z", Tz::UTC));
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        [
            text(message.time.as_deref()),
            text(message.hostname),
            text(message.app_name),
            text(message.proc_id),
            message.text.to_owned(),
        ]
    }

    #[test]
    fn what_programs_send_is_read() {
        for (message, expected) in [
            // The examples of RFC 3164.
            (
                "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
                ["2025-10-11T22:14:15+00:00", "mymachine", "su", "", "'su root' failed for lonvick on /dev/pts/8"],
            ),
            ("Use the BFG!", ["", "", "", "", "Use the BFG!"]),
            (
                "<13>Feb  5 17:32:18 10.0.0.99 Use the BFG!",
                ["2026-02-05T17:32:18+00:00", "10.0.0.99", "", "", "Use the BFG!"],
            ),
            // rsyslog: RSYSLOG_TraditionalForwardFormat, RSYSLOG_ForwardFormat, RSYSLOG_TraditionalFileFormat.
            (
                "<86>Nov 20 10:15:02 web-1 sshd[4711]: Accepted publickey for a\n",
                ["2025-11-20T10:15:02+00:00", "web-1", "sshd", "4711", "Accepted publickey for a"],
            ),
            (
                "<30>2025-11-20T10:15:02.123456+01:00 web-1 systemd[1]: Started x.service.",
                ["2025-11-20T10:15:02.123456+01:00", "web-1", "systemd", "1", "Started x.service."],
            ),
            (
                "Nov 20 10:15:02 web-1 rsyslogd: [origin] start",
                ["2025-11-20T10:15:02+00:00", "web-1", "rsyslogd", "", "[origin] start"],
            ),
            // Docker without a format: no host.
            (
                "<30>Nov 20 10:15:02 docker/4f1c[871]: GET / 200",
                ["2025-11-20T10:15:02+00:00", "", "docker/4f1c", "871", "GET / 200"],
            ),
            // Cisco with a year; an address of IPv6 as host; no text.
            (
                "<189>Nov 20 2024 10:15:02.5 fe80::1 %ASA-5-111008: User",
                ["2024-11-20T10:15:02.500+00:00", "fe80::1", "%ASA-5-111008", "", "User"],
            ),
            ("<13>Nov 20 10:15:02 host", ["2025-11-20T10:15:02+00:00", "", "", "", "host"]),
            ("<13>Nov 20 10:15:02", ["2025-11-20T10:15:02+00:00", "", "", "", ""]),
            // Nothing of it is a header.
            ("<13>tag: text", ["", "", "", "", "tag: text"]),
            ("<13>Nov 31 10:15:02 host a: b", ["", "", "", "", "Nov 31 10:15:02 host a: b"]),
            ("<999>Nov 20 10:15:02 a", ["", "", "", "", "<999>Nov 20 10:15:02 a"]),
            ("2025-11-20T10:15:02Z INFO main: text", ["", "", "", "", "2025-11-20T10:15:02Z INFO main: text"]),
            ("Nov 20 10:15:02 is the date", ["", "", "", "", "Nov 20 10:15:02 is the date"]),
        ] {
            assert_eq!(parts(message), expected.map(str::to_owned), "{message}");
        }
    }

    #[test]
    fn the_year_is_the_nearest_in_the_zone() {
        let time = |text: &str, now: &str, zone: Tz| read(text, at(now, zone)).time.unwrap_or_default().into_owned();
        let utc = |text, now| time(text, now, Tz::UTC);
        assert_eq!(utc("<1>Dec 31 23:59:59 h a: b", "2026-01-01T00:00:10Z"), "2025-12-31T23:59:59+00:00");
        assert_eq!(utc("<1>Jan  1 00:00:05 h a: b", "2025-12-31T23:59:50Z"), "2026-01-01T00:00:05+00:00");
        assert_eq!(utc("<1>Feb 29 00:00:00 h a: b", "2025-11-20T00:00:00Z"), "2024-02-29T00:00:00+00:00");
        let berlin = |text, now| time(text, now, Tz::Europe__Berlin);
        assert_eq!(berlin("<1>Jul  1 12:00:00 h a: b", "2025-07-01T10:00:00Z"), "2025-07-01T12:00:00+02:00");
        assert_eq!(berlin("<1>Jan  1 00:30:00 h a: b", "2025-12-31T23:30:00Z"), "2026-01-01T00:30:00+01:00");
        // Clocks go back, and forward.
        assert_eq!(berlin("<1>Oct 26 02:30:00 h a: b", "2025-10-26T00:30:00Z"), "2025-10-26T02:30:00+02:00");
        assert_eq!(berlin("<1>2025-03-30T02:30:00 h a: b", "2025-03-30T02:30:00Z"), "2025-03-30T03:30:00+02:00");
    }
}
