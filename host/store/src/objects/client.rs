//! Requests to an object store: their number, their time and what comes are bounded.

use std::{fmt, ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    client::{HttpError, SpawnedReqwestConnector},
    path::Path,
};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    objects::{
        counters::{Counters, ObjectStats, add},
        io_runtime::IoRuntime,
        object_error::{ObjectError, first_of},
        outage::Outage,
        synced_folder::SyncedFolder,
        url::StoreUrl,
    },
};

/// How much is asked of a store at a time, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    /// Requests that run at a time; the others wait.
    pub(crate) at_once: usize,
    /// How long a connection may take.
    pub(crate) connect_time: Duration,
    /// How long one try may take, to the last byte of its answer.
    pub(crate) try_time: Duration,
    /// How often a request is tried again.
    pub(crate) retries: usize,
    /// After this time nothing is tried again.
    pub(crate) retry_time: Duration,
    /// How long reading may take in all, from the first try to the last byte.
    pub(crate) read_time: Duration,
    /// For so long after a read that failed, others fail at once; zero for never.
    pub(crate) pause: Duration,
}

impl RequestLimits {
    /// The limits of who must know after `time` whether the store answers.
    pub(crate) fn within(time: Duration) -> RequestLimits {
        let limits = RequestLimits::default();
        RequestLimits {
            connect_time: limits.connect_time.min(time / 4),
            try_time: limits.try_time.min(time / 2),
            retry_time: time,
            read_time: time,
            pause: time / 2,
            ..limits
        }
    }
}

impl Default for RequestLimits {
    fn default() -> Self {
        RequestLimits {
            at_once: 16,
            connect_time: Duration::from_secs(5),
            try_time: Duration::from_secs(20),
            retries: 6,
            retry_time: Duration::from_secs(40),
            read_time: Duration::from_secs(80),
            pause: Duration::ZERO,
        }
    }
}

/// An answer without an error that has not all of its bytes.
const CUT: ObjectError = ObjectError::Refused("the object store cuts its answers");

/// The objects at an address.
pub(crate) struct ObjectClient {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    places: Semaphore,
    limits: RequestLimits,
    outage: Outage,
    pub(crate) counters: Arc<Counters>,
}

impl fmt::Debug for ObjectClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store would print what it was made of.
        f.debug_struct("ObjectClient").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl ObjectClient {
    /// The objects at an address. `settings` are those of the environment: `AWS_ACCESS_KEY_ID` and the others that AWS
    /// documents, `AWS_ENDPOINT_URL` for other stores, and `AWS_ALLOW_HTTP=true` for one without TLS.
    ///
    /// # Errors
    /// [`StoreError::ObjectStore`] if the settings contradict each other, or if there is no such folder.
    pub(crate) fn open(
        url: &StoreUrl,
        settings: impl IntoIterator<Item = (String, String)>,
        limits: RequestLimits,
        runtime: &IoRuntime,
    ) -> Result<ObjectClient> {
        let refused = |error: object_store::Error| StoreError::ObjectStore { reason: error.to_string() };
        let (bucket, prefix) = match url {
            StoreUrl::Folder(folder) => {
                let store = Arc::new(SyncedFolder::new(folder).map_err(refused)?);
                return Ok(ObjectClient::new(store, Path::default(), limits));
            }
            StoreUrl::Bucket { bucket, prefix } => (bucket, prefix),
        };
        let options = ClientOptions::new().with_connect_timeout(limits.connect_time).with_timeout(limits.try_time);
        let retry = RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: limits.retries,
            retry_timeout: limits.retry_time,
        };
        let mut builder = AmazonS3Builder::new().with_client_options(options);
        for (name, value) in settings {
            if name.starts_with("AWS_")
                && let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>()
            {
                builder = builder.with_config(key, value);
            }
        }
        let connector = SpawnedReqwestConnector::new(runtime.handle().clone());
        let store = builder.with_bucket_name(bucket).with_retry(retry).with_http_connector(connector).build();
        Ok(ObjectClient::new(Arc::new(store.map_err(refused)?), prefix.clone(), limits))
    }

    fn new(store: Arc<dyn ObjectStore>, prefix: Path, limits: RequestLimits) -> ObjectClient {
        let (places, outage) = (Semaphore::new(limits.at_once), Outage::new(limits.pause));
        ObjectClient { store, prefix, places, limits, outage, counters: Arc::default() }
    }

    /// Where the segments of all sources are.
    pub(crate) fn folder(&self) -> Path {
        self.prefix.clone().join("segments")
    }

    /// Where a segment is.
    pub(crate) fn place(&self, source: Uuid, segment: Uuid) -> Path {
        self.folder().join(source.to_string()).join(paths::segment_file(segment))
    }

    /// What reading took so far.
    pub(crate) fn stats(&self) -> ObjectStats {
        self.counters.stats(self.outage.is_on())
    }

    /// Bytes of an object that has `size` bytes.
    pub(crate) async fn read(&self, object: &Path, size: u64, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let Ok(_place) = self.places.acquire().await else {
            return Err(ObjectError::Refused("the object store was closed"));
        };
        // Those that waited for a place learn here what came of those before them.
        if let Some(why) = self.outage.refuses() {
            add(&self.counters.refused_requests, 1);
            return Err(why);
        }
        add(&self.counters.requests, 1);
        // The library tries again within its time; this is for an answer that never ends.
        let read = tokio::time::timeout(self.limits.read_time, self.try_to_read(object, size, range)).await;
        let read = read.unwrap_or(Err(ObjectError::Refused("the object store does not answer in time")));
        self.outage.note(read.as_ref().err());
        match &read {
            Ok(bytes) => add(&self.counters.fetched_bytes, bytes.len() as u64),
            Err(_) => add(&self.counters.failed_requests, 1),
        }
        read
    }

    async fn try_to_read(&self, object: &Path, size: u64, range: Range<u64>) -> Result<Bytes, ObjectError> {
        let length = range.end.saturating_sub(range.start);
        let mut tries = 0;
        loop {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            let read = async {
                let got = self.store.get_opts(object, options).await?;
                let found = got.meta.size;
                Ok((found, got.bytes().await?))
            };
            let why = match read.await {
                Ok((found, _)) if found != size => return Err(ObjectError::OtherLength { found, named: size }),
                Ok((_, bytes)) if bytes.len() as u64 == length => return Ok(bytes),
                Ok((_, bytes)) => {
                    tracing::warn!(%object, length, came = bytes.len(), "an object store sent another number of bytes than it was asked for");
                    CUT
                }
                Err(error) => {
                    let error: object_store::Error = error;
                    tracing::warn!(%object, %error, "an object cannot be read");
                    // A range behind the end is refused like anything else.
                    let is_unclear =
                        matches!(error, object_store::Error::Generic { .. }) && first_of::<HttpError>(&error).is_none();
                    let found = if is_unclear { self.store.head(object).await.ok() } else { None };
                    match found.map(|found| found.size).filter(|found| *found != size) {
                        Some(found) => ObjectError::OtherLength { found, named: size },
                        None => ObjectError::of(&error),
                    }
                }
            };
            // Only what the library does not try again by itself.
            tries += 1;
            if tries > 2 || why != CUT {
                return Err(why);
            }
        }
    }
}

/// The error of a request that failed.
pub(crate) fn refused(what: &str, error: &object_store::Error) -> StoreError {
    tracing::warn!(what, %error, "the object store refuses");
    StoreError::ObjectStore { reason: format!("{what}: {}", ObjectError::of(error)) }
}

/// The settings of the environment.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
