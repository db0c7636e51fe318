//! The licences of what is linked in, as one text that goes with the program.
//!
//! Most licences ask that their text and the names of the authors go along. The texts are those that the
//! packages bring, also those of C libraries inside of them; each is there once. Where a package brings
//! none, the text is that of the licence that it names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::parts::Part;

/// How deep below a package's folder texts are looked for.
const DEEPEST: usize = 6;
/// The longest file that is taken for the text of a licence, in bytes.
const LONGEST: u64 = 1 << 20;
/// Folders of packages that are not linked in.
const NOT_LINKED: [&str; 5] = ["benches", "examples", "fuzz", "target", "tests"];

/// All licences of the parts; the first part is the program itself.
///
/// # Errors
/// A part whose folder cannot be read, or that has neither a text nor a licence with a known one.
pub(crate) fn notices(parts: &[Part]) -> Result<String, String> {
    let mut texts = Texts::default();
    let mut list = String::new();
    let [program, others @ ..] = parts else { return Err("there are no parts".to_owned()) };
    for part in others.iter().filter(|part| part.source.is_some()) {
        let Part { name, version, .. } = part;
        let licence = part.licence.as_deref().unwrap_or("see the text");
        let _ = writeln!(list, "{name} {version}: {licence}");
        if let Some(repository) = &part.repository {
            let _ = writeln!(list, "  {repository}");
        }
        if !part.authors.is_empty() {
            let _ = writeln!(list, "  by {}", part.authors.join(", "));
        }
        let mut found = Vec::new();
        of_folder(&part.folder, "", 0, &mut found).map_err(|error| format!("{}: {error}", part.folder.display()))?;
        if found.is_empty() {
            found = of_licence(licence).ok_or_else(|| format!("{name} {version} has no text of a licence"))?;
        }
        for (file, text) in found {
            let _ = writeln!(list, "  {file}: text {}", texts.number(&text));
        }
    }
    let mut all = format!(
        "{} {} is under the licence {} (LICENSE). Linked in are these packages, each under its own licence; the texts\n\
         follow. The licences of Rust's standard library are in COPYRIGHT-rust-library.html or at the project of Rust.\n\n{list}",
        program.name,
        program.version,
        program.licence.as_deref().unwrap_or("in that file"),
    );
    for (number, text) in texts.in_order() {
        let _ = write!(all, "\n{}\ntext {number}\n\n{}\n", "=".repeat(100), text.trim_end());
    }
    Ok(all)
}

/// Different texts, each with a number. Two that differ in blanks and line ends alone are one.
#[derive(Debug, Default)]
struct Texts(BTreeMap<String, (usize, String)>);

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let next = self.0.len() + 1;
        self.0.entry(words).or_insert_with(|| (next, text.to_owned())).0
    }

    fn in_order(&self) -> Vec<(usize, &str)> {
        let mut all: Vec<_> = self.0.values().map(|(number, text)| (*number, text.as_str())).collect();
        all.sort_unstable();
        all
    }
}

/// The files of a folder that are texts of licences, by their path in the package.
fn of_folder(folder: &Path, path: &str, depth: usize, found: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (kind, inner) = (entry.file_type()?, format!("{path}{name}"));
        if kind.is_dir() && depth < DEEPEST && !NOT_LINKED.contains(&name.as_str()) {
            of_folder(&entry.path(), &format!("{inner}/"), depth + 1, found)?;
        } else if kind.is_file() && is_licence(&name) && entry.metadata()?.len() <= LONGEST {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned();
            if !text.trim().is_empty() {
                found.push((inner, text));
            }
        }
    }
    Ok(())
}

/// Whether a file is by its name the text of a licence, and no program.
fn is_licence(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let (start, end) = name.rsplit_once('.').unwrap_or((&name, "TXT"));
    let is_text = ["TXT", "MD", "RST"].contains(&end) || !end.chars().all(|sign| sign.is_ascii_alphabetic());
    let begins = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE", "PATENTS"];
    is_text && begins.iter().any(|begin| start.starts_with(begin))
}

/// The texts of the licences that an expression names.
fn of_licence(expression: &str) -> Option<Vec<(String, String)>> {
    let expression = spdx::Expression::parse(expression).ok()?;
    let mut found = Vec::new();
    for wanted in expression.requirements() {
        let licence = wanted.req.license.id()?;
        found.push((format!("(not in the package) {}", licence.name), licence.text().to_owned()));
        if let Some(exception) = wanted.req.addition.as_ref().and_then(spdx::AdditionItem::id) {
            found.push((format!("(not in the package) {}", exception.name), exception.text().to_owned()));
        }
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_texts_and_each_text_is_there_once() {
        let folder = std::env::temp_dir().join(format!("tidegate-notices-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/LICENSE-MIT", "MIT of\n a");
        write("a/src/lib.rs", "// LICENSE");
        write("a/src/licenses.rs", "no text");
        write("a/tests/LICENSE", "of what is not linked in");
        write("b/licence.md", "MIT of a\n");
        write("b/third/COPYING", "of a library in C");
        write("c/Cargo.toml", "");
        let part = |name: &str, licence: &str| Part {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some(licence.to_owned()),
            folder: folder.join(name),
            source: Some("registry".to_owned()),
            ..Part::default()
        };
        let own = Part { source: None, ..part("own", "Apache-2.0") };
        let parts = [own, part("a", "MIT"), part("b", "MIT"), part("c", "Apache-2.0 WITH LLVM-exception")];
        let told = notices(&parts).unwrap();
        let lost = notices(&[parts[0].clone(), part("c", "LicenseRef-strange")]);
        std::fs::remove_dir_all(&folder).unwrap();
        for words in [
            "own 1.0.0 is under the licence Apache-2.0",
            "a 1.0.0: MIT\n  LICENSE-MIT: text 1\n",
            "b 1.0.0: MIT\n  licence.md: text 1\n  third/COPYING: text 2\n",
            "c 1.0.0: Apache-2.0 WITH LLVM-exception\n  (not in the package) Apache-2.0: text 3\n  (not in the package) LLVM-exception: text 4\n",
            "text 2\n\nof a library in C\n",
            "Grant of Patent License",
        ] {
            assert!(told.contains(words), "{words}:\n{}", told.get(..2_000).unwrap_or(&told));
        }
        assert!(!told.contains("not linked in") && !told.contains("no text"));
        assert!(lost.is_err_and(|error| error.contains("c 1.0.0")));
    }

    #[test]
    fn texts_of_licences_are_known_by_their_names() {
        for good in ["LICENSE", "LICENSE-MIT", "license.txt", "COPYING", "UNLICENSE", "NOTICE.md", "LICENSE-APACHE-2.0"]
        {
            assert!(is_licence(good), "{good}");
        }
        for other in ["licenses.rs", "license.py", "LICENSE.json", "README.md", "mylicense"] {
            assert!(!is_licence(other), "{other}");
        }
    }
}
