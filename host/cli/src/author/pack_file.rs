//! `pack.toml` of a pack: whose the rows of the sources are that its endpoints read.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use tidegate_model::SourceTenancy;

/// The name of the file.
const NAME: &str = "pack.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    source: Vec<Declared>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    tenant: SourceTenancy,
}

/// What the file in a folder says of sources, by their names; nothing where there is none.
///
/// # Errors
/// It cannot be read, or is not valid.
pub(super) fn read(folder: &Path) -> Result<BTreeMap<String, SourceTenancy>, String> {
    let path = folder.join(NAME);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    parsed(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn parsed(text: &str) -> Result<BTreeMap<String, SourceTenancy>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut sources = BTreeMap::new();
    for Declared { name, tenant } in file.source {
        if let Some(twice) = sources.insert(name.clone(), tenant) {
            return Err(format!("the source {name} stands there twice, once with {twice}"));
        }
    }
    Ok(sources)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn sources_say_whose_their_rows_are() {
        let text = "[[source]]\nname = \"app.logs\"\ntenant = { project = \"metadata.project\" }\n\n\
                    [[source]]\nname = \"regions\"\ntenant = \"shared\"\n";
        let read: Vec<String> =
            parsed(text).unwrap().iter().map(|(name, tenant)| format!("{name}: {tenant}")).collect();
        assert_eq!(read, ["app.logs: project=metadata.project", "regions: shared"]);
        assert!(parsed("").unwrap().is_empty());
        for wrong in [
            "[[source]]\nname = \"a\"",
            "[[source]]\nname = \"a\"\ntenant = \"all\"",
            "[[sources]]\nname = \"a\"\ntenant = \"shared\"",
            "[[source]]\nname = \"a\"\ntenant = \"shared\"\n[[source]]\nname = \"a\"\ntenant = \"shared\"",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
