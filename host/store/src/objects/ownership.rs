//! Whose the copies at an address are: of one catalog, and at a time of one server.
//!
//! `owner.json` says which catalog the copies belong to: a store of another catalog would take them for its own leftovers and
//! delete them. `epochs/NUMBER.json` says which data folder has had the catalog from then on. A server that starts creates
//! the next one, which only one of several can do. A server that finds a later epoch than its own has been replaced by another
//! data folder, which was recovered from the copies, and changes nothing there any more.
//!
//! Either may be unreadable: a power cut may leave an empty object in a folder that is used as a store. Then the copies of the
//! catalog say it, which have the identities of their catalog and of the data folder that put them.

use chrono::{DateTime, Utc};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStoreExt, PutMode, PutOptions, path::Path as ObjectPath};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    clock::now_micros,
    error::{Result, StoreError},
    objects::{
        catalog_object::{self, CatalogHeader, CatalogName},
        client::{ObjectClient, refused},
    },
};

/// Which catalog the copies belong to.
const OWNER: &str = "owner.json";

/// The folder of the epochs, below the prefix of the address.
const EPOCHS: &str = "epochs";

/// So many of the last epochs are kept.
const KEPT_EPOCHS: u64 = 32;

/// Objects that are deleted at a time.
const DELETED_AT_ONCE: usize = 8;

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    #[serde(with = "crate::uuid_text")]
    catalog: Uuid,
}

/// What an epoch says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Epoch {
    /// The data folder that has it.
    #[serde(with = "crate::uuid_text")]
    writer: Uuid,
    /// When it was taken, in microseconds since 1970, UTC.
    taken_at: i64,
}

/// Another data folder has the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) epoch: u64,
    /// Since when, in microseconds since 1970, UTC; 0 if its object cannot be read.
    pub(crate) taken_at: i64,
}

impl Replacement {
    pub(crate) fn error(self) -> StoreError {
        let since = DateTime::<Utc>::from_timestamp_micros(self.taken_at).unwrap_or_default();
        StoreError::Replaced { epoch: self.epoch, since: since.format("%Y-%m-%dT%H:%M:%SZ").to_string() }
    }
}

/// The catalog that the copies belong to; `None` if nobody has them. The inner error is what the object says instead.
pub(crate) async fn owner(client: &ObjectClient) -> Result<Option<Result<Uuid, String>>> {
    let object = owner_object(client);
    Ok(match get_json::<Owner>(client, &object, "asking whose segments are there").await? {
        None => None,
        Some(Ok(owner)) => Some(Ok(owner.catalog)),
        Some(Err(_)) => Some(owner_by_copies(client).await?.ok_or_else(|| "unreadable".to_owned())),
    })
}

/// The catalog of which the newest readable copy is.
async fn owner_by_copies(client: &ObjectClient) -> Result<Option<Uuid>> {
    for name in list_catalogs(client).await?.into_iter().rev() {
        if let Some(header) = header_of(client, name).await? {
            return Ok(Some(header.catalog));
        }
    }
    Ok(None)
}

/// The header of a copy of the catalog, if it can be read.
async fn header_of(client: &ObjectClient, name: CatalogName) -> Result<Option<CatalogHeader>> {
    let (object, what) = (name.place(&client.prefix), "reading a copy of the catalog");
    let bytes = match client.store.get(&object).await {
        Ok(found) => found.bytes().await.map_err(|error| refused(what, &error))?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(refused(what, &error)),
    };
    Ok(catalog_object::header(&bytes))
}

/// The object that says which catalog the copies belong to.
pub(crate) fn owner_object(client: &ObjectClient) -> ObjectPath {
    client.prefix.clone().join(OWNER)
}

/// Makes sure that the copies are those of this catalog.
///
/// # Errors
/// [`StoreError::OtherOwner`], [`StoreError::ObjectStore`].
pub(crate) async fn claim_owner(client: &ObjectClient, catalog: Uuid, writer: Uuid) -> Result<()> {
    let what = "saying whose segments are there";
    let mut may_put = true;
    loop {
        let other = match owner(client).await? {
            Some(Ok(owner)) if owner == catalog => return write_owner_again(client, catalog).await,
            Some(Ok(other)) => other.to_string(),
            // There is no copy of a catalog. If this data folder had the last epoch, it was writing the object.
            Some(Err(_)) if last_writer(client).await? == Some(Some(writer)) => {
                return write_owner_again(client, catalog).await;
            }
            // Nothing is there but the object, which somebody was writing for the first time.
            Some(Err(_)) if is_alone(client).await? => return write_owner_again(client, catalog).await,
            Some(Err(other)) => other,
            // Only one of two that begin at the same time gets it; what is there is read again.
            None if may_put => {
                create_json(client, &owner_object(client), &Owner { catalog }, what).await?;
                may_put = false;
                continue;
            }
            None => return Err(StoreError::ObjectStore { reason: format!("{what}: what was put is not there") }),
        };
        return Err(StoreError::OtherOwner { other, object: owner_object(client).to_string() });
    }
}

/// Whether the object that says which catalog the copies belong to is empty, and nobody has put anything else there.
async fn is_alone(client: &ObjectClient) -> Result<bool> {
    let listed = client.store.list(Some(&client.prefix)).take(2);
    let listed: Vec<_> = listed.try_collect().await.map_err(|error| refused("listing what is there", &error))?;
    Ok(listed.iter().all(|object| object.size == 0 && object.location == owner_object(client)))
}

/// Writes the object that says which catalog the copies belong to, if it cannot be read.
async fn write_owner_again(client: &ObjectClient, catalog: Uuid) -> Result<()> {
    let (object, what) = (owner_object(client), "saying whose segments are there");
    if get_json::<Owner>(client, &object, what).await?.is_some_and(|said| said.is_ok()) {
        return Ok(());
    }
    tracing::warn!(%object, %catalog, "an object that cannot be read is written again by what else is there");
    let body = serde_json::to_vec(&Owner { catalog }).map_err(|error| StoreError::corrupt("an object", error))?;
    client.store.put(&object, body.into()).await.map_err(|error| refused(what, &error))?;
    Ok(())
}

/// Whose epoch may come before the one that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Only that of the same data folder.
    Own,
    /// Anyone's: the data folder takes the place of another one.
    Any,
}

/// Takes the next epoch for a data folder. The inner error is the last one, if another data folder has it and may not.
///
/// # Errors
/// [`StoreError::ObjectStore`].
pub(crate) async fn take_epoch(
    client: &ObjectClient,
    writer: Uuid,
    before: Before,
) -> Result<Result<u64, Replacement>> {
    let listed = list_epochs(client).await?;
    if before == Before::Own
        && let Some((said, replacement)) = last_taken(client, &listed).await?
        && said != Some(writer)
    {
        return Ok(Err(replacement));
    }
    let mut last = listed.iter().copied().max().unwrap_or(0);
    // Epochs that somebody deleted are not given again.
    let named = list_catalogs(client).await?.last().map_or(0, |name| name.epoch);
    last = last.max(named);
    loop {
        let epoch = last + 1;
        let said = Epoch { writer, taken_at: now_micros() };
        if create_json(client, &place(client, epoch), &said, "taking an epoch").await? {
            let old = listed.into_iter().filter(|old| old + KEPT_EPOCHS < epoch).map(|old| place(client, old));
            // The next start tries again.
            let _ = delete_objects(client, old.collect(), "deleting old epochs").await;
            return Ok(Ok(epoch));
        }
        // Taken between the two requests, or left out of the list.
        if before == Before::Own
            && let Some(other) = other_than(client, epoch, writer).await?
        {
            return Ok(Err(other));
        }
        last = epoch;
    }
}

/// An epoch, if a data folder other than this one has it.
async fn other_than(client: &ObjectClient, epoch: u64, writer: Uuid) -> Result<Option<Replacement>> {
    let said = last_taken(client, &[epoch]).await?;
    Ok(said.filter(|(said, _)| *said != Some(writer)).map(|(_, replacement)| replacement))
}

/// Who has the last of these epochs, if that is known, and since when; `None` if nobody has one of them. An epoch that cannot
/// be read is that of the data folder that put copies of the catalog in it. Without any, nobody has done anything in it.
async fn last_taken(client: &ObjectClient, listed: &[u64]) -> Result<Option<(Option<Uuid>, Replacement)>> {
    let mut epochs = listed.to_vec();
    epochs.sort_unstable();
    for epoch in epochs.into_iter().rev() {
        match get_json::<Epoch>(client, &place(client, epoch), "reading an epoch").await? {
            None => {}
            Some(Ok(Epoch { writer, taken_at })) => {
                return Ok(Some((Some(writer), Replacement { epoch, taken_at })));
            }
            Some(Err(_)) => {
                let names = list_catalogs(client).await?;
                if let Some(name) = names.into_iter().rev().find(|name| name.epoch == epoch) {
                    let header = header_of(client, name).await?;
                    let writer = header.and_then(|header| Uuid::parse_str(&header.writer).ok());
                    return Ok(Some((writer, Replacement { epoch, taken_at: 0 })));
                }
            }
        }
    }
    Ok(None)
}

/// The newest epoch, if it is later than this one. That after this one may be gone: only the last ones are kept, and this
/// server may have been stopped for long. It is asked for all the same, for stores whose lists are behind.
pub(crate) async fn later_epoch(client: &ObjectClient, epoch: u64) -> Result<Option<Replacement>> {
    let listed = list_epochs(client).await?;
    let newest = listed.into_iter().max().unwrap_or(0).max(epoch + 1);
    let said = get_json::<Epoch>(client, &place(client, newest), "asking for a later epoch").await?;
    Ok(said.map(|said| Replacement { epoch: newest, taken_at: said.map_or(0, |said| said.taken_at) }))
}

/// The data folder that has the last epoch: `None` if nobody has one, the inner one if it is not known who.
pub(crate) async fn last_writer(client: &ObjectClient) -> Result<Option<Option<Uuid>>> {
    let listed = list_epochs(client).await?;
    Ok(last_taken(client, &listed).await?.map(|(writer, _)| writer))
}

async fn list_epochs(client: &ObjectClient) -> Result<Vec<u64>> {
    let folder = client.prefix.clone().join(EPOCHS);
    let listed = list(client, &folder, "listing epochs").await?;
    Ok(listed.iter().filter_map(|object| number_of(client, object)).collect())
}

fn place(client: &ObjectClient, epoch: u64) -> ObjectPath {
    client.prefix.clone().join(EPOCHS).join(format!("{epoch:010}.json"))
}

fn number_of(client: &ObjectClient, object: &ObjectPath) -> Option<u64> {
    let epoch = object.filename()?.strip_suffix(".json")?.parse().ok()?;
    (place(client, epoch) == *object).then_some(epoch)
}

/// The copies of catalogs that are there, the oldest first.
pub(crate) async fn list_catalogs(client: &ObjectClient) -> Result<Vec<CatalogName>> {
    let folder = client.prefix.clone().join(catalog_object::FOLDER);
    let listed = list(client, &folder, "listing copies of the catalog").await?;
    let mut names: Vec<_> = listed.iter().filter_map(|object| CatalogName::of(&client.prefix, object)).collect();
    names.sort();
    Ok(names)
}

/// Deletes objects, those that are not there too.
pub(crate) async fn delete_objects(client: &ObjectClient, objects: Vec<ObjectPath>, what: &str) -> Result<()> {
    let delete = async |object: ObjectPath| match client.store.delete(&object).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(refused(what, &error)),
    };
    stream::iter(objects).map(delete).buffer_unordered(DELETED_AT_ONCE).try_collect::<()>().await
}

async fn list(client: &ObjectClient, folder: &ObjectPath, what: &str) -> Result<Vec<ObjectPath>> {
    let listed = client.store.list(Some(folder)).map_ok(|object| object.location);
    listed.try_collect().await.map_err(|error| refused(what, &error))
}

async fn get_json<T: DeserializeOwned>(
    client: &ObjectClient,
    object: &ObjectPath,
    what: &str,
) -> Result<Option<serde_json::Result<T>>> {
    match client.store.get(object).await {
        Ok(found) => {
            let said = found.bytes().await.map_err(|error| refused(what, &error))?;
            Ok(Some(serde_json::from_slice(&said)))
        }
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(refused(what, &error)),
    }
}

/// Creates an object; false if there is one.
async fn create_json<T: Serialize>(client: &ObjectClient, object: &ObjectPath, value: &T, what: &str) -> Result<bool> {
    let body = serde_json::to_vec(value).map_err(|error| StoreError::corrupt("an object", error))?;
    match client.store.put_opts(object, body.into(), PutOptions::from(PutMode::Create)).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
        Err(error) => Err(refused(what, &error)),
    }
}
