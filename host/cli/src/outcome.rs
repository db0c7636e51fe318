//! The result of a command.

use std::error::Error;

/// Success, or an error whose text is written for the user at the terminal.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;
