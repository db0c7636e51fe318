//! The files and what they have.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::TlsError;

/// The longest file that is read, in bytes. A chain of certificates takes some kilobytes.
const MAX_FILE: u64 = 1 << 20;

/// The paths of the files, and what they are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that signed it, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM, not encrypted.
    pub key: PathBuf,
    /// The certificates that sign those of the other side. If a server has them, each client must have a certificate; a
    /// client always needs them.
    pub authority: Option<PathBuf>,
    /// The protocols above TLS that are negotiated.
    pub protocols: &'static [&'static str],
    /// How many tickets for shorter handshakes a server sends at the beginning of a connection (TLS 1.3).
    pub tickets: usize,
}

/// The contents of the files.
#[derive(Clone)]
pub(crate) struct Contents {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) authority: Option<Vec<u8>>,
}

impl std::fmt::Debug for Contents {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contents").finish_non_exhaustive()
    }
}

impl Contents {
    pub(crate) fn digest(&self) -> [u8; 32] {
        let (certificate, key) = (Sha256::digest(&self.certificate), Sha256::digest(&self.key));
        let authority = self.authority.as_deref().unwrap_or_default();
        Sha256::new().chain_update(certificate).chain_update(key).chain_update(authority).finalize().into()
    }
}

impl TlsFiles {
    pub(crate) fn read(&self) -> Result<Contents, TlsError> {
        let authority = self.authority.as_deref().map(read).transpose()?;
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)?, authority })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    // Reading something that is not a file, such as a named pipe, could block for ever.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::Error::other("it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if tidegate_model::number(bytes.len()) > MAX_FILE {
        return Err(unreadable(std::io::Error::other("it is too long for a certificate or a key")));
    }
    Ok(bytes)
}
