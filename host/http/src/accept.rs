//! Chooses the format of an answer: by the parameter `format`, or else by the header `Accept`.
//!
//! Clients send very different `Accept` headers: log viewers ask for JSON, browsers for HTML, scripts for anything. So
//! a request is never refused because of this header: where no requested format exists, the answer is JSON.
//!
//! And reads the header `Accept-Encoding`, for what is kept in compressed form.

use axum::http::{HeaderMap, Uri, header};
use tidegate_model::{Failure, Manifest};
use tidegate_service::answer::{FORMAT_PARAMETER, Format};

/// How many members of `Accept` are read at most; a browser sends eight.
const MOST_RANGES: usize = 64;

/// The format of a request's answer. Removes the parameter `format` from `sent`, unless the endpoint has a parameter of
/// that name itself.
///
/// # Errors
/// [`tidegate_model::Code::InvalidParameter`] if there is no such format.
pub(crate) fn take_format(
    sent: &mut Vec<(String, String)>,
    manifest: &Manifest,
    headers: &HeaderMap,
) -> Result<Format, Failure> {
    Ok(Format::take(sent, manifest)?.unwrap_or_else(|| accepted(headers)))
}

/// The format that a request seems to ask for, from its head alone. It is for errors that arise before the endpoint's
/// parameters are known.
pub(crate) fn format_of_head(uri: &Uri, headers: &HeaderMap) -> Format {
    let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let named = pairs.find(|(name, _)| name == FORMAT_PARAMETER).map(|(_, value)| value);
    named.and_then(|named| Format::named(&named)).unwrap_or_else(|| accepted(headers))
}

/// The format that `Accept` prefers. JSON if the header is absent, or accepts none of the formats.
fn accepted(headers: &HeaderMap) -> Format {
    let texts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<Range> = texts.flat_map(|text| text.split(',')).take(MOST_RANGES).filter_map(Range::read).collect();
    let mut best: Option<(Rank, Format)> = None;
    for format in Format::ALL {
        if let Some(rank) = Rank::of(format, &ranges)
            && best.is_none_or(|(known, _)| rank > known)
        {
            best = Some((rank, format));
        }
    }
    best.map_or(Format::Json, |(_, format)| format)
}

/// Whether `Accept-Encoding` names a coding and does not refuse it.
pub(crate) fn accepts_coding(headers: &HeaderMap, coding: &str) -> bool {
    let accept = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|member| {
        let mut parts = member.split(';').map(str::trim);
        let is_refused = |parameter: &str| parameter.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0));
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding)) && !parts.any(is_refused)
    })
}

/// A member of `Accept`: a media type or a range of media types, and its quality value.
#[derive(Debug)]
struct Range {
    kind: String,
    subtype: String,
    /// In thousandths, as `q` has at most three digits.
    quality: u16,
}

impl Range {
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut quality = 1_000;
        for part in parts {
            if let Some((name, value)) = part.split_once('=')
                && name.trim().eq_ignore_ascii_case("q")
            {
                // A member whose quality is not a number between 0 and 1 is ignored.
                let value: f32 = value.trim().parse().ok().filter(|value| (0.0..=1.0).contains(value))?;
                quality = (value * 1_000.0).round() as u16;
            }
        }
        Some(Self { kind: kind.trim().to_ascii_lowercase(), subtype: subtype.trim().to_ascii_lowercase(), quality })
    }

    /// How specifically the range matches a media type. None if it does not match.
    fn specificity(&self, media_type: &str) -> Option<u8> {
        let (kind, subtype) = media_type.split_once('/')?;
        match (self.kind.as_str(), self.subtype.as_str()) {
            ("*", "*") => Some(0),
            (known, "*") if known == kind => Some(1),
            (known, exact) if known == kind && exact == subtype => Some(2),
            _ => None,
        }
    }
}

/// How much a format is preferred. Ranks are compared field by field, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    quality: u16,
    specificity: u8,
    /// The position in the header. An earlier position ranks higher.
    place: std::cmp::Reverse<usize>,
}

impl Rank {
    /// The rank of a format. None if the header does not mention the format, or excludes it with `q=0`.
    fn of(format: Format, ranges: &[Range]) -> Option<Self> {
        let mut rank: Option<Self> = None;
        for media_type in format.media_types() {
            // For each media type its most specific range applies, whatever the quality of that range is.
            let meant = ranges.iter().enumerate().filter_map(|(place, range)| {
                let specificity = range.specificity(media_type)?;
                Some(Self { quality: range.quality, specificity, place: std::cmp::Reverse(place) })
            });
            rank = rank.max(meant.max_by_key(|rank| (rank.specificity, rank.place)));
        }
        rank.filter(|rank| rank.quality > 0)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_model::{EndpointName, Parameter};

    use super::*;

    fn accepted(accept: &[&str]) -> Format {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, value.parse().unwrap());
        }
        super::accepted(&headers)
    }

    #[test]
    fn the_most_welcome_format_is_given() {
        use Format::{Arrow, Csv, Json, NdJson};
        for (accept, format) in [
            ("application/json", Json),
            ("text/csv", Csv),
            ("TEXT/CSV;charset=utf-8", Csv),
            ("application/x-ndjson", NdJson),
            ("application/jsonl", NdJson),
            ("application/vnd.apache.arrow.stream", Arrow),
            ("application/json;q=0.5, text/csv", Csv),
            ("application/json;q=0.5, text/csv;q=0.4", Json),
            ("text/csv, application/json", Csv),
            ("application/x-ndjson, */*", NdJson),
            ("*/*, text/csv", Csv),
            ("*/*;q=0.8, text/csv;q=0.1", Json),
            ("text/*", Csv),
            ("application/*", Json),
            ("application/*, application/json;q=0.1", NdJson),
            ("application/json;q=0, */*", NdJson),
            ("application/json;q=0", Json),
            ("text/csv; q=0", Json),
            ("text/csv; q=0.001", Csv),
            ("text/csv; Q=1.000", Csv),
        ] {
            assert_eq!(accepted(&[accept]), format, "{accept}");
        }
        assert_eq!(accepted(&["text/html", "text/csv;q=0.2"]), Csv);
    }

    #[test]
    fn whatever_is_sent_there_is_an_answer() {
        for accept in [
            "",
            "*/*",
            ",",
            ";;;",
            "/",
            "text",
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8",
            "image/png",
            "text/csv;q=nan",
            "text/csv;q=2",
            "text/csv;q=-1",
            "text/csv;q=",
            "*/json",
            "application/json+x",
        ] {
            assert_eq!(accepted(&[accept]), Format::Json, "{accept}");
        }
        assert_eq!(accepted(&[]), Format::Json);
        assert_eq!(accepted(&[&"image/png,".repeat(10_000)]), Format::Json);
    }

    #[test]
    fn the_parameter_wins_unless_it_is_the_endpoints_own() {
        let mut manifest = Manifest::new(EndpointName::try_from("x".to_owned()).unwrap(), "select 1");
        let headers = HeaderMap::from_iter([(header::ACCEPT, "text/csv".parse().unwrap())]);
        let take = |manifest: &Manifest, value: &str| {
            let mut sent = vec![("a".to_owned(), "1".to_owned()), ("format".to_owned(), value.to_owned())];
            let format = take_format(&mut sent, manifest, &headers);
            format.map(|format| (format, sent.len()))
        };
        assert_eq!(take(&manifest, "arrow").unwrap(), (Format::Arrow, 1));
        assert_eq!(take(&manifest, "").unwrap(), (Format::Csv, 1));
        let failure = take(&manifest, "xml").unwrap_err();
        assert!(failure.message.contains("json, ndjson, csv, arrow"), "{failure}");
        manifest.parameters.push(Parameter { name: "format".to_owned(), ..Parameter::default() });
        assert_eq!(take(&manifest, "xml").unwrap(), (Format::Csv, 2));
    }
}
