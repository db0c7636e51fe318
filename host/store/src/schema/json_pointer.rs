//! JSON pointers (RFC 6901): `/key/key`, with `~` written as `~0` and `/` as `~1`.

/// Appends one step to a JSON pointer.
pub(crate) fn push_pointer(pointer: &mut String, key: &str) {
    pointer.push('/');
    for c in key.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

/// The key behind one step of a JSON pointer.
pub(crate) fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}
