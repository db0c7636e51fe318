//! What the library knows: the root, the file of the record, and which operations are to fail.
//!
//! Only system calls are used here, because the functions of the C library are replaced by this library itself.

use std::{
    ffi::{CStr, c_char, c_int, c_long},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use libc::{SYS_fstat, SYS_openat, SYS_readlinkat, SYS_write, syscall};

use crate::record;

/// What was found in the environment.
#[derive(Debug)]
pub(crate) struct State {
    root: Vec<u8>,
    file: Option<c_int>,
    faults: Option<Faults>,
    counters: Mutex<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    operations: u64,
    syncs: u64,
}

/// Which operations fail.
#[derive(Debug)]
struct Faults {
    from: u64,
    to: u64,
    how: Fault,
    kinds: Vec<u8>,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// With this error.
    Error(c_int),
    /// Half of what should be written is written.
    Short,
}

/// A file or folder below the root.
#[derive(Debug)]
pub(crate) struct Place {
    /// Relative to the root.
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u64,
    pub(crate) size: u64,
}

/// Operations in their order. While this is held, no other one takes effect.
#[derive(Debug)]
pub(crate) struct Turn<'s> {
    state: &'s State,
    counters: MutexGuard<'s, Counters>,
}

/// The state, unless the environment names no root.
pub(crate) fn state() -> Option<&'static State> {
    static STATE: OnceLock<Option<State>> = OnceLock::new();
    STATE.get_or_init(State::from_environment).as_ref()
}

fn variable(name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: the name ends with a zero byte, and the result is copied before anything can change it.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes().to_vec())
    }
}

pub(crate) fn set_error(error: c_int) {
    // SAFETY: the address of the error number of this thread is always valid.
    unsafe { *libc::__errno_location() = error };
}

pub(crate) fn last_error() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

impl State {
    fn from_environment() -> Option<State> {
        let root = variable(c"TIDEGATE_RECORDER_ROOT")?;
        let file = variable(c"TIDEGATE_RECORDER_FILE").and_then(|mut path| {
            path.push(0);
            let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
            // SAFETY: the path ends with a zero byte.
            let file = unsafe { syscall(SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600) };
            c_int::try_from(file).ok().filter(|file| *file >= 0)
        });
        let faults = variable(c"TIDEGATE_RECORDER_FAIL").and_then(|text| Faults::parse(&String::from_utf8(text).ok()?));
        Some(State { root, file, faults, counters: Mutex::default() })
    }

    /// The path below the root, if the absolute path is one.
    fn below(&self, absolute: &[u8]) -> Option<Vec<u8>> {
        match absolute.strip_prefix(self.root.as_slice())? {
            [] => Some(Vec::new()),
            [b'/', rest @ ..] => Some(rest.strip_suffix(b"/").unwrap_or(rest).to_vec()),
            _ => None,
        }
    }

    /// The path below the root of a path that a function was given, with the folder that it is relative to.
    ///
    /// # Safety
    /// The path ends with a zero byte.
    pub(crate) unsafe fn path(&self, folder: c_int, path: *const c_char) -> Option<Vec<u8>> {
        if path.is_null() {
            return None;
        }
        // SAFETY: the caller says so.
        let path = unsafe { CStr::from_ptr(path) }.to_bytes();
        if path.first() == Some(&b'/') {
            return self.below(path);
        }
        let mut absolute = if folder == libc::AT_FDCWD { link_target("/proc/self/cwd\0")? } else { target_of(folder)? };
        absolute.push(b'/');
        absolute.extend(path);
        self.below(&absolute)
    }

    /// The place of an open file, if it is below the root.
    pub(crate) fn place(&self, file: c_int) -> Option<Place> {
        let target = target_of(file)?;
        let path = self.below(&target)?;
        let (inode, size) = inode_and_size(file)?;
        Some(Place { path, inode, size })
    }

    pub(crate) fn turn(&self) -> Turn<'_> {
        Turn { state: self, counters: self.counters.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Turn<'_> {
    /// Counts an operation; says how it is to fail, if it is.
    pub(crate) fn fault(&mut self, tag: u8, path: &[u8]) -> Option<Fault> {
        let faults = self.state.faults.as_ref()?;
        if !faults.kinds.is_empty() && !faults.kinds.contains(&tag) {
            return None;
        }
        self.counters.operations += 1;
        if !(faults.from..faults.to).contains(&self.counters.operations) {
            return None;
        }
        match faults.how {
            Fault::Short => (tag == record::WRITE).then_some(Fault::Short),
            Fault::Error(error) => {
                self.failed(tag, path, error);
                Some(Fault::Error(error))
            }
        }
    }

    /// Appends an entry to the record.
    pub(crate) fn record(&self, tag: u8, numbers: &[u64], bytes: &[&[u8]]) {
        let Some(file) = self.state.file else { return };
        let entry = record::entry(tag, numbers, bytes);
        let kept = last_error();
        // SAFETY: the buffer is as long as said.
        unsafe { syscall(SYS_write, file, entry.as_ptr(), entry.len()) };
        set_error(kept);
    }

    /// Records that an operation failed.
    pub(crate) fn failed(&self, tag: u8, path: &[u8], error: c_int) {
        self.record(record::FAILED, &[u64::from(error.unsigned_abs())], &[&[tag], path]);
    }

    pub(crate) fn next_sync(&mut self) -> u64 {
        self.counters.syncs += 1;
        // Several processes may write to one record.
        (u64::from(std::process::id()) << 32) + self.counters.syncs
    }
}

impl Faults {
    fn parse(text: &str) -> Option<Faults> {
        let mut parts = text.split(':');
        let (from, to) = parts.next()?.split_once("..")?;
        let how = match parts.next()? {
            "short" => Fault::Short,
            error => Fault::Error(error.parse().ok()?),
        };
        let kinds = parts.next().unwrap_or_default().as_bytes().to_vec();
        Some(Faults { from: from.parse().ok()?, to: to.parse().ok()?, how, kinds })
    }
}

/// Inode and length of an open file.
fn inode_and_size(file: c_int) -> Option<(u64, u64)> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the system fills the structure; zeros are valid too.
    let stat = unsafe { (syscall(SYS_fstat, file, stat.as_mut_ptr()) == 0).then(|| stat.assume_init()) }?;
    Some((stat.st_ino, stat.st_size.unsigned_abs()))
}

/// What an open file is called now.
fn target_of(file: c_int) -> Option<Vec<u8>> {
    link_target(&format!("/proc/self/fd/{file}\0"))
}

/// The target of a symbolic link whose path ends with a zero byte.
fn link_target(path: &str) -> Option<Vec<u8>> {
    let mut target = vec![0; 4096];
    let kept = last_error();
    // SAFETY: the path ends with a zero byte, and the buffer is as long as said.
    let length: c_long =
        unsafe { syscall(SYS_readlinkat, libc::AT_FDCWD, path.as_ptr(), target.as_mut_ptr(), target.len()) };
    set_error(kept);
    target.truncate(usize::try_from(length).ok()?);
    Some(target)
}
