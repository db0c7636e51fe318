//! The modules of a crate, a file each, and what a path between them leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::paths::{Paths, Step};

/// A module that has a file: the names from the root of the crate.
pub(super) type Module = Vec<String>;

/// How often a path is followed through re-exports of re-exports.
const MOST_STEPS: usize = 8;

/// A crate's modules.
pub(super) struct Modules(BTreeMap<Module, File>);

struct File {
    /// The paths in the code, from the root of the crate.
    paths: BTreeSet<Vec<String>>,
    /// What the module re-exports: the name and the path behind it.
    exports: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Reads all files of a crate. Files of tests (`tests.rs`, `..._tests.rs` and what is below `tests/`) are left out.
    ///
    /// # Errors
    /// A file that cannot be read, or is no Rust.
    pub(super) fn read(src: &Path) -> Result<Self, String> {
        let mut modules = BTreeMap::new();
        let mut open = vec![src.to_path_buf()];
        while let Some(folder) = open.pop() {
            let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|ending| ending == "rs") {
                    let module = module_of(path.strip_prefix(src).unwrap_or(&path));
                    if !module.iter().any(|name| name == "tests" || name.ends_with("_tests")) {
                        let text = std::fs::read_to_string(&path);
                        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
                        let Paths { all, exports } =
                            Paths::of(&text).map_err(|error| format!("{}: {error}", path.display()))?;
                        let absolute = |steps: &Vec<Step>| absolute(&module, steps);
                        let paths = all.iter().map(absolute).collect();
                        let exports = exports.iter().map(|(name, steps)| (name.clone(), absolute(steps))).collect();
                        modules.insert(module, File { paths, exports });
                    }
                }
            }
        }
        Ok(Self(modules))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Module> {
        self.0.keys()
    }

    /// The other modules that a module imports from, without its parent and its children.
    pub(super) fn imports(&self, module: &Module) -> Vec<Module> {
        let Some(file) = self.0.get(module) else { return Vec::new() };
        let is_near = |other: &Module| {
            let parent =
                |one: &Module, two: &Module| two.split_last().is_some_and(|(_, parent)| parent == one.as_slice());
            parent(module, other) || parent(other, module)
        };
        let found: BTreeSet<Module> = file.paths.iter().filter_map(|path| self.defining(path, MOST_STEPS)).collect();
        found.into_iter().filter(|other| other != module && !is_near(other)).collect()
    }

    /// The module whose file defines what a path leads to.
    fn defining(&self, path: &[String], steps: usize) -> Option<Module> {
        let (module, rest) = (0..=path.len()).rev().find_map(|length| {
            let (module, rest) = path.split_at_checked(length)?;
            self.0.contains_key(module).then_some((module.to_vec(), rest))
        })?;
        let exported = rest.split_first().and_then(|(name, rest)| {
            let behind = self.0.get(&module)?.exports.get(name)?;
            Some([behind.as_slice(), rest].concat())
        });
        match exported {
            Some(behind) if steps > 0 => self.defining(&behind, steps - 1).or(Some(module)),
            _ => Some(module),
        }
    }
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are both `a::b`.
fn module_of(relative: &Path) -> Module {
    let mut names: Module =
        relative.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod") || names == ["lib"] || names == ["main"] {
        names.pop();
    }
    names
}

/// A path that stands in a module, from the root of the crate.
fn absolute(module: &Module, steps: &[Step]) -> Vec<String> {
    let mut path = module.clone();
    for step in steps {
        match step {
            Step::Crate => path.clear(),
            Step::Super => drop(path.pop()),
            Step::Name(name) => path.push(name.clone()),
        }
    }
    path
}
