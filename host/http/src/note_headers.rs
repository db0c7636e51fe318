//! What a component says of its answer as headers: its notes, `x-tidegate-note-KEY`. All answers of a component get theirs
//! here: whole ones, streams and kept ones, also those of which only the version is told.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tidegate_service::answer::AnswerMetadata;

/// Prefix of the name of each note's header; the key follows.
const PREFIX: &str = "x-tidegate-note-";
/// The most bytes of names and values of all these headers. Clients and proxies refuse a response whose headers are
/// larger than their limit, which is 16 KiB in many of them, and then no part of the response arrives.
const MOST_BYTES: usize = 8 << 10;
/// Characters that are percent-encoded: those that no header can have, and the percent sign itself. Characters that are
/// not ASCII are encoded as well, because clients disagree about their meaning.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');

/// Writes the notes into the headers of an answer, in the order of their keys, as long as they fit.
pub(crate) fn write(metadata: &AnswerMetadata, headers: &mut HeaderMap) {
    let mut left = MOST_BYTES;
    for (key, note) in &metadata.notes {
        let (name, value) = (format!("{PREFIX}{key}"), encoded(note));
        let Some(rest) = left.checked_sub(name.len() + value.len()) else { continue };
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
            left = rest;
        }
    }
}

/// A text as the value of a header, from which percent-decoding gives the same text.
fn encoded(note: &str) -> String {
    // Spaces at the ends are not part of a header's value, so they are encoded.
    let inner = note.trim_matches(' ');
    let before = note.len() - note.trim_start_matches(' ').len();
    let after = note.len() - before - inner.len();
    let inner = utf8_percent_encode(inner, ENCODED);
    format!("{}{inner}{}", "%20".repeat(before), "%20".repeat(after))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_runtime::{Answer, Body};

    use super::*;

    fn headers_of(notes: &[(&str, &str)], redact: bool) -> HeaderMap {
        let notes = notes.iter().map(|(key, note)| ((*key).to_owned(), (*note).to_owned())).collect();
        let mut headers = HeaderMap::new();
        write(&AnswerMetadata::of(Answer { notes, ..Answer::from(Body::Empty) }, redact).1, &mut headers);
        headers
    }

    #[test]
    fn a_remark_is_a_header_that_decodes_to_the_same_text() {
        for (note, sent) in [
            ("took 3 parts", "took 3 parts"),
            ("50% of \"all\"", "50%25 of \"all\""),
            ("a\r\nx-evil: 1", "a%0D%0Ax-evil: 1"),
            ("é→\u{0}\t", "%C3%A9%E2%86%92%00%09"),
            (" two  ends  ", "%20two  ends%20%20"),
            ("   ", "%20%20%20"),
            ("", ""),
        ] {
            let headers = headers_of(&[("k-1", note)], false);
            assert_eq!(headers.get("x-tidegate-note-k-1").unwrap().to_str().unwrap(), sent, "{note:?}");
            assert_eq!(headers.len(), 1);
            assert_eq!(percent_encoding::percent_decode_str(sent).decode_utf8().unwrap(), note);
        }
    }

    #[test]
    fn remarks_are_masked_where_the_answer_is() {
        let masked = headers_of(&[("from", "192.0.2.7 asked")], true);
        assert_eq!(masked.get("x-tidegate-note-from").unwrap(), "REDACTED asked");
        assert_eq!(
            headers_of(&[("from", "192.0.2.7 asked")], false).get("x-tidegate-note-from").unwrap(),
            "192.0.2.7 asked"
        );
    }

    #[test]
    fn remarks_do_not_make_an_answer_that_clients_refuse() {
        // Each byte of the text is encoded as three, so a note takes 3 KiB.
        let wide = "\u{1}".repeat(1024);
        let keys: Vec<String> = (0..16).map(|n| format!("k{n:02}")).collect();
        let mut notes: Vec<(&str, &str)> = keys.iter().map(|key| (&**key, &*wide)).collect();
        notes.push(("z", "small"));
        let headers = headers_of(&notes, false);
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        assert!(bytes <= MOST_BYTES, "{bytes}");
        assert_eq!(headers.len(), 3, "two wide ones, and the one that still fits");
        assert!(headers.contains_key("x-tidegate-note-z"));
    }
}
