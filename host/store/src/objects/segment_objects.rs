//! Segments as objects: putting a file, and listing what is there.

use std::{fs::File, io::Read};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::TryStreamExt;
use object_store::{ObjectStoreExt, WriteMultipart, path::Path as ObjectPath};
use uuid::Uuid;

use crate::{
    error::{Result, StoreError},
    objects::client::{ObjectClient, refused},
};

/// A file of more bytes is put in parts of so many.
const PART_BYTES: usize = 8 << 20;

/// Parts that are on their way at a time.
const PARTS_AT_ONCE: usize = 3;

/// A copy of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentCopy {
    pub(crate) source: Uuid,
    pub(crate) segment: Uuid,
    pub(crate) bytes: u64,
    pub(crate) written: DateTime<Utc>,
}

/// Puts the file of a segment, given by source and segment, and compares the length of what is there then.
pub(crate) async fn put_segment(client: &ObjectClient, of: (Uuid, Uuid), file: File, bytes: u64) -> Result<()> {
    let (source, segment) = of;
    let object = client.place(source, segment);
    let what = format!("putting segment {segment}");
    let failed = |error: object_store::Error| refused(&what, &error);
    let reading = || StoreError::io(format!("reading segment {segment}"));
    let mut parts = Parts { file };
    match parts.next().map_err(reading())? {
        Some(first) if (first.len() as u64) < bytes => {
            let upload = client.store.put_multipart(&object).await.map_err(failed)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            let mut next = Some(first);
            let written = loop {
                let Some(part) = next else { break Ok(()) };
                upload.put(part);
                if let Err(error) = upload.wait_for_capacity(PARTS_AT_ONCE).await {
                    break Err(failed(error));
                }
                match parts.next().map_err(reading()) {
                    Ok(part) => next = part,
                    Err(error) => break Err(error),
                }
            };
            match written {
                Ok(()) => drop(upload.finish().await.map_err(failed)?),
                Err(error) => {
                    // Otherwise the parts stay until the store deletes them by a rule of its own.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
        }
        first => drop(client.store.put(&object, first.unwrap_or_default().into()).await.map_err(failed)?),
    }
    let found = client.store.head(&object).await.map_err(failed)?.size;
    if found != bytes {
        let _ = client.store.delete(&object).await;
        let reason = format!("segment {segment} has {found} bytes there, and should have {bytes}");
        return Err(StoreError::ObjectStore { reason });
    }
    Ok(())
}

/// The copies in a folder: that of all segments, or that of a source. Objects with other names than those of segments are
/// left out.
pub(crate) async fn list_segments(client: &ObjectClient, folder: &ObjectPath) -> Result<Vec<SegmentCopy>> {
    let all = client.folder();
    let listed = client.store.list(Some(folder)).try_filter_map(|object| {
        let copy = named(&all, &object.location).map(|(source, segment)| SegmentCopy {
            source,
            segment,
            bytes: object.size,
            written: object.last_modified,
        });
        futures::future::ready(Ok(copy))
    });
    listed.try_collect().await.map_err(|error| refused("listing segments", &error))
}

/// A file in parts.
struct Parts {
    file: File,
}

impl Parts {
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let mut part = Vec::new();
        Read::by_ref(&mut self.file).take(PART_BYTES as u64).read_to_end(&mut part)?;
        Ok((!part.is_empty()).then(|| part.into()))
    }
}

/// The source and the segment of an object that has a name as [`ObjectClient::place`] gives it.
fn named(folder: &ObjectPath, object: &ObjectPath) -> Option<(Uuid, Uuid)> {
    let parts: Vec<_> = object.prefix_match(folder)?.collect();
    let [source, file] = parts.as_slice() else { return None };
    let (source, segment) = (source.as_ref(), file.as_ref().strip_suffix(".parquet")?);
    let ids = (Uuid::parse_str(source).ok()?, Uuid::parse_str(segment).ok()?);
    (ids.0.to_string() == source && ids.1.to_string() == segment).then_some(ids)
}
