//! The result of a command.

use std::error::Error;

/// Nothing, or an error whose text is for the person at the terminal.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;
