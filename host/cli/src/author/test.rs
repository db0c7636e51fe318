//! `tidegate test`: the cases of endpoints, each over logs of its own, without a server.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tidegate_compiler::Folder;
use tidegate_model::nearest;
use tidegate_service::workbench::{Ask, Outcome as Answered, Scene, Trial, TrialError, Workbench};

use super::build::built;
use super::case::Case;
use super::cost;
use super::expect::{Expectation, numbers};
use super::guest_log::GuestLog;
use super::json_diff::difference;
use super::update::with_values;
use crate::outcome::Outcome;
use crate::runtime::runtime;
use crate::sample;

/// How a line begins that tells what may not be meant as it is written.
const WARNING: &str = "warning: ";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folders of endpoints, with cases in tests/*.json
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// The module or component that is tested, for an endpoint with code that was built already
    #[arg(long)]
    module: Option<PathBuf>,
    /// Write what is answered into the case files, as what is expected from now on
    #[arg(long)]
    update: bool,
    /// Report what each case costs, against the limits
    #[arg(long)]
    cost: bool,
    /// One JSON object a case on standard output, for machines
    #[arg(long)]
    json: bool,
    /// Exit with 1 if an endpoint has warnings
    #[arg(long)]
    strict: bool,
}

/// How a case went.
struct Verdict {
    name: String,
    answered: Answered,
    /// What differs from what is expected, or why there is nothing to compare with.
    problems: Vec<String>,
    updated: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    if arguments.module.is_some() && arguments.folders.len() > 1 {
        return Err("--module is for one folder: modules of several are built by their own commands".into());
    }
    let log = GuestLog::start();
    let tokio = runtime()?;
    let workbench = Workbench::start()?;
    let (mut all, mut failed, mut warned) = (0, 0, false);
    for path in &arguments.folders {
        let folder = Folder::read(path)?;
        let cases = folder.tests.iter().map(|path| Case::read(path).map(|(case, text)| (path, case, text)));
        // All are read before the first is run: a mistake in the last is told at once.
        let cases = cases.collect::<Result<Vec<_>, _>>()?;
        if cases.is_empty() {
            let place = path.join("tests").display().to_string();
            eprintln!("{}: no cases; put one in {place}, such as {place}/first.json", folder.manifest.name);
            continue;
        }
        let component = built(&folder, arguments.module.as_deref())?;
        if !arguments.json {
            println!("{}", folder.manifest.name);
        }
        let (mut told, mut costs) = (BTreeSet::new(), Vec::new());
        for (path, case, text) in cases {
            let (verdict, remarks) = tokio.block_on(one(&workbench, &component, path, &case))?;
            let verdict = if arguments.update { updated(path, &case, &text, verdict)? } else { verdict };
            // What is told of one case is not told again of the next.
            for remark in remarks {
                warned |= remark.starts_with(WARNING);
                if !told.contains(&remark) {
                    eprintln!("  {remark}");
                    told.insert(remark);
                }
            }
            all += 1;
            failed += usize::from(!verdict.problems.is_empty());
            match arguments.json {
                true => println!("{}", machine(folder.manifest.name.as_str(), path, &verdict)),
                false => print(&verdict, &case)?,
            }
            for line in log.take() {
                eprintln!("    | {}", line.replace('\n', "\n    | "));
            }
            costs.push((verdict.name, verdict.answered));
        }
        if arguments.cost && !arguments.json {
            print!("{}", cost::report(&costs));
        }
    }
    if failed > 0 {
        return Err(format!("{failed} of {all} cases failed").into());
    }
    if arguments.strict && warned {
        return Err("there are warnings, and --strict".into());
    }
    if !arguments.json && all > 0 {
        println!("{all} {}", if all == 1 { "case holds" } else { "cases hold" });
    }
    Ok(())
}

/// Runs a case. Also says what may not be meant as it was written.
async fn one(
    workbench: &Workbench,
    component: &[u8],
    path: &Path,
    case: &Case,
) -> Result<(Verdict, Vec<String>), Box<dyn Error>> {
    let of_file = |error| match error {
        TrialError::Refused(failure) => format!("{failure} (`tidegate check` tells in which file)"),
        error => format!("{}: {error}", path.display()),
    };
    let scene = Scene { logs: case.logs(), now: case.now(), others: Scene::none };
    let trial: Trial = workbench.trial(component, scene).await.map_err(of_file)?;
    let remarks = remarks(&trial, &case.ask());
    let answered = trial.ask(case.ask()).await;
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut problems = Vec::new();
    match &case.expect {
        Some(expect) => {
            let (expected, actual) = expect.against(&answered.body);
            if expected != actual {
                problems.push(difference(&expected, &actual, colour));
            }
        }
        None => problems.push("nothing is expected: write expect, or let --update write it".to_owned()),
    }
    if let Some(cost) = &case.cost {
        let (expected, actual) = cost.against(&answered.cost);
        if expected != actual {
            problems.push(difference(&expected, &actual, colour));
        }
    }
    trial.close().await?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok((Verdict { name, answered, problems, updated: false }, remarks))
}

/// Writes what was answered into the case's file, if it is not what the file expects.
fn updated(path: &Path, case: &Case, text: &str, mut verdict: Verdict) -> Result<Verdict, Box<dyn Error>> {
    let mut values = Vec::new();
    let body = &verdict.answered.body;
    let holds = case.expect.as_ref().is_some_and(|expect| {
        let (expected, actual) = expect.against(body);
        expected == actual
    });
    if !holds {
        values.push(("expect", Expectation::renewed(case.expect.as_ref(), body)));
    }
    if let Some(cost) = &case.cost {
        let renewed = cost.renewed(&verdict.answered.cost);
        let (expected, actual) = cost.against(&verdict.answered.cost);
        if expected != actual || cost == &Default::default() {
            values.push(("cost", renewed));
        }
    }
    if !values.is_empty() {
        let text = with_values(text, &values).map_err(|error| format!("{}: {error}", path.display()))?;
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        verdict.updated = true;
    }
    verdict.problems.clear();
    Ok(verdict)
}

fn print(verdict: &Verdict, case: &Case) -> std::io::Result<()> {
    let Verdict { name, answered, problems, updated } = verdict;
    let word = match (problems.is_empty(), updated) {
        (false, _) => "FAILED ",
        (true, true) => "updated",
        (true, false) => "ok     ",
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "  {word} {name} ({} instructions)", cost::grouped(answered.cost.instructions))?;
    if problems.is_empty() {
        return Ok(());
    }
    if !case.description.is_empty() {
        writeln!(out, "    {}", case.description)?;
    }
    if case.expect.is_some() {
        writeln!(out, "    expected: -, answered: +")?;
    }
    for line in problems.iter().flat_map(|problem| problem.lines()) {
        writeln!(out, "    {line}")?;
    }
    Ok(())
}

fn machine(endpoint: &str, path: &Path, verdict: &Verdict) -> Value {
    let Verdict { name, answered, problems, updated } = verdict;
    json!({
        "endpoint": endpoint,
        "case": name,
        "file": path.display().to_string(),
        "ok": problems.is_empty(),
        "updated": updated,
        "status": answered.status,
        "problems": problems,
        "cost": numbers(&answered.cost).into_iter().collect::<std::collections::BTreeMap<_, _>>(),
    })
}

/// What is told beside an answer: what its author may have meant otherwise.
pub(super) fn remarks(trial: &Trial, ask: &Ask) -> Vec<String> {
    let meant = |name: &str, others: &mut dyn Iterator<Item = &str>| match nearest(name, others) {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    let mut remarks: Vec<String> = trial.warnings().iter().map(|warning| format!("{WARNING}{warning}")).collect();
    remarks.extend(trial.unknown_sources().iter().map(|source| format!("note: {}", unknown_source(source))));
    for source in trial.unread_sources() {
        let near = meant(source, &mut trial.sources());
        remarks.push(format!("note: there are logs of {source}, and the endpoint does not read it{near}"));
    }
    for name in trial.unknown_parameters(ask) {
        let near = meant(name, &mut trial.parameters());
        remarks.push(format!("note: the endpoint has no parameter {name}, and it is ignored{near}"));
    }
    remarks
}

/// What is told of a source that exists nowhere.
pub(super) fn unknown_source(name: &str) -> String {
    let near = nearest(name, sample::source_names());
    let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
    format!(
        "the source {name} is empty here: there are no logs for it, and a server does not have it from its first start{near}"
    )
}
