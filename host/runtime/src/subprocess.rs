//! Compiling in a subprocess.
//!
//! The author of a component decides how much time and memory compiling it takes, and a running compiler cannot be
//! stopped from within. So the server has each component compiled by a process of its own. The process can be killed,
//! the operating system limits what it uses, and if it crashes, nothing else does. Both sides are in this file:
//! [`compile_in_subprocess`] starts the process and waits for it, [`compile_alone`] is what runs in it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use wasmtime::Engine;

use crate::artefacts::compatibility;
use crate::engine::compiling_engine;
use crate::error::RuntimeError;
use crate::wit_convert::shorten;

/// The most bytes of compiled code that are accepted. Compiled code is several times as large as the component.
const MOST_CODE: u64 = 512 << 20;
/// The most bytes that are read of the standard error of the process.
const MOST_WORDS: u64 = 16 << 10;
/// The longest reason that is passed on, in bytes.
const MOST_REASON: usize = 2048;
/// The interval at which the process is polled.
const LOOK: Duration = Duration::from_millis(2);

/// Where components are compiled.
#[derive(Debug, Clone, Default)]
pub enum Compilation {
    /// In this process. For tools whose user wrote the component and can stop the tool.
    #[default]
    Here,
    /// In a subprocess for each component.
    Subprocess(CompileCommand),
}

/// A program that reads a component from standard input, calls [`compile_alone`] and writes the result to standard
/// output. Its exit status is 0, or another one with the reason on standard error.
#[derive(Debug, Clone)]
pub struct CompileCommand {
    /// The program. It gets an empty environment and `/` as its working directory.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How long it may take. Then it is killed, and the component is refused.
    pub time: Duration,
}

/// Compiles a component under the engine's configuration. This is what runs in the process of
/// [`Compilation::Subprocess`].
///
/// # Errors
/// The component cannot be compiled.
pub fn compile_alone(component: &[u8]) -> Result<Vec<u8>, RuntimeError> {
    let engine = compiling_engine().map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
    if Engine::detect_precompiled(component).is_some() {
        return Err(RuntimeError::Refused { reason: "it is precompiled machine code".to_owned() });
    }
    let code = engine
        .precompile_component(component)
        .map_err(|error| RuntimeError::Refused { reason: format!("{error:#}") })?;
    Ok([compatibility(&engine).as_slice(), &code].concat())
}

/// Has a component compiled in a subprocess. `expected` is the compatibility hash of the engine that will run the code.
/// Blocks until the process has ended or was killed.
///
/// # Errors
/// The component cannot be compiled, or not in time. The process cannot be started, or is of another build.
pub(crate) fn compile_in_subprocess(
    command: &CompileCommand,
    component: &[u8],
    expected: &[u8; 32],
) -> Result<Vec<u8>, RuntimeError> {
    let failed = |error: io::Error| RuntimeError::Engine(format!("the compiler cannot be run: {error}"));
    let refused = |reason: String| RuntimeError::Refused { reason };
    let process = Command::new(&command.program)
        .args(&command.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut process = Process(process.map_err(failed)?);
    let (input, output, words) = (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
    let (ended, code, words) = std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("tidegate-compile".to_owned());
        // A process that does not read all of its input says why on standard error.
        let feed = move || input.map(|mut input| input.write_all(component));
        thread().spawn_scoped(scope, feed)?;
        let code = thread().spawn_scoped(scope, move || read(output, MOST_CODE))?;
        let words = thread().spawn_scoped(scope, move || read(words, MOST_WORDS))?;
        let ended = process.wait_for(command.time);
        // In any case its ends of the pipes are closed from here on.
        process.kill();
        let joined = |thread: std::thread::ScopedJoinHandle<'_, io::Result<Vec<u8>>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that reads broke off")))
        };
        Ok((ended?, joined(code)?, joined(words)?))
    })
    .map_err(failed)?;
    let Some(status) = ended else {
        tracing::warn!(limit = ?command.time, bytes = component.len(), "a component took too long to compile");
        let time = command.time.as_secs_f64();
        return Err(refused(format!(
            "compiling it takes longer than {time} s; split large functions, or build it smaller (opt-level \"s\", lto)"
        )));
    };
    let words = String::from_utf8_lossy(&words);
    let words = shorten(words.trim(), MOST_REASON);
    if !status.success() {
        tracing::warn!(%status, reason = words, bytes = component.len(), "a component was not compiled");
        return Err(match status.code() {
            Some(_) if !words.is_empty() => refused(words.to_owned()),
            _ => refused("the compiler did not survive it: it needs more time or memory than it may have".to_owned()),
        });
    }
    match code.split_first_chunk::<32>() {
        Some((made_by, code)) if made_by == expected => Ok(code.to_vec()),
        _ => {
            Err(RuntimeError::Engine("the compiler is of another build than the server; restart the server".to_owned()))
        }
    }
}

fn read(from: Option<impl Read>, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        from.by_ref().take(most).read_to_end(&mut bytes)?;
        // The rest is ignored. It is read nevertheless, because a full pipe would block the writer.
        io::copy(&mut from, &mut io::sink())?;
    }
    Ok(bytes)
}

/// A process that is killed on drop.
struct Process(Child);

impl Process {
    /// Its exit status; `None` if the time was over first.
    fn wait_for(&mut self, time: Duration) -> io::Result<Option<ExitStatus>> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            if began.elapsed() >= time {
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn kill(&mut self) {
        // Both calls fail if it has ended already and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::engine::engine;

    fn by(script: &str, time: Duration) -> CompileCommand {
        let arguments = ["-c", script].map(OsString::from).to_vec();
        CompileCommand { program: "/bin/sh".into(), arguments, time }
    }

    fn compile(script: &str) -> Result<Vec<u8>, String> {
        let command = by(script, Duration::from_secs(60));
        compile_in_subprocess(&command, &vec![7; 1 << 20], b"the very build that this was for")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_compiled_apart_fits_the_engine_that_runs_it() {
        let (runs, _) = engine(2, 1 << 20, false).unwrap();
        assert_eq!(compatibility(&compiling_engine().unwrap()), compatibility(&runs));
        let component = tidegate_compiler::compile_adhoc().unwrap();
        let made = compile_alone(&component).unwrap();
        let (made_by, code) = made.split_first_chunk::<32>().unwrap();
        assert_eq!(made_by, &compatibility(&runs));
        crate::artefacts::trusted::component(&runs, code).unwrap();
        assert!(compile_alone(code).unwrap_err().to_string().contains("precompiled"));
        assert!(matches!(compile_alone(b"\0asm\r\0\x01\0junk"), Err(RuntimeError::Refused { .. })));
    }

    #[test]
    fn what_a_compiler_says_is_passed_on_and_what_it_does_not_is_worded() {
        let code = compile("cat > /dev/null; printf 'the very build that this was forcode'");
        assert_eq!(code.unwrap(), b"code");
        for (script, words) in [
            ("echo 'function 7 is odd' >&2; exit 1", "function 7 is odd"),
            ("cat > /dev/null; kill -KILL $$", "did not survive it"),
            ("exit 3", "did not survive it"),
            ("cat", "another build"),
            ("printf short", "another build"),
            ("printf 'the very build that this was forcode'; exit 1", "did not survive it"),
            ("head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 1", "xxx"),
        ] {
            let refused = compile(script).unwrap_err();
            assert!(refused.contains(words) && refused.len() < MOST_REASON + 100, "{script}: {refused}");
        }
        let missing = CompileCommand { program: "/no/such/program".into(), ..by("", Duration::ZERO) };
        assert!(matches!(compile_in_subprocess(&missing, b"", &[0; 32]), Err(RuntimeError::Engine(_))));
    }

    #[test]
    fn one_that_does_not_end_is_killed() {
        for script in ["exec sleep 600", "while :; do :; done", "exec cat /dev/zero"] {
            let refused = compile_in_subprocess(&by(script, Duration::from_millis(100)), b"x", &[0; 32]).unwrap_err();
            assert!(refused.to_string().contains("takes longer than 0.1 s"), "{script}: {refused}");
        }
    }
}
