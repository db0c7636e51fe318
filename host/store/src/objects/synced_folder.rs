//! A folder as an object store whose objects survive a power cut.
//!
//! The library's own does not sync: after a power cut an object that was put may be empty, or gone. Here an object is written
//! under another name, synced, given its name, and the folders with the new names are synced. Reading is the library's.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart, local::LocalFileSystem, path::Path,
};
use uuid::Uuid;

use crate::data_folder::sync::sync_folder;

/// A folder as an object store.
#[derive(Debug)]
pub(crate) struct SyncedFolder {
    root: PathBuf,
    inner: LocalFileSystem,
}

impl SyncedFolder {
    /// # Errors
    /// There is no such folder.
    pub(crate) fn new(folder: &FilePath) -> Result<SyncedFolder> {
        let inner = LocalFileSystem::new_with_prefix(folder)?;
        Ok(SyncedFolder { root: fs::canonicalize(folder).map_err(failed)?, inner })
    }

    fn begin(&self, location: &Path) -> Result<Staged> {
        let target = self.inner.path_to_filesystem(location)?;
        Staged::begin(&self.root, target).map_err(failed)
    }
}

impl fmt::Display for SyncedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.inner, f)
    }
}

fn failed(error: io::Error) -> Error {
    let source = error.into();
    Error::Generic { store: "folder", source }
}

/// Runs what blocks on a thread for that.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)
}

/// An object that has no name yet. It is deleted unless it gets one.
#[derive(Debug)]
struct Staged {
    file: Arc<File>,
    path: PathBuf,
    target: PathBuf,
}

impl Staged {
    fn begin(root: &FilePath, target: PathBuf) -> io::Result<Staged> {
        let parent = target.parent().unwrap_or(root);
        create_folders(root, parent)?;
        // Names with a number after `#` are no objects for the library.
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!("#{}", Uuid::new_v4().as_u128()));
        let path = parent.join(name);
        Ok(Staged { file: Arc::new(File::create_new(&path)?), path, target })
    }

    /// Gives it its name, durably. False if there is an object with the name that it may not replace.
    fn finish(self, may_replace: bool) -> io::Result<bool> {
        self.file.sync_all()?;
        if may_replace {
            fs::rename(&self.path, &self.target)?;
        } else {
            match fs::hard_link(&self.path, &self.target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                linked => linked?,
            }
        }
        let synced = self.target.parent().map_or(Ok(()), sync_folder).map_err(io::Error::other);
        if synced.is_err() && !may_replace {
            // Else who tries again would find an object that a power cut may take.
            let _ = fs::remove_file(&self.target);
        }
        synced.map(|()| true)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // It is not there any more if it got its name.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a folder below `root`, durably.
fn create_folders(root: &FilePath, folder: &FilePath) -> io::Result<()> {
    if folder == root || folder.is_dir() {
        return Ok(());
    }
    let Some(parent) = folder.parent() else { return Ok(()) };
    create_folders(root, parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_folder(parent).map_err(io::Error::other)
}

const PUT: PutResult = PutResult { e_tag: None, version: None };

#[async_trait]
impl ObjectStore for SyncedFolder {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let may_replace = match opts.mode {
            PutMode::Overwrite => true,
            PutMode::Create => false,
            PutMode::Update(_) => return self.inner.put_opts(location, payload, opts).await,
        };
        let (root, target) = (self.root.clone(), self.inner.path_to_filesystem(location)?);
        let is_new = blocking(move || {
            let staged = Staged::begin(&root, target)?;
            let mut file = staged.file.as_ref();
            payload.iter().try_for_each(|part| file.write_all(part))?;
            staged.finish(may_replace)
        });
        if is_new.await? {
            return Ok(PUT);
        }
        let source = io::Error::from(io::ErrorKind::AlreadyExists).into();
        Err(Error::AlreadyExists { path: location.to_string(), source })
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Ok(Box::new(Upload { staged: Some(self.begin(location)?), bytes: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// An object that is put in parts.
#[derive(Debug)]
struct Upload {
    /// `None` after it is complete, or was given up.
    staged: Option<Staged>,
    bytes: u64,
}

impl Upload {
    fn over() -> io::Error {
        io::Error::other("the upload is over")
    }
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let file = self.staged.as_ref().map(|staged| Arc::clone(&staged.file));
        let at = self.bytes;
        self.bytes += data.content_length() as u64;
        Box::pin(blocking(move || {
            let file = file.ok_or_else(Upload::over)?;
            data.iter().try_fold(at, |at, part| file.write_all_at(part, at).map(|()| at + part.len() as u64)).map(drop)
        }))
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let staged = self.staged.take().ok_or_else(|| failed(Upload::over()))?;
        blocking(move || staged.finish(true)).await.map(|_| PUT)
    }

    async fn abort(&mut self) -> Result<()> {
        self.staged = None;
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;
    use crate::tests::folders::{fail_next, syncs};

    #[tokio::test]
    async fn an_object_has_its_name_when_it_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let store = SyncedFolder::new(&root).unwrap();
        let (name, folder) = (Path::from("a/b/c"), root.join("a/b"));
        store.put(&name, "one".into()).await.unwrap();
        assert_eq!((syncs(&root), syncs(&root.join("a")), syncs(&folder)), (1, 1, 1));
        let create = || store.put_opts(&name, "two".into(), PutOptions::from(PutMode::Create));
        assert!(matches!(create().await, Err(Error::AlreadyExists { .. })));
        store.put(&name, "three".into()).await.unwrap();
        assert_eq!(fs::read(folder.join("c")).unwrap(), b"three");
        // Who is not told that it is there may find it all the same, and puts it again.
        fail_next(&folder);
        store.put(&name, "four".into()).await.unwrap_err();
        let mut upload = store.put_multipart(&name).await.unwrap();
        let parts = ["fi".into(), "ve".into()].map(|part| upload.put_part(part));
        for part in parts.into_iter().rev() {
            part.await.unwrap();
        }
        assert_eq!(fs::read(folder.join("c")).unwrap(), b"four");
        upload.complete().await.unwrap();
        assert_eq!(fs::read(folder.join("c")).unwrap(), b"five");
        let mut given_up = store.put_multipart(&name).await.unwrap();
        given_up.put_part("six".into()).await.unwrap();
        given_up.abort().await.unwrap();
        let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["c"]);
        store.delete(&name).await.unwrap();
        assert!(matches!(store.get(&name).await, Err(Error::NotFound { .. })));
    }
}
