//! `tidegate compile-component`: compiles one component from standard input to machine code on standard output. The
//! server starts this command for each component that it did not make itself, see [`tidegate_runtime::Compilation`].
//! Nothing else uses it.
//!
//! Before it reads input, it restricts itself: limits on time and memory, no files, and an exit when its server ends.

use std::io::{Read, Write};
use std::time::Duration;

use clap::Args;
use rlimit::Resource;
use tidegate_compiler::MAX_COMPONENT_BYTES;

use crate::outcome::Outcome;

/// The interval at which it checks that the server still runs.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds of processor time
    #[arg(long)]
    seconds: u64,
    /// Bytes of address space
    #[arg(long)]
    memory: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    end_with_the_server()?;
    // If the machine runs out of memory all the same, the kernel ends this process first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    for (resource, most) in [
        (Resource::CPU, arguments.seconds),
        (Resource::AS, arguments.memory),
        (Resource::CORE, 0),
        (Resource::FSIZE, 0),
    ] {
        resource.set(most, most).map_err(|error| format!("the limit {resource:?} cannot be set: {error}"))?;
    }
    let mut component = Vec::new();
    let most = u64::try_from(MAX_COMPONENT_BYTES)?;
    std::io::stdin().lock().take(most).read_to_end(&mut component)?;
    let code = tidegate_runtime::compile_alone(&component)?;
    let mut out = std::io::stdout().lock();
    out.write_all(&code)?;
    Ok(out.flush()?)
}

/// Exits when the server has ended, which is the case when this process gets another parent.
fn end_with_the_server() -> std::io::Result<()> {
    let server = std::os::unix::process::parent_id();
    let watch = move || {
        while std::os::unix::process::parent_id() == server {
            std::thread::sleep(LOOK);
        }
        std::process::exit(1);
    };
    std::thread::Builder::new().name("tidegate-parent".to_owned()).spawn(watch).map(drop)
}
