//! Codes by their names: failures that come from another machine.

use crate::failure::Code;

const ALL: [Code; 29] = [
    Code::InvalidParameter,
    Code::Syntax,
    Code::UnknownTable,
    Code::UnknownColumn,
    Code::UnknownFunction,
    Code::UnknownStatement,
    Code::InvalidQuery,
    Code::Unsupported,
    Code::InvalidValue,
    Code::InvalidBody,
    Code::Refused,
    Code::Unauthorized,
    Code::Forbidden,
    Code::NotFound,
    Code::Conflict,
    Code::MethodNotAllowed,
    Code::TooLarge,
    Code::UnsupportedMediaType,
    Code::LimitExceeded,
    Code::TooManyRequests,
    Code::Overloaded,
    Code::StorageFull,
    Code::SlowRequest,
    Code::Timeout,
    Code::ComponentFailed,
    Code::DataUnavailable,
    Code::DataDamaged,
    Code::Unconfirmed,
    Code::Internal,
];

impl Code {
    /// The code with this name ([`Code::name`]).
    pub fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|code| code.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_name() {
        for code in ALL {
            assert_eq!(Code::named(code.name()), Some(code));
        }
        // `Internal` is the last one: whoever adds a code before it adds it to the list.
        assert_eq!(ALL.len(), Code::Internal as usize + 1);
        assert_eq!(Code::named("no_code"), None);
    }
}
