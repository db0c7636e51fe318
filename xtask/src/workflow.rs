//! The workflow file for authors, tried on a new endpoint: the commands of its job `test`, those for cargo component that
//! stand in its remarks, and those of its job `push`, against a service.

use std::process::Command;

use crate::service::{PRIVATE, Service};
use crate::{Outcome, cargo, root, run, say, unwrapped};

const FILE: &str = "docs/author-ci.yml";
const NAME: &str = "author-ci";
/// What `tidegate new` calls the crate of that endpoint, as cargo writes it in the names of files.
const CRATE: &str = "endpoint_author_ci";
/// What prepares the machine is done here already.
const PREPARATIONS: [&str; 2] = ["rustup target add ", "cargo install "];

/// Runs the commands in a new folder, with the `tidegate` that is there.
pub(crate) fn workflow() -> Outcome {
    say(&format!("running the commands of {FILE} on a new endpoint"));
    let path = root().join(FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let programs = crate::built()?;
    let folder = root().join("target/author-ci");
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    run(Command::new(programs.join("tidegate")).args(["new", NAME, "--lang", "rust", "--folder"]).arg(&folder))?;
    // The lock file is complete from the first build on, and is committed then.
    run(cargo(&folder).args(["build", "--release", "--target", crate::GUEST_TARGET]))?;
    let service = Service::start(&root().join("target/author-ci-service"))?;
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others)))
        .map_err(|error| error.to_string())?;
    let component = without_remarks(&text);
    for (what, commands) in [
        ("test", commands(&text, "test")),
        ("cargo component", commands(&component, "test")),
        ("push", commands(&text, "push")),
    ] {
        if commands.is_empty() {
            return Err(format!("{FILE} has no commands for {what}"));
        }
        for command in commands {
            let command = command.replace("CRATE_NAME", CRATE);
            say(&command);
            run(unwrapped(Command::new("bash"))
                .args(["-e", "-c", &command])
                .current_dir(&folder)
                .env("PATH", &path)
                .env("ENDPOINT", ".")
                .env("TIDEGATE_URL", &service.url)
                .env("TIDEGATE_TOKEN", PRIVATE))?;
        }
    }
    Ok(())
}

/// What a job runs, without what prepares the machine. The folder of the endpoint is the working folder everywhere.
fn commands<'a>(workflow: &'a str, job: &str) -> Vec<&'a str> {
    let head = format!("  {job}:");
    let job = workflow.lines().skip_while(|line| *line != "jobs:").skip_while(|line| **line != head).skip(1);
    job.take_while(|line| line.trim().is_empty() || line.starts_with("   "))
        .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix("run: "))
        .filter(|command| !PREPARATIONS.iter().any(|preparation| command.starts_with(preparation)))
        .collect()
}

/// The workflow of those who follow the remark: the steps in it instead of those that it replaces.
fn without_remarks(workflow: &str) -> String {
    let mut text = String::from("jobs:\n  test:\n");
    for line in workflow.lines().filter_map(|line| line.strip_prefix("      # ")) {
        text.push_str("      ");
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{commands, without_remarks};

    #[test]
    fn the_commands_of_one_job_are_found() {
        let text = "on:\n  push:\n    run: e\njobs:\n  test:\n    steps:\n      - run: rustup target add x\n\n      # - run: no\n      - name: A\n        \
                    run: a b\n      - run: c\n  push:\n    steps:\n      - run: d\n";
        assert_eq!(commands(text, "test"), ["a b", "c"]);
        assert_eq!(commands(text, "push"), ["d"]);
        assert!(commands(text, "none").is_empty());
        assert_eq!(commands(&without_remarks(text), "test"), ["no"]);
    }
}
