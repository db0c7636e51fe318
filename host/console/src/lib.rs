//! The files of the console: the pages of `console/`, built by the build script and held in the program, compressed.
//!
//! A build without Node.js has no files; then [`is_built`] is false, and whoever serves the console says so.

use std::io::Read;

/// A built file. Its name has a hash of its content, except for [`PAGE`].
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

    #[test]
    fn the_page_has_no_inline_code_and_loads_little() {
        let Some(page) = file(PAGE) else { return };
        let text = String::from_utf8(page.plain().unwrap()).unwrap();
        assert!(!text.contains("<style") && !text.contains("style=") && !text.contains(" on"), "{text}");
        let mut first = page.gzip.len();
        for part in text.split("/console/assets/").skip(1) {
            let name = part.split('"').next().unwrap();
            first += file(name).unwrap_or_else(|| panic!("{name} is missing")).gzip.len();
        }
        assert!(first <= FIRST, "{first} bytes are loaded first");
        for script in text.split("<script").skip(1) {
            assert!(script.contains("src=\"/console/assets/"), "{script}");
        }
    }
}
