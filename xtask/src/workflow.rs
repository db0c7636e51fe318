//! The workflow file for authors, tried: the commands of its job `test`, on a new endpoint.

use std::process::Command;

use crate::{Outcome, cargo, root, run, say};

const FILE: &str = "docs/author-ci.yml";
/// What prepares the machine is done here already.
const PREPARATIONS: [&str; 2] = ["rustup target add ", "cargo install "];

/// Runs the commands in a new folder, with the `tidegate` that is there.
pub(crate) fn workflow() -> Outcome {
    say(&format!("running the commands of {FILE} on a new endpoint"));
    let path = root().join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let commands = commands(&text);
    if commands.is_empty() {
        return Err(format!("{FILE} has no commands in its job `test`"));
    }
    let programs = crate::built()?;
    let folder = root().join("target/author-ci");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    run(Command::new(programs.join("tidegate")).args(["new", "author-ci", "--lang", "rust", "--folder"]).arg(&folder))?;
    // The lock file is complete from the first build on, and is committed then.
    run(cargo(&folder).args(["build", "--release", "--target", crate::GUEST_TARGET]))?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others)))
        .map_err(|error| error.to_string())?;
    for command in commands {
        say(command);
        run(Command::new("bash")
            .args(["-e", "-c", command])
            .current_dir(&folder)
            .env("PATH", &path)
            .env("ENDPOINT", "."))?;
    }
    Ok(())
}

/// What the job `test` runs, without what prepares the machine.
fn commands(workflow: &str) -> Vec<&str> {
    let job = workflow.lines().skip_while(|line| *line != "  test:").skip(1);
    job.take_while(|line| line.trim().is_empty() || line.starts_with("   "))
        .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("run: "))
        .filter(|command| !PREPARATIONS.iter().any(|preparation| command.starts_with(preparation)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn the_commands_of_one_job_are_found() {
        let text = "jobs:\n  test:\n    steps:\n      - run: rustup target add x\n\n      # - run: no\n      - name: A\n        \
                    run: a b\n      - run: c\n  push:\n    steps:\n      - run: d\n";
        assert_eq!(commands(text), ["a b", "c"]);
    }
}
