//! The formats of answers.

use tidegate_model::{Code, Failure, Manifest};

/// The query parameter that selects the format.
pub const PARAMETER: &str = "format";
/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `{"result": [...]}`
    Json,
    /// One row per line, as a JSON object.
    NdJson,
    /// CSV by RFC 4180, with a header line.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
}

impl Format {
    /// All formats, in order of preference.
    pub const ALL: [Self; 4] = [Self::Json, Self::NdJson, Self::Csv, Self::Arrow];

    /// The value of the query parameter.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::NdJson => "ndjson",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }

    /// The value of the header `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json; charset=utf-8",
            Self::NdJson => "application/x-ndjson; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// The media types that select the format in the header `Accept`.
    pub fn media_types(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["application/json"],
            Self::NdJson => &["application/x-ndjson", "application/ndjson", "application/jsonl"],
            Self::Csv => &["text/csv"],
            Self::Arrow => &["application/vnd.apache.arrow.stream"],
        }
    }

    /// Reads the format from the parameter [`PARAMETER`], if it is sent and not empty. The parameter is removed from
    /// `sent`, unless the endpoint declares a parameter of that name itself.
    ///
    /// # Errors
    /// [`Code::InvalidParameter`] if there is no such format.
    pub fn take(sent: &mut Vec<(String, String)>, manifest: &Manifest) -> Result<Option<Self>, Failure> {
        let own = manifest.parameters.iter().any(|parameter| parameter.name == PARAMETER);
        let at = sent.iter().position(|(name, _)| !own && name == PARAMETER);
        match at.map(|at| sent.remove(at).1) {
            Some(name) if !name.is_empty() => match Self::named(&name) {
                Some(format) => Ok(Some(format)),
                None => {
                    let names = Self::ALL.map(Self::name).join(", ");
                    let message = format!("parameter '{PARAMETER}' names no format; allowed are {names}");
                    Err(Failure::new(Code::InvalidParameter, message).about(PARAMETER))
                }
            },
            _ => Ok(None),
        }
    }

    /// Finds a format by its name, without regard to case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }
}
