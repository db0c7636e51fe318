//! Who reads the rows of all tenants.
//!
//! Tables are made for an audience, and there is no default. So a file that reads for all says `Audience::All`, and stands
//! in this list with its reason. `cargo xtask lint` fails for one that does not: whoever adds a reader decides whose rows
//! it may see, and whoever reads the change sees it.

use std::path::Path;

use crate::{Outcome, root};

/// The crates that read on behalf of callers.
/// That of the doors is not among them: there an audience says whose logs a sender sends, and nothing is read.
const CRATES: [&str; 4] = ["host/cli/src", "host/http/src", "host/service/src", "host/workers/src"];

/// What makes a table with the rows of all tenants, or an audience of something else than an access.
const MARKS: [&str; 4] = ["Audience::All", "Audience::of_pins(", "store.table(", "store().table("];

/// The files that may, with the reason.
const READERS: [(&str, &str); 8] = [
    ("host/service/src/endpoint_columns.rs", "names and types of columns, planned and never run"),
    ("host/service/src/execution/recent.rs", "the newest rows of a source, for private tokens"),
    ("host/service/src/execution/request.rs", "asks whether an audience is a tenant"),
    ("host/service/src/follow/follower.rs", "asks whether an audience is a tenant"),
    ("host/service/src/gate/explain.rs", "lineage for who saves an endpoint, planned and never run"),
    ("host/service/src/missing_sources.rs", "what an endpoint names when it is saved, planned and never run"),
    ("host/service/src/tables.rs", "an endpoint that is being saved, planned and never run"),
    ("host/service/src/tokens/access.rs", "the audience of an access, made of what it pins"),
];

/// Checks that only the named files read for all.
pub(crate) fn check() -> Outcome {
    let root = root();
    let mut found = Vec::new();
    for of_crate in CRATES {
        look(&root, &root.join(of_crate), &mut found).map_err(|error| format!("{of_crate}: {error}"))?;
    }
    found.sort_unstable();
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|file| READERS.iter().all(|(known, _)| known != file))
        .map(|file| {
            format!("{file} reads the rows of all tenants: take the audience of the caller's access, or give the reason in {}", file!())
        })
        .collect();
    let unused = READERS.iter().filter(|(known, _)| found.iter().all(|file| file != known));
    wrong.extend(unused.map(|(known, _)| format!("{known} reads for all no more: take it out of {}", file!())));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn look(root: &Path, folder: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            look(root, &path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            if code.into_iter().any(|line| MARKS.iter().any(|mark| line.contains(mark))) {
                let name = path.strip_prefix(root).unwrap_or(&path);
                found.push(name.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(())
}
