//! What the files of the console import.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use super::Edges;
use super::modules::Module;

/// The files of a folder of scripts, and the others of them that each imports; tests are left out.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn imports(src: &Path) -> Result<Edges, String> {
    let mut texts: BTreeMap<Module, String> = BTreeMap::new();
    let mut open = vec![src.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                open.push(path);
            } else if (name.ends_with(".ts") || name.ends_with(".tsx")) && !name.contains(".test.") {
                let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                texts.insert(parts(path.strip_prefix(src).unwrap_or(&path)), text);
            }
        }
    }
    let known = |file: Module| texts.contains_key(&file).then_some(file);
    let of = |(file, text): (&Module, &String)| {
        let folder = file.split_last().map(|(_, folder)| folder).unwrap_or_default();
        (file.clone(), targets(text).filter_map(|target| known(resolved(folder, target))).collect())
    };
    Ok(texts.iter().map(of).collect())
}

/// The relative paths of a text's imports and exports, lazy imports too.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let quoted = ["from \"", "import(\"", "import \""].into_iter();
    quoted
        .flat_map(|before| text.split(before).skip(1))
        .filter_map(|rest| rest.split_once('"').map(|(path, _)| path))
        .filter(|path| path.starts_with('.'))
}

fn resolved(folder: &[String], target: &str) -> Module {
    let mut path = folder.to_vec();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    parts(&path.iter().collect::<std::path::PathBuf>())
}

/// The parts of a path, without the ending of a script.
fn parts(path: &Path) -> Module {
    let name = path.to_string_lossy();
    let name = name.strip_suffix(".tsx").or_else(|| name.strip_suffix(".ts")).unwrap_or(&name);
    name.split('/').map(str::to_owned).collect()
}
