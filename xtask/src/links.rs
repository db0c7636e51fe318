//! Links between the project's documents.
//!
//! A page that is moved or a heading that is renamed leaves links that lead nowhere, and nothing else tells. So
//! `cargo xtask lint` fails on each link of a Markdown file to a file or heading that is not there, and on each
//! path of a page below `docs` that a document, a comment or a message names wrongly. Links to other sites are
//! not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::{Outcome, root};

/// Checks all files that git knows or would add.
pub(crate) fn check() -> Outcome {
    let root = root();
    let out = Command::new("git")
        .current_dir(&root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    if !out.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&out.stderr)));
    }
    let names = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut texts = BTreeMap::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        // A file that was deleted is listed until the deletion is staged.
        if root.join(name).is_file() {
            let is_read = matches!(name.rsplit('.').next(), Some("md" | "rs" | "toml"));
            let text =
                if is_read { std::fs::read_to_string(root.join(name)).unwrap_or_default() } else { String::new() };
            texts.insert(PathBuf::from(name), text);
        }
    }
    let found = broken(&texts);
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// What leads nowhere, a line each. The files are given with their texts, by their paths from the root; the texts of files
/// without links are not needed.
fn broken(files: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let here = file.parent().unwrap_or(Path::new(""));
        if is_markdown(file) {
            for link in links(text) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = if path.is_empty() { file.clone() } else { joined(here, path) };
                let text = files.get(&target);
                let is_folder = || files.keys().any(|file| file.starts_with(&target));
                if text.is_none() && !is_folder() {
                    found.push(format!("{}: {link} leads to no file", file.display()));
                } else if !heading.is_empty()
                    && is_markdown(&target)
                    && !text.is_some_and(|text| anchors(text).contains(heading))
                {
                    found.push(format!("{}: {link} leads to no heading", file.display()));
                }
            }
        }
        for page in pages(text).filter(|page| !files.contains_key(Path::new(page))) {
            found.push(format!("{}: there is no {page}", file.display()));
        }
    }
    found
}

fn is_markdown(file: &Path) -> bool {
    file.extension().is_some_and(|kind| kind == "md")
}

/// A relative path from a folder, without `..`.
fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = folder.to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(joined.pop()),
            Component::Normal(name) => joined.push(name),
            _ => {}
        }
    }
    joined
}

/// The targets of the links of a Markdown text that are files of the project: not those of other sites, nor names of Rust
/// in the page of a crate.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains([':', '!', ' ', '\n', '{']) && !target.is_empty())
}

/// The headings of a Markdown text as links name them: in small letters, words joined by `-`, other characters left out.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if !is_code && heading.len() < line.len() && heading.starts_with(' ') {
            let kept = heading.trim().chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
            anchors.insert(kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    anchors
}

/// The pages below `docs` that a text names by their path from the root.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    let is_of_path = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let words = text.split(move |letter| !is_of_path(letter)).filter(|word| word.starts_with("docs/"));
    words.filter_map(|word| word.rfind(".md").map(|end| word.split_at(end + 3).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in files with these names and texts, in which `~` is the folder of documents: this file is checked too.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let whole = |text: &str| text.replace('~', "docs");
        let files = files.iter().map(|(name, text)| (PathBuf::from(whole(name)), whole(text)));
        broken(&files.collect()).iter().map(|line| line.replace("docs", "~")).collect()
    }

    #[test]
    fn what_is_there_is_not_told() {
        let docs =
            "# The page\n\n## `Two` words, and more\n[it](#two-words-and-more) [up](../README.md) [folder](more)";
        let readme = "[page](~/page.md#the-page) [site](https://example.org/x.md#y) [crate](Request::text) \
                      [code](host/main.rs#L1)";
        let code = "//! See `~/page.md`, and [~/page.md].";
        let files = [("~/page.md", docs), ("~/more/a.svg", ""), ("README.md", readme), ("host/main.rs", code)];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn what_leads_nowhere_is_told_with_its_place() {
        let page = "# One\n```\n# two\n```\n[a](other.md) [b](#two) [c](../~/page.md#on)";
        let files = [("~/page.md", page), ("host/a.rs", "// ~/gone.md. And ~/page.md, ~/page/x.md")];
        assert_eq!(
            found(&files),
            [
                "~/page.md: other.md leads to no file",
                "~/page.md: #two leads to no heading",
                "~/page.md: ../~/page.md#on leads to no heading",
                "host/a.rs: there is no ~/gone.md",
                "host/a.rs: there is no ~/page/x.md",
            ]
        );
    }
}
