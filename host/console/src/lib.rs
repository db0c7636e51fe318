//! The files of the console: the pages of `console/`, built by the build script and held in the program, compressed.
//!
//! A build without Node.js has no files; then [`is_built`] is false, and whoever serves the console says so.

use std::io::Read;

/// A built file. Its name has a hash of its content, except for [`PAGE`] and [`LICENCES`].
#[derive(Debug, Clone, Copy)]
pub struct File {
    /// The name, without a folder.
    pub name: &'static str,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The content, compressed with gzip.
    pub gzip: &'static [u8],
    /// The content, compressed with Brotli.
    pub brotli: &'static [u8],
}

/// The name of the page that loads all other files.
pub const PAGE: &str = "index.html";

/// The name of the list of packages that are in the files, with their licences.
pub const LICENCES: &str = "licenses.md";

/// All files, in the order of their names.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Whether this build has the console.
pub fn is_built() -> bool {
    !FILES.is_empty()
}

/// The file of a name.
pub fn file(name: &str) -> Option<&'static File> {
    FILES.binary_search_by(|file| file.name.cmp(name)).ok().and_then(|at| FILES.get(at))
}

impl File {
    /// The content without compression, for the few clients that accept none.
    ///
    /// # Errors
    /// The embedded content is damaged.
    pub fn plain(&self) -> std::io::Result<Vec<u8>> {
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut content)?;
        Ok(content)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// The most that may be loaded before the first interaction, compressed with gzip, in bytes.
    const FIRST: usize = 300 << 10;

    #[test]
    fn files_are_found_and_can_be_decompressed() {
        assert!(FILES.is_sorted_by_key(|file| file.name));
        for one in FILES {
            assert_eq!(file(one.name).unwrap().gzip.as_ptr(), one.gzip.as_ptr());
            assert!(!one.plain().unwrap().is_empty(), "{}", one.name);
        }
        assert!(file("nowhere.js").is_none());
        assert_eq!(is_built(), file(PAGE).is_some());
    }

    /// The completion of functions knows those of the document of the dialect, whose every line is tested.
    #[test]
    fn the_editor_knows_the_functions_of_the_dialect() {
        let runs =
            include_str!("../../../docs/dialect.md").split("\n## ").find(|part| part.starts_with("Runs")).unwrap();
        let cells = runs.lines().filter(|line| line.starts_with('|')).map(|line| line.split(" | ").next().unwrap());
        let mut documented: Vec<&str> = cells.flat_map(names).collect();
        documented.sort_unstable();
        documented.dedup();
        let known = include_str!("../../../console/src/functions.json");
        let known: Vec<&str> = known.split('"').skip(1).step_by(2).collect();
        assert!(documented.len() > 200, "{}", documented.len());
        assert_eq!(known, documented, "console/src/functions.json is out of date");
    }

    /// The functions that a cell of a table names, as in `LOWER()`.
    fn names(cell: &str) -> impl Iterator<Item = &str> {
        let called =
            cell.split('`').skip(1).step_by(2).filter_map(|code| code.split('(').next().filter(|_| code.contains('(')));
        called.filter(|name| {
            name.chars().next().is_some_and(|first| first.is_ascii_uppercase() || first == '_')
                && name.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit() || "_.".contains(char))
        })
    }

    #[test]
    fn packages_have_licences_that_the_project_allows() {
        let Some(list) = file(LICENCES) else { return };
        let text = String::from_utf8(list.plain().unwrap()).unwrap();
        let packages: Vec<&str> = text.lines().filter(|line| line.starts_with("## ") && line.ends_with(')')).collect();
        assert!(packages.len() > 10, "{packages:?}");
        let policy = include_str!("../../../deny.toml");
        for package in packages {
            let licence = package.rsplit('(').next().unwrap().trim_end_matches(')');
            assert!(policy.contains(&format!("\"{licence}\"")), "{package}");
        }
    }

    /// Where packages are fetched from is the builder's choice.
    #[test]
    fn lock_files_name_no_server() {
        for lock in [
            include_str!("../../../console/package-lock.json"),
            include_str!("../../../console/tests/package-lock.json"),
        ] {
            assert!(!lock.contains("\"resolved\""));
        }
    }

    #[test]
    fn the_page_has_no_inline_code_and_loads_little() {
        let Some(page) = file(PAGE) else { return };
        let text = String::from_utf8(page.plain().unwrap()).unwrap();
        assert!(!text.contains("<style") && !text.contains("style=") && !text.contains(" on"), "{text}");
        let named = text.split("/console/assets/").skip(1).map(|part| part.split('"').next().unwrap());
        let first = page.gzip.len() + named.map(|name| file(name).unwrap().gzip.len()).sum::<usize>();
        assert!(first <= FIRST, "{first} bytes are loaded first");
        for script in text.split("<script").skip(1) {
            assert!(script.contains("src=\"/console/assets/"), "{script}");
        }
    }
}
