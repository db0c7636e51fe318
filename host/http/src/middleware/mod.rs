//! The middleware: what all routes share around their handlers.

pub(crate) mod await_key;
pub(crate) mod body_timeout;
pub(crate) mod close_unread;
pub(crate) mod compression;
pub(crate) mod counting;
pub(crate) mod error_status;
pub(crate) mod request_log;
