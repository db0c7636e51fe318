//! Certificates in files, for the HTTP interface, for syslog, and between servers and workers.
//!
//! Certificates are replaced every few weeks, by programs that know nothing of the service. So the service checks their
//! files periodically, and uses changed ones for new connections; open connections keep the certificate that they
//! started with. Files that cannot be used change nothing: the log says why, and the previous certificate stays in use.
//! Files are compared by content, because not all file systems and programs update modification times and links
//! reliably.
//!
//! The files, each of which uses only those before it: `error`, `files` (what they have), `configs` (what is made of it),
//! `reloaded`. `handshake` (why one failed) stands alone.

mod configs;
mod error;
mod files;
mod handshake;
mod reloaded;

pub use error::TlsError;
pub use files::TlsFiles;
pub use handshake::handshake_failure;
pub use reloaded::{ClientTls, Reloaded, ServerTls};
