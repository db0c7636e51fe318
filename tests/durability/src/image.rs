//! What a folder has: its folders and files.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use crate::record;

/// Paths of folders (with `None`) and of files. A folder comes before what is in it.
pub(crate) type Image = BTreeMap<String, Option<Vec<u8>>>;

/// Writes an image to a new folder.
pub(crate) fn write(image: &Image, root: &Path) -> io::Result<()> {
    fs::create_dir_all(root)?;
    for (path, bytes) in image {
        let path = root.join(path);
        match bytes {
            Some(bytes) => fs::write(path, bytes)?,
            None => {
                fs::create_dir(&path)?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
            }
        }
    }
    Ok(())
}

/// Reads a folder.
pub(crate) fn read(root: &Path) -> io::Result<Image> {
    let mut image = Image::new();
    walk(root, "", &mut |path, data, absolute| {
        let bytes = if data.is_dir() { None } else { Some(fs::read(absolute)?) };
        image.insert(path.to_owned(), bytes);
        Ok(())
    })?;
    Ok(image)
}

/// The entries of a record that make what a folder has now, all of it certain. It is the begin of a record.
pub(crate) fn entries(root: &Path) -> io::Result<Vec<u8>> {
    let root_inode = fs::metadata(root)?.ino();
    let mut entries = record::entry(b'm', &[root_inode], b"");
    let mut inodes = vec![root_inode];
    walk(root, "", &mut |path, data, absolute| {
        let inode = data.ino();
        inodes.push(inode);
        if data.is_dir() {
            entries.extend(record::entry(b'm', &[inode], path.as_bytes()));
        } else {
            entries.extend(record::entry(b'o', &[inode, 0], path.as_bytes()));
            entries.extend(record::entry(b'w', &[inode, 0], &fs::read(absolute)?));
        }
        Ok(())
    })?;
    for (sync, inode) in (0..).zip(inodes) {
        entries.extend(record::entry(b's', &[sync, inode], b""));
        entries.extend(record::entry(b'S', &[sync, 1], b""));
    }
    Ok(entries)
}

fn walk(
    folder: &Path,
    above: &str,
    act: &mut impl FnMut(&str, &fs::Metadata, &Path) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if above.is_empty() { name } else { format!("{above}/{name}") };
        let data = entry.metadata()?;
        act(&path, &data, &entry.path())?;
        if data.is_dir() {
            walk(&entry.path(), &path, act)?;
        }
    }
    Ok(())
}
