//! Compiled code on disk, so that a restart does not compile again.
//!
//! Loading machine code means trusting it. So a file is used only if it carries a message authentication code under the
//! server's own key. A file that fails the check, or was made by another engine version or configuration, is ignored
//! and replaced. wasmtime's own cache is not authenticated. And files are not mapped, because a mapped file could
//! change after the check: the bytes that were checked are the bytes that are loaded.

use std::collections::HashSet;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

/// The first bytes of an artefact file. The number is the version of this format.
const HEADER: &[u8; 16] = b"tidegate-aot-01\n";
const MAC_BYTES: usize = 32;
/// How long code is kept that this server cannot use.
const ANOTHER: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where compiled code is kept, and the key that authenticates it.
#[derive(Clone)]
pub struct ArtefactOptions {
    /// The folder. Created with mode 0700 if it does not exist. Everything in it can be made again.
    pub folder: PathBuf,
    /// A secret of this server. With another key everything is compiled again.
    pub key: [u8; 32],
}

impl std::fmt::Debug for ArtefactOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArtefactOptions").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// The folder of artefacts of one engine.
#[derive(Debug)]
pub(crate) struct Artefacts {
    options: ArtefactOptions,
    compatibility: [u8; 32],
}

impl Artefacts {
    pub(crate) fn open(options: ArtefactOptions, engine: &Engine) -> io::Result<Self> {
        private_folder(&options.folder)?;
        Ok(Self { options, compatibility: compatibility(engine) })
    }

    /// The component with this digest, if there is an artefact that can be trusted.
    pub(crate) fn load(&self, engine: &Engine, digest: &[u8; 32]) -> Option<Component> {
        let path = self.path(digest);
        let file = match fs::read(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled code cannot be read");
                return None;
            }
        };
        let Some(code) = self.authentic(&file, digest) else {
            tracing::warn!(path = %path.display(), "compiled code is not from this server; compiling again");
            return None;
        };
        match trusted::component(engine, code) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), error = ?error, "compiled code does not fit; compiling again");
                None
            }
        }
    }

    /// Stores compiled code. A failure is logged and does not fail the request.
    pub(crate) fn store(&self, digest: &[u8; 32], code: &[u8]) {
        let path = self.path(digest);
        if let Err(error) = self.write(&path, digest, code) {
            tracing::warn!(path = %path.display(), %error, "compiled code cannot be kept");
        }
    }

    /// Removes the compiled code of a component, if there is any.
    pub(crate) fn remove(&self, digest: &[u8; 32]) {
        let path = self.path(digest);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "compiled code cannot be removed");
        }
    }

    /// Removes compiled code that was made `before`, unless its component is `live`, and unfinished files. Code of
    /// another engine is removed after [`ANOTHER`], because during an upgrade the server of the other version may still
    /// run. Files that cannot be removed stay.
    pub(crate) fn sweep(&self, live: &HashSet<[u8; 32]>, before: SystemTime) -> usize {
        let live: HashSet<PathBuf> = live.iter().map(|digest| self.path(digest)).collect();
        let own = self.path(&[0; 32]);
        let own = own.to_string_lossy();
        let own = own.rsplit('-').next().unwrap_or_default();
        let long_ago = before.checked_sub(ANOTHER).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_stale = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let made = fs::metadata(path).and_then(|file| file.modified());
            let older = |than: SystemTime| made.as_ref().is_ok_and(|made| *made < than);
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("cwasm") if name.ends_with(own) => !live.contains(path) && older(before),
                Some("cwasm" | "tmp") => older(long_ago),
                // Not a file of this module.
                _ => false,
            }
        };
        let files = fs::read_dir(&self.options.folder).into_iter().flatten().flatten().map(|file| file.path());
        files.filter(|path| is_stale(path) && fs::remove_file(path).is_ok()).count()
    }

    fn write(&self, path: &Path, digest: &[u8; 32], code: &[u8]) -> io::Result<()> {
        let mac = self.mac(digest, code).ok_or_else(|| io::Error::other("no key"))?;
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut file = private_file(&temporary)?;
        file.write_all(HEADER)?;
        file.write_all(&mac.finalize().into_bytes())?;
        file.write_all(code)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }

    fn path(&self, digest: &[u8; 32]) -> PathBuf {
        // The name contains the compatibility hash, so that two versions of the server do not replace each other's
        // files during an upgrade.
        let compatibility = self.compatibility.get(..8).unwrap_or_default();
        self.options.folder.join(format!("{}-{}.cwasm", hex::encode(digest), hex::encode(compatibility)))
    }

    /// The code in `file`, if its message authentication code is right.
    fn authentic<'a>(&self, file: &'a [u8], digest: &[u8; 32]) -> Option<&'a [u8]> {
        let (mac, code) = file.strip_prefix(HEADER.as_slice())?.split_at_checked(MAC_BYTES)?;
        self.mac(digest, code)?.verify_slice(mac).ok()?;
        Some(code)
    }

    fn mac(&self, digest: &[u8; 32], code: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.options.key).ok()?;
        mac.update(HEADER);
        mac.update(digest);
        mac.update(&self.compatibility);
        mac.update(code);
        Some(mac)
    }
}

/// A hash of the engine version and configuration. Code runs only on an engine with the same hash.
pub(crate) fn compatibility(engine: &Engine) -> [u8; 32] {
    let mut hasher = ShaHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.finalize().into()
}

/// The only place where bytes become machine code.
pub(crate) mod trusted {
    #![expect(unsafe_code, reason = "loading compiled code is unsafe by nature; the callers know who made it")]

    use wasmtime::Engine;
    use wasmtime::component::Component;

    /// Loads what this server compiled.
    pub(crate) fn component(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
        // SAFETY: `code` is what this program's own compiler made, unchanged: it came through a pipe
        // from the process that this one started for it, or it carries a message authentication
        // code under the server's secret, checked over these very bytes.
        unsafe { Component::deserialize(engine, code) }
    }
}

/// Feeds a `Hash` into SHA-256: the standard hasher may change between Rust versions.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
    }
}

fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        builder.mode(0o700).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
    }
    #[cfg(not(unix))]
    builder.create(folder)
}

fn private_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}
