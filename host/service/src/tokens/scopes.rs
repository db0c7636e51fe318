//! The scopes of a token: `ingest`, `ingest:source:NAME`, `query`, `query:endpoint:NAME`, `private`.

use std::fmt;

use uuid::Uuid;

/// The allowed scopes, for error messages.
const ALLOWED: &str = "ingest, ingest:source:NAME, query, query:endpoint:NAME and private";
const OF_SOURCE: &str = "ingest:source:";
const OF_ENDPOINT: &str = "query:endpoint:";

/// The scopes of a token. A scope names a source or an endpoint by name or by id. A scope by name holds for whatever
/// has that name; a scope by id holds for the same source or endpoint after it is renamed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scopes(Vec<String>);

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Scopes {
    /// Scopes from the catalog. Unknown scopes allow nothing.
    pub(super) fn stored(text: &str) -> Self {
        Self(text.split_whitespace().map(str::to_owned).collect())
    }

    /// Parses scopes that are separated by spaces.
    ///
    /// # Errors
    /// An invalid scope; the message lists the allowed ones.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let scopes = Self::stored(text);
        if scopes.0.is_empty() {
            return Err(format!("a token needs scopes, separated by blanks; there are {ALLOWED}"));
        }
        let known = |scope: &str| {
            let named = |prefix: &str| scope.strip_prefix(prefix).is_some_and(|name| !name.is_empty());
            matches!(scope, "ingest" | "public" | "query" | "private") || named(OF_SOURCE) || named(OF_ENDPOINT)
        };
        match scopes.0.iter().find(|scope| !known(scope)) {
            Some(unknown) => Err(format!("there is no scope '{unknown}'; there are {ALLOWED}, separated by blanks")),
            None => Ok(scopes),
        }
    }

    /// Roughly the bytes of its texts, with what their allocations take.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|scope| scope.len() + 48).sum()
    }

    fn has(&self, scope: &str) -> bool {
        self.0.iter().any(|own| own == scope)
    }

    fn names(&self, prefix: &str, name: &str, id: Option<Uuid>) -> bool {
        let mut named = self.0.iter().filter_map(|own| own.strip_prefix(prefix));
        named.any(|own| own == name || id.is_some() && Uuid::try_parse(own).ok() == id)
    }

    /// The names or ids of endpoints that scopes name.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|own| own.strip_prefix(OF_ENDPOINT))
    }

    /// Whether a scope allows to send events to at least one source.
    pub(super) fn is_of_ingest(&self) -> bool {
        self.0.iter().any(|own| own == "ingest" || own == "public" || own.starts_with(OF_SOURCE))
    }

    /// Whether a scope allows to query at least one endpoint.
    pub(super) fn is_of_queries(&self) -> bool {
        self.0.iter().any(|own| own == "query" || own == "private" || own.starts_with(OF_ENDPOINT))
    }

    pub(super) fn is_private(&self) -> bool {
        self.has("private")
    }

    pub(super) fn may_query(&self, endpoint: &str, id: Option<Uuid>) -> bool {
        self.is_private() || self.has("query") || self.names(OF_ENDPOINT, endpoint, id)
    }

    pub(super) fn may_ingest(&self, source: &str, id: Option<Uuid>) -> bool {
        // `public` is Logflare's name for a token that allows ingest.
        let all = self.is_private() || self.has("ingest") || self.has("public");
        all || self.names(OF_SOURCE, source, id)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn scopes_allow_what_they_say_and_no_more() {
        let ingest = Scopes::parse("ingest").unwrap();
        assert!(ingest.may_ingest("a", None) && !ingest.may_query("a", None) && !ingest.is_private());
        let one = Scopes::parse("query:endpoint:logs.all ingest:source:a").unwrap();
        assert!(one.may_query("logs.all", None) && !one.may_query("logs.all2", None));
        assert!(one.may_ingest("a", None) && !one.may_ingest("b", None));
        assert!(Scopes::parse("private").unwrap().may_query("x", None));
        assert!(!Scopes::default().may_ingest("x", None));
        let id = Uuid::from_u128(7);
        let by_id = Scopes::parse(&format!("query:endpoint:{id}")).unwrap();
        assert!(
            by_id.may_query("x", Some(id)) && !by_id.may_query("x", None) && !by_id.may_query("x", Some(Uuid::nil()))
        );
    }

    #[test]
    fn unknown_scopes_are_told() {
        for text in ["", "  ", "admin", "query endpoint", "query:endpoint:", "ingest:sources:a"] {
            assert!(Scopes::parse(text).unwrap_err().contains(ALLOWED), "{text}");
        }
    }
}
