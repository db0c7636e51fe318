//! `tidegate check`: what can be known of a folder without logs.

use tidegate_compiler::Folder;

use super::FolderArguments;
use crate::serve::Outcome;

pub(super) fn run(arguments: &FolderArguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let saved = tidegate_sql::SavedQuery::parse(&folder.manifest.query)
        .map_err(|failure| format!("{}: {failure}", arguments.folder.join("query.sql").display()))?;
    println!("{}: grants {}", folder.manifest.name, saved.tables().join(", "));
    for name in saved.parameters() {
        if !folder.manifest.parameters.iter().any(|parameter| parameter.name == name) {
            println!("  @{name} is used and not declared: it is an optional text");
        }
    }
    Ok(())
}
