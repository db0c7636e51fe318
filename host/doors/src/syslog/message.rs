//! The parts of a syslog message, whatever its format.

use std::borrow::Cow;

use super::structured_data::StructuredData;

const SEVERITIES: [&str; 8] = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug"];

/// The parts of a message. What the message does not have is none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message<'m> {
    /// Eight times the facility, and the severity.
    pub(crate) priority: Option<u8>,
    /// The time as the store reads it.
    pub(crate) time: Option<Cow<'m, str>>,
    pub(crate) hostname: Option<&'m str>,
    pub(crate) app_name: Option<&'m str>,
    pub(crate) proc_id: Option<&'m str>,
    pub(crate) msg_id: Option<&'m str>,
    pub(crate) data: StructuredData<'m>,
    pub(crate) text: &'m str,
}

impl Message<'_> {
    /// The number of the facility: 0 is the kernel, 16 to 23 are local.
    pub(crate) fn facility(&self) -> Option<u8> {
        self.priority.map(|priority| priority >> 3)
    }

    /// The number of the severity: 0 is the most severe, 7 the least.
    pub(crate) fn severity(&self) -> Option<u8> {
        self.priority.map(|priority| priority & 7)
    }

    /// The name of the severity.
    pub(crate) fn level(&self) -> Option<&'static str> {
        self.severity().and_then(|severity| SEVERITIES.get(usize::from(severity)).copied())
    }
}

/// The priority in `<...>`, and what follows.
pub(crate) fn priority(message: &str) -> Option<(u8, &str)> {
    let (digits, rest) = message.strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let priority = digits.parse().ok().filter(|priority| is_number && *priority < 192)?;
    Some((priority, rest))
}

/// The text of a message without what belongs to its framing: the mark of UTF-8 and the end of the line.
pub(crate) fn bare(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text).trim_end_matches(['\n', '\r', '\0'])
}
