//! Import circles between the files of a crate.
//!
//! Cargo keeps the crates in layers; nothing keeps the files of one crate in layers. Files that import each
//! other in a circle can only be read, changed and moved together. So `cargo xtask lint` fails on every circle
//! of the crates below `host`. A module and its direct child count as one: a parent lists its children, and
//! they share what it defines.
//!
//! What is an import: every path in the code that leads to another file of the crate, in `use` and elsewhere,
//! inside macros too. A path to what a module re-exports leads to the file that defines it. Left out: code
//! behind `#[cfg(test)]`, because tests may look at anything.

mod circles;
mod modules;
mod paths;

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Outcome, root};
use circles::circles;
use modules::{Module, Modules};

/// Circles that cannot be avoided: the crate, one of the files in the circle, and why.
const ALLOWED: &[(&str, &str, &str)] = &[];

/// Checks all crates below `host`.
pub(crate) fn check() -> Outcome {
    let mut found = Vec::new();
    let folder = root().join("host");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut crates: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    crates.sort();
    for path in crates.iter().filter(|path| path.join("src").is_dir()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for circle in of_crate(&path.join("src"))? {
            if !ALLOWED.iter().any(|(own, file, _)| *own == name && circle.contains_key(*file)) {
                found.push(shown(&name, &circle));
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Each file of a circle with the files of the same circle that it imports.
type Circle = BTreeMap<String, Vec<String>>;

fn of_crate(src: &Path) -> Result<Vec<Circle>, String> {
    let modules = Modules::read(src)?;
    let edges: BTreeMap<Module, Vec<Module>> =
        modules.all().map(|module| (module.clone(), modules.imports(module))).collect();
    let shown = |module: &Module| modules.file(module);
    let of = |circle: &Vec<Module>| -> Circle {
        let inside = |module: &Module| {
            let imports = edges.get(module).into_iter().flatten();
            imports.filter(|import| circle.contains(import)).map(shown).collect()
        };
        circle.iter().map(|module| (shown(module), inside(module))).collect()
    };
    Ok(circles(&edges).iter().map(of).collect())
}

fn shown(name: &str, circle: &Circle) -> String {
    let mut text = format!("host/{name}: {} files import each other in a circle:", circle.len());
    for (file, imports) in circle {
        text.push_str(&format!("\n  {file} imports {}", imports.join(", ")));
    }
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// The circles of a crate of these files, each as the names of its files.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = std::env::temp_dir().join(format!("xtask-layers-{}-{}", std::process::id(), files.len()));
        let _ = std::fs::remove_dir_all(&folder);
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let circles = of_crate(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        circles.iter().map(|circle| circle.keys().cloned().collect()).collect()
    }

    #[test]
    fn a_circle_is_found_through_uses_paths_macros_and_re_exports() {
        let none: [&[&str]; 0] = [];
        assert_eq!(
            found(&[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")]),
            none
        );
        let both = [["a.rs", "b.rs"]];
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; mod b;"),
                ("a.rs", "use crate::b::{B as C, D};"),
                ("b.rs", "fn b() { crate::a::a() }"),
            ]),
            both
        );
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; mod b; pub use a::A; // the file that defines it is meant"),
                ("a.rs", "fn a() { println!(\"{}\", super::b::b()) }"),
                ("b.rs", "use crate::A;"),
                ("c.rs", "use crate::A;"),
            ]),
            both
        );
    }

    #[test]
    fn parents_children_and_tests_are_left_out() {
        let none: [&[&str]; 0] = [];
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "mod child; use child::C; pub struct A;"),
                ("a/child.rs", "use super::A; pub struct C;"),
                ("b.rs", "use crate::a::A; #[cfg(test)] mod tests { use crate::c::C; }"),
                ("c.rs", "use crate::b::B; #[cfg(test)] use crate::a::A; fn c() { #[cfg(test)] let a = crate::a::A; }"),
                ("d.rs", "use crate::c::C; pub(in crate::d) struct D { #[cfg(test)] a: crate::a::A }"),
                ("tests.rs", "use crate::a::A;"),
            ]),
            none
        );
        // A child is a file as any other to everybody but its parent.
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "mod child; use crate::b::B;"),
                ("a/child.rs", "pub struct C;"),
                ("b/mod.rs", "mod child; use crate::a::A;"),
                ("b/child.rs", ""),
            ]),
            [["a/mod.rs", "b/mod.rs"]]
        );
    }
}
