//! The functions of the C library that are replaced.
//!
//! `open` and `openat` are variadic in C. On the platforms of Linux a variadic integer is passed like any other, so
//! that they can be defined with the mode as an ordinary argument.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{
    AT_FDCWD, SYS_fcntl, SYS_fdatasync, SYS_fsync, SYS_ftruncate, SYS_linkat, SYS_lseek, SYS_mkdirat, SYS_openat,
    SYS_pwrite64, SYS_renameat2, SYS_unlinkat, SYS_write, SYS_writev, iovec, mode_t, off_t, size_t, ssize_t, syscall,
};

use crate::{
    record::{CUT, LINK, MAKE_FOLDER, OPEN, REMOVE_FOLDER, RENAME, SYNC_BEGIN, SYNC_END, UNKNOWN, UNLINK, WRITE},
    state::{Fault, Place, State, Turn, last_error, set_error, state},
};

/// The result of a system call as the C library returns it.
fn result(done: c_long) -> c_int {
    c_int::try_from(done).unwrap_or(-1)
}

/// Lets an operation fail if that is its turn.
macro_rules! fail_in_turn {
    ($turn:expr, $tag:expr, $path:expr) => {
        if let Some(Fault::Error(error)) = $turn.fault($tag, $path) {
            set_error(error);
            return -1;
        }
    };
}

unsafe fn open_at(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are those of the caller, here and in all functions below.
    let open = || unsafe { syscall(SYS_openat, folder, path, flags, mode) };
    let writes = flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) != 0;
    let Some(state) = state().filter(|_| writes) else { return result(open()) };
    // SAFETY: as above.
    let Some(below) = (unsafe { state.path(folder, path) }) else { return result(open()) };
    let mut turn = state.turn();
    fail_in_turn!(turn, OPEN, &below);
    let file = result(open());
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        turn.record(UNKNOWN, &[], &[b"open without a name"]);
    }
    match state.place(file) {
        Some(place) => turn.record(OPEN, &[place.inode, u64::from(flags & libc::O_TRUNC != 0)], &[&below]),
        None => turn.failed(OPEN, &below, last_error()),
    }
    file
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    unsafe { open_at(AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    unsafe { open_at(AT_FDCWD, path, flags, mode) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    unsafe { open_at(folder, path, flags, mode) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    unsafe { open_at(folder, path, flags, mode) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    unsafe { open_at(AT_FDCWD, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

/// Where the next write to an open file goes.
fn position(file: c_int, place: &Place) -> u64 {
    // SAFETY: plain numbers.
    unsafe {
        if syscall(SYS_fcntl, file, libc::F_GETFL) & c_long::from(libc::O_APPEND) != 0 {
            return place.size;
        }
        syscall(SYS_lseek, file, 0, libc::SEEK_CUR).unsigned_abs()
    }
}

/// Writes to a file below the root; at its position if there is no offset.
unsafe fn write_at(
    state: &State,
    place: &Place,
    file: c_int,
    bytes: *const c_void,
    length: size_t,
    offset: Option<off_t>,
) -> ssize_t {
    let mut turn = state.turn();
    let fault = turn.fault(WRITE, &place.path);
    if let Some(Fault::Error(error)) = fault {
        set_error(error);
        return -1;
    }
    let length = if fault == Some(Fault::Short) && length > 1 { length / 2 } else { length };
    let begin = offset.map_or_else(|| position(file, place), i64::unsigned_abs);
    let done = unsafe {
        match offset {
            Some(offset) => syscall(SYS_pwrite64, file, bytes, length, offset),
            None => syscall(SYS_write, file, bytes, length),
        }
    };
    match usize::try_from(done) {
        Ok(written) => {
            // SAFETY: so many bytes of it were written.
            let written = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), written) };
            turn.record(WRITE, &[place.inode, begin], &[written]);
        }
        Err(_) => turn.failed(WRITE, &place.path, last_error()),
    }
    done as ssize_t
}

/// The state and the place of an open file, if it is below the root.
fn ours(file: c_int) -> Option<(&'static State, Place)> {
    let state = state()?;
    Some((state, state.place(file)?))
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(file: c_int, bytes: *const c_void, length: size_t) -> ssize_t {
    match ours(file) {
        Some((state, place)) => unsafe { write_at(state, &place, file, bytes, length, None) },
        None => unsafe { syscall(SYS_write, file, bytes, length) as ssize_t },
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(file: c_int, bytes: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    match ours(file) {
        Some((state, place)) => unsafe { write_at(state, &place, file, bytes, length, Some(offset)) },
        None => unsafe { syscall(SYS_pwrite64, file, bytes, length, offset) as ssize_t },
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(file: c_int, bytes: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    unsafe { pwrite(file, bytes, length, offset) }
}

/// Of several buffers the first that is not empty is written: callers have to expect short writes.
///
/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(file: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let Some((state, place)) = ours(file) else {
        return unsafe { syscall(SYS_writev, file, parts, count) as ssize_t };
    };
    let parts = unsafe { std::slice::from_raw_parts(parts, usize::try_from(count).unwrap_or(0)) };
    match parts.iter().find(|part| part.iov_len > 0) {
        Some(part) => unsafe { write_at(state, &place, file, part.iov_base, part.iov_len, None) },
        None => 0,
    }
}

/// Refuses a way of writing that is not recorded, so that the caller takes an ordinary one.
fn refuse(file: c_int) -> bool {
    let refused = ours(file).is_some();
    if refused {
        set_error(libc::ENOSYS);
    }
    refused
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: c_uint,
) -> ssize_t {
    if refuse(to) {
        return -1;
    }
    unsafe { syscall(libc::SYS_copy_file_range, from, from_offset, to, to_offset, length, flags) as ssize_t }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t {
    if refuse(to) {
        return -1;
    }
    unsafe { syscall(libc::SYS_sendfile, to, from, offset, length) as ssize_t }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, length: size_t) -> ssize_t {
    unsafe { sendfile64(to, from, offset, length) }
}

fn unknown(file: c_int, name: &str) {
    if let Some((state, _)) = ours(file) {
        state.turn().record(UNKNOWN, &[], &[name.as_bytes()]);
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate64(file: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    unknown(file, "fallocate");
    result(unsafe { syscall(libc::SYS_fallocate, file, mode, offset, length) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fallocate(file: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    unsafe { fallocate64(file, mode, offset, length) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate(file: c_int, length: off_t) -> c_int {
    let cut = || unsafe { syscall(SYS_ftruncate, file, length) };
    let Some((state, place)) = ours(file) else { return result(cut()) };
    let mut turn = state.turn();
    fail_in_turn!(turn, CUT, &place.path);
    let done = result(cut());
    match done {
        0 => turn.record(CUT, &[place.inode, length.unsigned_abs()], &[]),
        _ => turn.failed(CUT, &place.path, last_error()),
    }
    done
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(file: c_int, length: off_t) -> c_int {
    unsafe { ftruncate(file, length) }
}

/// The lock is not held during the sync: it covers what was written before its begin.
fn synced(file: c_int, sync: impl FnOnce() -> c_long) -> c_int {
    let Some((state, place)) = ours(file) else { return result(sync()) };
    let mut turn = state.turn();
    let number = turn.next_sync();
    let fault = turn.fault(SYNC_BEGIN, &place.path);
    turn.record(SYNC_BEGIN, &[number, place.inode], &[]);
    drop(turn);
    let done = match fault {
        Some(Fault::Error(error)) => {
            set_error(error);
            -1
        }
        _ => result(sync()),
    };
    state.turn().record(SYNC_END, &[number, u64::from(done == 0)], &[]);
    done
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(file: c_int) -> c_int {
    synced(file, || unsafe { syscall(SYS_fsync, file) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(file: c_int) -> c_int {
    synced(file, || unsafe { syscall(SYS_fdatasync, file) })
}

/// Does and records an operation on two paths.
unsafe fn on_two(tag: u8, from: (c_int, *const c_char), to: (c_int, *const c_char), act: impl Fn() -> c_long) -> c_int {
    let Some(state) = state() else { return result(act()) };
    let (a, b) = unsafe { (state.path(from.0, from.1), state.path(to.0, to.1)) };
    let (Some(a), Some(b)) = (a, b) else { return result(act()) };
    let mut turn = state.turn();
    fail_in_turn!(turn, tag, &a);
    let done = result(act());
    finish(&turn, done, tag, &[], &[&a, b"\0", &b]);
    done
}

/// Does and records an operation on a path.
unsafe fn on_one(tag: u8, folder: c_int, path: *const c_char, act: impl Fn() -> c_long) -> c_int {
    let Some(state) = state() else { return result(act()) };
    let Some(below) = (unsafe { state.path(folder, path) }) else { return result(act()) };
    let mut turn = state.turn();
    fail_in_turn!(turn, tag, &below);
    let done = result(act());
    finish(&turn, done, tag, &[], &[&below]);
    done
}

fn finish(turn: &Turn<'_>, done: c_int, tag: u8, numbers: &[u64], bytes: &[&[u8]]) {
    match done {
        0 => turn.record(tag, numbers, bytes),
        _ => turn.failed(tag, bytes.first().copied().unwrap_or_default(), last_error()),
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    let act = || unsafe { syscall(SYS_renameat2, from_folder, from, to_folder, to, flags) };
    unsafe { on_two(RENAME, (from_folder, from), (to_folder, to), act) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    unsafe { renameat2(from_folder, from, to_folder, to, 0) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    unsafe { renameat2(AT_FDCWD, from, AT_FDCWD, to, 0) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let act = || unsafe { syscall(SYS_linkat, from_folder, from, to_folder, to, flags) };
    unsafe { on_two(LINK, (from_folder, from), (to_folder, to), act) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    unsafe { linkat(AT_FDCWD, from, AT_FDCWD, to, 0) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    let tag = if flags & libc::AT_REMOVEDIR == 0 { UNLINK } else { REMOVE_FOLDER };
    unsafe { on_one(tag, folder, path, || syscall(SYS_unlinkat, folder, path, flags)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    unsafe { unlinkat(AT_FDCWD, path, 0) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    unsafe { unlinkat(AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdirat(folder: c_int, path: *const c_char, mode: mode_t) -> c_int {
    let make = || unsafe { syscall(SYS_mkdirat, folder, path, mode) };
    let Some(state) = state() else { return result(make()) };
    let Some(below) = (unsafe { state.path(folder, path) }) else { return result(make()) };
    let mut turn = state.turn();
    fail_in_turn!(turn, MAKE_FOLDER, &below);
    let done = result(make());
    let kept = last_error();
    // The inode is that of the folder when it is opened.
    let opened = unsafe { syscall(SYS_openat, folder, path, libc::O_DIRECTORY | libc::O_CLOEXEC, 0) };
    let inode = state.place(result(opened)).map_or(0, |place| place.inode);
    if opened >= 0 {
        unsafe { syscall(libc::SYS_close, opened) };
    }
    set_error(kept);
    finish(&turn, done, MAKE_FOLDER, &[inode], &[&below]);
    done
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    unsafe { mkdirat(AT_FDCWD, path, mode) }
}
