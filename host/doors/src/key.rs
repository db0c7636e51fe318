//! The header `Idempotency-Key`, or that of a protocol: a name that a sender gives to a request, so that the request can be sent again without
//! storing its events twice.

use http::HeaderMap;
use sha2::{Digest, Sha256};
use tidegate_model::{Audience, Code, Failure};
use tidegate_service::Identity;
use tidegate_store::RequestKey;

/// The longest name, in bytes.
const LONGEST: usize = 255;

/// The name of a request or of an event, hashed together with its sender. Its body has not been read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    sender: [u8; 8],
    name: [u8; 24],
}

/// What the names of events are told by from those of requests, which are bounded by themselves.
const EVENTS: &[u8] = b"events";

impl Name {
    /// Reads the name from this header of a request. It is valid for the token that sent it, and for the tenant whose logs it sends;
    /// others may use the same name.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] for a header that is not a valid name, or that is sent twice.
    pub(crate) fn of(
        headers: &HeaderMap,
        header: &str,
        (sender, audience): (&Identity, &Audience),
    ) -> Result<Option<Self>, Failure> {
        let mut named = headers.get_all(header).iter();
        let Some(name) = named.next() else { return Ok(None) };
        let name = name.as_bytes();
        let is_name = (1..=LONGEST).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
        if named.next().is_some() || !is_name {
            let message = format!(
                "the header {header} is there once and has 1 to {LONGEST} visible ASCII characters, such as a UUID"
            );
            return Err(Failure::new(Code::InvalidParameter, message).about(header));
        }
        Ok(Some(Self::hashed(b"", (sender, audience), &[name])))
    }

    /// The name of an event that has this id in this index.
    pub(crate) fn of_event(index: &str, id: &str, sender: (&Identity, &Audience)) -> Self {
        Self::hashed(EVENTS, sender, &[index.as_bytes(), id.as_bytes()])
    }

    fn hashed(kind: &[u8], (sender, audience): (&Identity, &Audience), parts: &[&[u8]]) -> Self {
        let bounded = Sha256::new().chain_update(sender).chain_update(kind);
        let mut hash = bounded.clone();
        // A subject of an issuer may send logs of another tenant with each of its tokens.
        let pins = audience.pins().iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        for part in parts.iter().copied().chain(pins) {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        let cut = |hash: Sha256| hash.finalize().into_iter();
        let mut own = Self { sender: [0; 8], name: [0; 24] };
        own.sender.iter_mut().zip(cut(bounded)).for_each(|(to, from)| *to = from);
        own.name.iter_mut().zip(cut(hash)).for_each(|(to, from)| *to = from);
        own
    }

    /// The key of the request or event: its name, and the hash of its body.
    pub(crate) fn with(self, body: &[u8]) -> RequestKey {
        RequestKey { sender: self.sender, name: self.name, body: Sha256::digest(body).into() }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use http::HeaderValue;

    const HEADER: &str = "idempotency-key";
    const A: Identity = [1; 32];

    fn of(names: &[&str], sender: &Identity) -> Result<Option<RequestKey>, Code> {
        let mut headers = HeaderMap::new();
        for name in names {
            headers.append(HEADER, HeaderValue::from_str(name).unwrap());
        }
        Name::of(&headers, HEADER, (sender, &Audience::All))
            .map(|name| name.map(|name| name.with(b"")))
            .map_err(|failure| failure.code)
    }

    #[test]
    fn a_name_is_short_visible_and_its_sender_s() {
        assert_eq!(of(&[], &A), Ok(None));
        let long = "x".repeat(LONGEST);
        assert!(of(&[&long], &A).unwrap().is_some());
        assert_eq!(of(&["a"], &A), of(&["a"], &A));
        assert_ne!(of(&["a"], &A), of(&["b"], &A));
        assert_ne!(of(&["a"], &A), of(&["a"], &[2; 32]));
        let of_tenant = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.append(HEADER, HeaderValue::from_static("a"));
            let audience = Audience::of_pins([("project".to_owned(), value.to_owned())].into());
            Name::of(&headers, HEADER, (&A, &audience)).map(|name| name.map(|name| name.with(b""))).unwrap()
        };
        assert_eq!(of_tenant("p"), of_tenant("p"));
        assert_ne!(of_tenant("p"), of_tenant("q"));
        assert_ne!(Ok(of_tenant("p")), of(&["a"], &A));
        for bad in [&["" as &str][..], &["a b"], &["a", "a"], &["\u{e9}"], &[&format!("{long}x")]] {
            assert_eq!(of(bad, &A), Err(Code::InvalidParameter), "{bad:?}");
        }
    }

    #[test]
    fn a_key_tells_bodies_apart() {
        let name = Name::hashed(b"", (&A, &Audience::All), &[b"n"]);
        assert_eq!(name.with(b"a"), name.with(b"a"));
        assert_ne!(name.with(b"a"), name.with(b"b"));
    }

    #[test]
    fn keys_of_a_sender_lie_together_and_names_of_events_apart() {
        let sender = |sender: &Identity, name: &str| of(&[name], sender).unwrap().unwrap().sender;
        assert_eq!(sender(&A, "a"), sender(&A, "b"));
        assert_ne!(sender(&A, "a"), sender(&[2; 32], "a"));
        let event = |index: &str, id: &str| Name::of_event(index, id, (&A, &Audience::All)).with(b"");
        assert_ne!(event("a", "b").sender, sender(&A, "a"));
        assert_eq!(event("a", "b"), event("a", "b"));
        assert_ne!(event("a", "b"), event("ab", ""));
        assert_ne!(event("a", "b"), event("c", "b"));
    }
}
