//! All codes, and codes by their names: failures that come from another machine.

use crate::failure::Code;

impl Code {
    /// All codes, in the order of their definition: what `error.code` may be.
    pub const ALL: [Self; 33] = [
        Self::InvalidParameter,
        Self::Syntax,
        Self::UnknownTable,
        Self::UnknownColumn,
        Self::UnknownFunction,
        Self::UnknownStatement,
        Self::InvalidQuery,
        Self::Unsupported,
        Self::InvalidValue,
        Self::InvalidBody,
        Self::Refused,
        Self::Unauthorized,
        Self::InvalidToken,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::PreconditionFailed,
        Self::KeyReused,
        Self::MethodNotAllowed,
        Self::TooLarge,
        Self::UnsupportedMediaType,
        Self::LimitExceeded,
        Self::TooManyRequests,
        Self::Overloaded,
        Self::StorageFull,
        Self::SlowRequest,
        Self::Timeout,
        Self::ComponentFailed,
        Self::DataUnavailable,
        Self::DataDamaged,
        Self::Unconfirmed,
        Self::IssuerUnavailable,
        Self::Internal,
    ];

    /// The code with this name ([`Code::name`]).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_name() {
        for (place, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(Code::named(code.name()), Some(code));
            assert_eq!(code as usize, place, "{code:?} is not at its place");
        }
        // `Internal` is the last one: whoever adds a code before it adds it to the list.
        assert_eq!(Code::ALL.len(), Code::Internal as usize + 1);
        assert_eq!(Code::named("no_code"), None);
    }

    /// `docs/management.md` lists all codes with their statuses, and no others.
    #[test]
    fn every_code_is_in_the_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/management.md");
        let document = std::fs::read_to_string(path).unwrap();
        let (_, table) = document.split_once("\n| Code | Status |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let mut told: Vec<(&str, &str)> = rows
            .map(|row| {
                let mut cells = row.trim_matches('|').split('|').map(str::trim);
                (cells.next().unwrap().trim_matches('`'), cells.next().unwrap())
            })
            .collect();
        told.sort_unstable();
        let statuses = Code::ALL.map(|code| code.status().to_string());
        let mut wanted: Vec<(&str, &str)> =
            Code::ALL.into_iter().zip(&statuses).map(|(code, status)| (code.name(), status.as_str())).collect();
        wanted.sort_unstable();
        assert_eq!(told, wanted);
    }
}
