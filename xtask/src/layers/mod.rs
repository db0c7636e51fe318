//! Import circles between the files and between the folders of a crate, and of the console.
//!
//! Cargo keeps the crates in layers; nothing keeps the files of one crate in layers. Files that import each
//! other in a circle can only be read, changed and moved together. So `cargo xtask lint` fails on every circle
//! of the crates below `host` and of `console/src`. Folders are held to the same: what stands in a folder, with all
//! that is below it, is one node beside its siblings. A module and its direct child count as one: a parent lists its
//! children, and they share what it defines.
//!
//! What is an import: every path in the code that leads to another file of the crate, in `use` and elsewhere,
//! inside macros too. A path to what a module re-exports leads to the file that defines it. Left out: code
//! behind `#[cfg(test)]`, because tests may look at anything. In the console: every `import` and `export` of a file by
//! its relative path.

mod circles;
mod modules;
mod paths;
mod scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{Outcome, root};
use circles::circles;
use modules::{Module, Modules};

/// What imports what: files, or the files and folders of one folder.
type Edges = BTreeMap<Module, Vec<Module>>;

/// Checks all crates below `host`, and the console.
pub(crate) fn check() -> Outcome {
    let folder = root().join("host");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut crates: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    crates.sort();
    let mut found = Vec::new();
    for path in crates.iter().filter(|path| path.join("src").is_dir()) {
        let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        found.extend(of_crate(&path.join("src"))?.iter().map(|circle| shown(&name, circle)));
    }
    let scripts = all_circles(&scripts::imports(&root().join("console/src"))?);
    found.extend(scripts.iter().map(|circle| shown("console", circle)));
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Each file or folder of a circle, with an import of another one that leads on in the circle for each of these.
type Circle = BTreeMap<String, Vec<String>>;

fn of_crate(src: &Path) -> Result<Vec<Circle>, String> {
    let modules = Modules::read(src)?;
    Ok(all_circles(&modules.all().map(|module| (module.clone(), modules.imports(module))).collect()))
}

/// The circles of files, and those of the folders and files that stand in one folder.
fn all_circles(files: &Edges) -> Vec<Circle> {
    let mut found = shown_circles(files, files, 0);
    let folders: BTreeSet<&[String]> =
        files.keys().flat_map(|file| (0..file.len()).filter_map(|length| file.get(..length))).collect();
    for folder in folders {
        let sibling = |file: &Module| {
            let name = file.get(..=folder.len()).filter(|name| name.starts_with(folder))?;
            Some(name.to_vec())
        };
        let mut edges = Edges::new();
        for (file, imports) in files {
            let Some(own) = sibling(file) else { continue };
            let others = imports.iter().filter_map(sibling).filter(|other| *other != own);
            edges.entry(own.clone()).or_default().extend(others);
        }
        let circles = shown_circles(&edges, files, folder.len() + 1);
        // Some circles of files are such a one as well.
        let new = |circle: &Circle| !found.iter().any(|known| known.keys().eq(circle.keys()));
        let circles: Vec<Circle> = circles.into_iter().filter(new).collect();
        found.extend(circles);
    }
    found
}

/// The circles of these edges, with the imports of files that make them; names have so many parts, all if 0.
fn shown_circles(edges: &Edges, files: &Edges, parts: usize) -> Vec<Circle> {
    let name = |file: &Module| file.get(..parts.min(file.len())).filter(|_| parts > 0).unwrap_or(file).to_vec();
    let of = |circle: &Vec<Module>| -> Circle {
        let inside = |member: &Module| {
            let imports = files.iter().filter(|(file, _)| name(file) == *member);
            let imports = imports.flat_map(|(file, imports)| imports.iter().map(move |import| (file, import)));
            let mut inside: Vec<_> = imports
                .filter(|(_, import)| name(import) != *member && circle.contains(&name(import)))
                .map(|(file, import)| format!("{} imports {}", file.join("/"), import.join("/")))
                .collect();
            inside.dedup();
            inside
        };
        circle.iter().map(|member| (member.join("/"), inside(member))).collect()
    };
    circles(edges).iter().map(of).collect()
}

fn shown(place: &str, circle: &Circle) -> String {
    let members: Vec<&str> = circle.keys().map(String::as_str).collect();
    let mut text = format!("{place}: these import each other in a circle: {}", members.join(", "));
    for import in circle.values().flatten() {
        text.push_str(&format!("\n  {import}"));
    }
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// The circles of a crate of these files, each as the names of its files.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = std::env::temp_dir().join(format!(
            "xtask-layers-{}-{}",
            std::process::id(),
            files.iter().map(|(_, text)| text.len()).sum::<usize>()
        ));
        let _ = std::fs::remove_dir_all(&folder);
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let circles = match files.iter().any(|(name, _)| name.ends_with("tsx")) {
            true => all_circles(&scripts::imports(&folder).unwrap()),
            false => of_crate(&folder).unwrap(),
        };
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
        let both = [["a", "b"]];
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
            [["a", "b"]]
        );
    }

    #[test]
    fn folders_are_held_to_the_same() {
        // No two files import each other, but what stands in the folders does.
        assert_eq!(
            found(&[
                ("lib.rs", "mod a; mod b;"),
                ("a/mod.rs", "mod one; mod other;"),
                ("a/one.rs", "use crate::b::two::Two;"),
                ("a/other.rs", "pub struct Other;"),
                ("b/mod.rs", "pub mod two; mod three;"),
                ("b/two.rs", "pub struct Two;"),
                ("b/three.rs", "use crate::a::other::Other;"),
                ("c.rs", "use crate::a::other::Other; use crate::b::two::Two;"),
            ]),
            [["a", "b"]]
        );
    }

    #[test]
    fn scripts_import_by_relative_paths() {
        let (one, other) = ("import { b } from \"../b/two\";", "const lazy = () => import(\"../a/One\");");
        let files = [("a/One.tsx", one), ("b/two.ts", other), ("b/two.test.ts", "import \"../c\";"), ("c.ts", one)];
        assert_eq!(found(&files), [["a/One", "b/two"], ["a", "b"]]);
    }
}
