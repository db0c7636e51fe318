//! The steps of a long command: run in order and timed, and each can be run without the others.
//!
//! Who changed one thing waits for what looks at it, and who waited for all sees what took the time.

use std::time::{Duration, Instant};

use crate::{Outcome, say};

/// A part of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The steps that make what this one uses; without them it takes what is there.
    pub(crate) after: &'static [&'static str],
    pub(crate) run: fn() -> Outcome,
}

/// `[--only STEP[,STEP]] [--except STEP[,STEP]] [--help]`: runs the steps that were asked for, all unless told.
pub(crate) fn command(name: &str, steps: &[Step], arguments: impl Iterator<Item = String>) -> Outcome {
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{}", help(name, steps));
        return Ok(());
    }
    let chosen = choose(steps, &arguments).map_err(|error| format!("{error}\n\n{}", help(name, steps)))?;
    let (times, done) = run(&chosen);
    print!("{}", table(&times));
    done.map_err(|error| match again(&chosen, &times) {
        Some(rest) => format!("{error}\nfrom here on: cargo xtask {name} --only {rest}"),
        None => error,
    })
}

/// What a command does, a step a line.
fn help(name: &str, steps: &[Step]) -> String {
    let mut text = format!(
        "cargo xtask {name} [--only STEP[,STEP]] [--except STEP[,STEP]]\n\nall steps in this order, or only those that are \
         named, or all but them:\n\n"
    );
    for step in steps {
        let after = if step.after.is_empty() { String::new() } else { format!(" (after {})", step.after.join(", ")) };
        text.push_str(&format!("  {:<12}{}{after}\n", step.name, step.what));
    }
    text
}

/// The steps that the arguments ask for, in their own order.
fn choose(steps: &[Step], arguments: &[String]) -> Result<Vec<Step>, String> {
    let (mut only, mut except) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        let (option, list) = argument.split_once('=').map_or((argument, None), |(option, list)| (option, Some(list)));
        let names = match option {
            "--only" => &mut only,
            "--except" => &mut except,
            _ => return Err(format!("{argument} is not understood")),
        };
        let list = list.or_else(|| rest.next());
        let wanted = || format!("{option} wants the names of steps, with commas between");
        names.extend(list.ok_or_else(wanted)?.split(',').map(str::trim).filter(|name| !name.is_empty()));
        if names.is_empty() {
            return Err(wanted());
        }
    }
    if let Some(unknown) = only.iter().chain(&except).find(|name| steps.iter().all(|step| step.name != **name)) {
        return Err(format!("there is no step {unknown}"));
    }
    let is_chosen = |step: &&Step| (only.is_empty() || only.contains(&step.name)) && !except.contains(&step.name);
    Ok(steps.iter().filter(is_chosen).copied().collect())
}

/// How long each step took that was begun, and how it ended.
type Times = Vec<(&'static str, Duration, bool)>;

/// Runs steps until one fails.
fn run(steps: &[Step]) -> (Times, Outcome) {
    let mut times = Times::new();
    for step in steps {
        say(&format!("== {}: {}", step.name, step.what));
        let began = Instant::now();
        let done = (step.run)();
        times.push((step.name, began.elapsed(), done.is_ok()));
        if let Err(error) = done {
            return (times, Err(format!("the step {} failed: {error}", step.name)));
        }
    }
    (times, Ok(()))
}

/// The times, a step a line.
fn table(times: &Times) -> String {
    let line = |(name, time, good): &(&str, Duration, bool)| {
        let end = if *good { "" } else { "  failed" };
        format!("xtask: {name:<12}{:>8.1} s{end}\n", time.as_secs_f64())
    };
    times.iter().map(line).collect()
}

/// The steps from the one that failed on; nothing if those were all.
fn again(chosen: &[Step], times: &Times) -> Option<String> {
    let good = times.iter().filter(|(_, _, good)| *good).count();
    let rest: Vec<&str> = chosen.iter().skip(good).map(|step| step.name).collect();
    (good > 0 && !rest.is_empty()).then(|| rest.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 3] = [
        Step { name: "one", what: "the first", after: &[], run: || Ok(()) },
        Step { name: "two", what: "the second", after: &["one"], run: || Err("no".to_owned()) },
        Step { name: "three", what: "the third", after: &["one", "two"], run: || Ok(()) },
    ];

    fn chosen(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Ok(choose(&STEPS, &arguments)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(chosen(&[]), Ok(vec!["one", "two", "three"]));
        assert_eq!(chosen(&["--only", "three,one"]), Ok(vec!["one", "three"]));
        assert_eq!(chosen(&["--only=two", "--only", " one "]), Ok(vec!["one", "two"]));
        assert_eq!(chosen(&["--except", "two"]), Ok(vec!["one", "three"]));
        assert_eq!(chosen(&["--only=one,two", "--except=one"]), Ok(vec!["two"]));
        for unknown in ["--only", "--except"] {
            assert_eq!(chosen(&[unknown, "four"]), Err("there is no step four".to_owned()));
        }
        for wrong in [&["--only"][..], &["--only", ","], &["--only="], &["two"], &["--skip", "two"]] {
            assert!(chosen(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_failure_ends_the_run_and_says_how_to_go_on() {
        let (times, done) = run(&STEPS);
        assert_eq!(done, Err("the step two failed: no".to_owned()));
        assert_eq!(
            times.iter().map(|(name, _, good)| (*name, *good)).collect::<Vec<_>>(),
            [("one", true), ("two", false)]
        );
        assert_eq!(again(&STEPS, &times).as_deref(), Some("two,three"));
        assert_eq!(again(&STEPS, &Times::new()), None);
        let shown =
            table(&vec![("one", Duration::from_millis(1_250), true), ("two", Duration::from_secs(3_600), false)]);
        assert_eq!(shown, "xtask: one              1.2 s\nxtask: two           3600.0 s  failed\n");
    }

    #[test]
    fn the_help_lists_every_step_with_what_it_needs() {
        let help = help("test", &STEPS);
        assert!(help.contains("  one         the first\n") && help.contains("the third (after one, two)"), "{help}");
    }
}
