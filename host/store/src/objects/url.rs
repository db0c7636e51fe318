//! The address of a store of segments.

use std::path::{Path, PathBuf};

use object_store::path::Path as ObjectPath;

use crate::error::{Result, StoreError};

/// Where segments lie. In each of them a segment is `segments/SOURCE/SEGMENT.parquet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// `file:///FOLDER`: a folder, such as a data folder.
    Folder(PathBuf),
    /// `s3://BUCKET/PREFIX`, or without a prefix.
    Bucket { bucket: String, prefix: ObjectPath },
}

impl StoreUrl {
    /// # Errors
    /// [`StoreError::BadUrl`].
    pub(crate) fn parse(url: &str) -> Result<StoreUrl> {
        let bad = |reason| StoreError::BadUrl { url: url.to_owned(), reason };
        if let Some(folder) = url.strip_prefix("file://") {
            let folder = Path::new(folder);
            return match folder.is_absolute() {
                true => Ok(StoreUrl::Folder(folder.to_owned())),
                false => Err(bad("after file:// stands an absolute path, so that there are three slashes")),
            };
        }
        let Some(rest) = url.strip_prefix("s3://") else {
            return Err(bad("it begins with s3:// or file://"));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_bucket = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || b".-_".contains(&letter);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_bucket) {
            return Err(bad("the name of a bucket has 3 to 63 letters from a to z, digits, dots and hyphens"));
        }
        if prefix.contains(['?', '#', '%']) {
            return Err(bad("a prefix has no question mark, number sign or percent sign"));
        }
        let prefix = ObjectPath::parse(prefix)
            .map_err(|_| bad("its prefix has an empty part, a dot part or a letter that is not allowed"))?;
        Ok(StoreUrl::Bucket { bucket: bucket.to_owned(), prefix })
    }

    /// Makes sure that copies at this address are not in the data folder itself, nor it among them.
    ///
    /// # Errors
    /// [`StoreError::BadUrl`].
    pub(crate) fn check_apart(&self, url: &str, data: &Path) -> Result<()> {
        let StoreUrl::Folder(folder) = self else { return Ok(()) };
        if folder.canonicalize().is_ok_and(|folder| folder.starts_with(data) || data.starts_with(folder)) {
            let reason = "the data folder cannot have the copies of its own segments";
            return Err(StoreError::BadUrl { url: url.to_owned(), reason });
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_folders_or_buckets() {
        let bucket = |prefix: &str| StoreUrl::Bucket { bucket: "logs-1".to_owned(), prefix: ObjectPath::from(prefix) };
        for (url, expected) in [
            ("file:///srv/logs", StoreUrl::Folder("/srv/logs".into())),
            ("s3://logs-1", bucket("")),
            ("s3://logs-1/", bucket("")),
            ("s3://logs-1/a/b", bucket("a/b")),
            ("s3://logs-1/a/b/", bucket("a/b")),
        ] {
            assert_eq!(StoreUrl::parse(url).unwrap(), expected, "{url}");
        }
        for url in [
            "",
            "logs",
            "/srv/logs",
            "file://srv/logs",
            "file://",
            "s3://",
            "s3://a",
            "s3://A-bucket",
            "s3:///a",
            "s3://logs-1/a//b",
            "s3://logs-1/../b",
            "s3://logs-1/./b",
            "s3://logs-1/a?b",
            "s3://user@logs-1/a",
            "http://logs-1/a",
            "s3://logs-1/a\nb",
        ] {
            assert!(matches!(StoreUrl::parse(url), Err(StoreError::BadUrl { .. })), "{url}");
        }
    }
}
