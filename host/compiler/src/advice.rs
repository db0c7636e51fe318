//! The likely reason for an import that endpoints do not get. A refusal names it, because the import alone tells an
//! author little: it mostly comes from an indirect dependency.

/// The likely reason for an import of the system interface, and what to do instead.
pub(crate) fn of_wasi(import: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| import.contains(word));
    if has(&["random"]) {
        "the crate getrandom asks for it, below rand or uuid with the feature v4: leave that feature out"
    } else if has(&["clock", "timezone"]) {
        "std::time asks for it, or chrono with the feature clock or now: the time of a request is its received_at()"
    } else if has(&["environ", "environment", "args"]) {
        "std::env asks for it: an endpoint is told everything as parameters"
    } else if has(&["sock", "tcp", "udp", "ip-name", "http"]) {
        "a client of a network asks for it: an endpoint reads its granted tables and nothing else"
    } else if has(&["path_", "fd_prestat", "filesystem", "preopens"]) {
        "std::fs asks for it: put what the endpoint needs into the program with include_str!"
    } else if has(&["fd_", "stdout", "stderr", "stdin", "terminal"]) {
        "println! or eprintln! asks for it: lines for the operator go out with record_line"
    } else if has(&["exit"]) {
        "std::process::exit asks for it: return a Problem instead"
    } else {
        "the standard library of a WASI target asks for it, used or not"
    }
}

/// The same for the import of a core module, by the name of its module; `None` if it is not a known one.
pub(crate) fn of_foreign(module: &str) -> Option<&'static str> {
    if module.starts_with("__wbindgen") || module.starts_with("wbg") {
        return Some(
            "a crate was told that it runs in a browser: leave out getrandom's wasm_js or js, uuid's js, chrono's wasmbind, and web-time",
        );
    }
    (module == "env").then_some(
        "a function is declared and nowhere defined: likely C code of a crate, which needs a crate in Rust instead",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_reason_is_told() {
        for (import, word) in [
            ("wasi_snapshot_preview1.random_get", "getrandom"),
            ("wasi:clocks/wall-clock@0.2.0", "chrono"),
            ("wasi:cli/environment@0.2.0", "std::env"),
            ("wasi_snapshot_preview1.fd_write", "println!"),
            ("wasi:filesystem/types@0.2.0", "std::fs"),
            ("wasi_snapshot_preview1.path_open", "std::fs"),
            ("wasi:sockets/tcp@0.2.0", "network"),
            ("wasi_snapshot_preview1.proc_exit", "Problem"),
            ("wasi:io/poll@0.2.0", "standard library"),
        ] {
            assert!(of_wasi(import).contains(word), "{import}: {}", of_wasi(import));
        }
        assert!(of_foreign("__wbindgen_placeholder__").is_some_and(|told| told.contains("wasm_js")));
        assert_eq!(of_foreign("tidegate:endpoint/log@0.1.0"), None);
    }
}
