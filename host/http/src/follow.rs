//! Following a query over HTTP: `Accept: text/event-stream` on the route of queries.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use futures::StreamExt;
use tidegate_model::{Code, Failure, Manifest, parse_timestamp};
use tidegate_service::follow::{Follower, LastSeen};

/// The media type of Server-Sent Events.
pub(crate) const EVENTS: &str = "text/event-stream";
/// The header with the id of the last event that a client has.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How many of the newest rows come first.
const ROWS: &str = "follow_rows";
/// From which time on.
const SINCE: &str = "follow_since";
/// The rows that come first where the request does not say how many.
const DEFAULT_ROWS: usize = 100;

/// What a request says about following.
#[derive(Debug)]
pub(crate) struct FollowParameters {
    pub(crate) rows: usize,
    /// In microseconds since 1970.
    pub(crate) since: Option<i64>,
    pub(crate) seen: Option<LastSeen>,
}

/// Whether a request asks for events.
pub(crate) fn wants_events(headers: &HeaderMap) -> bool {
    let texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kind = |range: &str| range.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(EVENTS));
    texts.flat_map(|text| text.split(',')).any(kind)
}

impl FollowParameters {
    /// Takes what is about following out of the parameters of a request at the time `now`, in microseconds. What the
    /// endpoint has as a parameter of its own stays.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`].
    pub(crate) fn take(
        values: &mut Vec<(String, String)>,
        manifest: &Manifest,
        headers: &HeaderMap,
        now: i64,
    ) -> Result<Self, Failure> {
        let mut taken = |name: &str| {
            if manifest.parameters.iter().any(|own| own.name == name) {
                return None;
            }
            let at = values.iter().position(|(known, _)| known == name)?;
            Some(values.remove(at).1).filter(|text| !text.is_empty())
        };
        let (rows, since) = (taken(ROWS), taken(SINCE));
        let bad = |name: &str, message: &str| Failure::new(Code::InvalidParameter, message).about(name);
        let rows = rows.map(|text| text.parse::<usize>()).transpose();
        let rows = rows.map_err(|_| bad(ROWS, "follow_rows is a number: how many of the newest rows come first"))?;
        let since = match since {
            Some(text) => Some(moment(&text, now).ok_or_else(|| {
                bad(SINCE, "follow_since is a time, such as 2026-01-31T12:00:00Z, or how long ago: 30s, 10m, 2h, 1d")
            })?),
            None => None,
        };
        // Whoever names a time wants all rows from then on, as far as the endpoint answers them.
        let rows = rows.unwrap_or(if since.is_some() { usize::MAX } else { DEFAULT_ROWS });
        let seen = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty());
        let seen = match seen {
            Some(value) => Some(
                value
                    .to_str()
                    .ok()
                    .and_then(LastSeen::read)
                    .ok_or_else(|| bad("last-event-id", "Last-Event-ID is the id of an event of this server"))?,
            ),
            None => None,
        };
        Ok(Self { rows, since, seen })
    }
}

/// A time, or how long ago it is.
fn moment(text: &str, now: i64) -> Option<i64> {
    if let Some(time) = parse_timestamp(text) {
        return Some(time);
    }
    let unit = text.chars().last()?;
    let number = text.strip_suffix(unit)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u32 = number.parse().ok()?;
    now.checked_sub(i64::from(number).checked_mul(seconds)?.checked_mul(1_000_000)?)
}

/// The response with the events of a follower. It has no length, so that nothing compresses or buffers it.
pub(crate) fn respond(follower: Follower) -> Response {
    let events = follower.events().map(Ok::<_, std::convert::Infallible>);
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    // For proxies that buffer answers unless they are told not to.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_model::EndpointName;

    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    fn take(sent: &[(&str, &str)], id: &str) -> Result<FollowParameters, Failure> {
        let mut values: Vec<_> = sent.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut headers = HeaderMap::new();
        headers.insert(LAST_EVENT_ID, id.parse().unwrap());
        let manifest = Manifest::new(EndpointName::try_from("x".to_owned()).unwrap(), "select 1");
        let taken = FollowParameters::take(&mut values, &manifest, &headers, NOW);
        assert!(values.iter().all(|(name, _)| !name.starts_with("follow_")));
        taken
    }

    #[test]
    fn parameters_say_where_a_stream_begins() {
        let plain = take(&[("project", "x")], "").unwrap();
        assert_eq!((plain.rows, plain.since, plain.seen), (DEFAULT_ROWS, None, None));
        let since = take(&[("follow_since", "10m")], "7.1.0").unwrap();
        assert_eq!((since.rows, since.since), (usize::MAX, Some(NOW - 600_000_000)));
        assert!(since.seen.is_some());
        let both = take(&[("follow_since", "2023-11-14T22:13:20Z"), ("follow_rows", "5")], "").unwrap();
        assert_eq!((both.rows, both.since), (5, Some(NOW)));
        for (name, value) in
            [("follow_rows", "-1"), ("follow_rows", "x"), ("follow_since", "10"), ("follow_since", "m")]
        {
            assert_eq!(take(&[(name, value)], "").unwrap_err().code, Code::InvalidParameter, "{value}");
        }
        assert!(take(&[], "x").is_err());
    }

    #[test]
    fn events_are_asked_for_by_name() {
        let asks = |accept: &'static str| {
            wants_events(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(asks("text/event-stream") && asks("application/json, Text/Event-Stream;q=0.5"));
        assert!(!asks("*/*") && !asks("text/*") && !asks("application/json"));
    }
}
