//! `tidegate worker`: runs parts of statements for servers until SIGTERM or Ctrl-C.

use std::error::Error;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sd_notify::NotifyState;
use tidegate_model::{Limits, Unit, number, size};
use tidegate_service::Options;
use tidegate_sql::EngineOptions;
use tidegate_store::{SegmentCache, SegmentFiles, is_store_url};
use tidegate_tls::{ClientTls, ServerTls, TlsFiles};
use tidegate_workers::{Accept, Connect, PROTOCOLS, Worker, WorkerListeners, WorkerOptions, is_loopback};

use crate::outcome::Outcome;
use crate::serve::{BUILD, listen, start_logging};
use crate::signals::{stopped, tell};

/// The least memory of a worker, in bytes.
const LEAST_MEMORY: u64 = 16 << 20;
/// The least memory for footers, in bytes, as on the server.
const LEAST_FOOTER_MEMORY: u64 = 1 << 20;
/// The least size of its cache, in bytes: some hundred blocks.
const LEAST_CACHE: u64 = 256 << 20;
/// The least and the most time of a read from the object store, in milliseconds.
const LEAST_STORE_TIME: u64 = 500;
const MOST_STORE_TIME: u64 = 600_000;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen for servers: an address and a port
    #[arg(long, env = "TIDEGATE_WORKER_LISTEN", default_value = "127.0.0.1:4100")]
    listen: SocketAddr,
    /// Where the segments are: the data folder of the server, which is only read, or its [storage] url, s3://BUCKET/PREFIX or file:///FOLDER
    #[arg(long, env = "TIDEGATE_WORKER_STORE")]
    store: String,
    /// With s3://, the folder of this worker alone where it keeps what it has read; it may be deleted at any time
    #[arg(long, env = "TIDEGATE_WORKER_CACHE")]
    cache: Option<PathBuf>,
    /// Disk that the cache may take, such as "100 GiB"
    #[arg(long, env = "TIDEGATE_WORKER_CACHE_SIZE", value_parser = cache_size, default_value_t = ByteSize(10 << 30))]
    cache_size: ByteSize,
    /// How long a read from the object store may take, such as "10 s"; after that the server has the part read elsewhere
    #[arg(long, env = "TIDEGATE_WORKER_STORE_TIME", value_parser = store_time, default_value_t = StoreTime(10_000))]
    store_time: StoreTime,
    /// The certificate of this worker and those that signed it, in PEM; needed beyond this machine; read again when it changes
    #[arg(long, env = "TIDEGATE_WORKER_TLS_CERTIFICATE", requires_all = ["tls_key", "tls_client_ca"])]
    tls_certificate: Option<PathBuf>,
    /// The private key of that certificate, in PEM, not encrypted
    #[arg(long, env = "TIDEGATE_WORKER_TLS_KEY", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificates in PEM that sign those of servers: nothing is done for who has none
    #[arg(long, env = "TIDEGATE_WORKER_TLS_CLIENT_CA", requires = "tls_certificate")]
    tls_client_ca: Option<PathBuf>,
    /// Where to answer GET /health, /ready and /metrics without TLS, and nothing else; they are answered at --listen too
    #[arg(long, env = "TIDEGATE_WORKER_PROBE_LISTEN")]
    probe_listen: Option<SocketAddr>,
    /// Memory that all tasks together may hold, such as "2 GiB"
    #[arg(long, env = "TIDEGATE_WORKER_MEMORY", value_parser = memory, default_value_t = ByteSize(number(Limits::default().total_memory)))]
    memory: ByteSize,
    /// Memory for the footers of segments, beyond --memory; a task reads again what is not there
    #[arg(long, env = "TIDEGATE_WORKER_FOOTER_MEMORY", value_parser = footer_memory, default_value_t = ByteSize(number(EngineOptions::default().footer_memory)))]
    footer_memory: ByteSize,
    /// Threads that compute; as many as there are processors unless set
    #[arg(long, env = "TIDEGATE_WORKER_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Tasks at once; a server runs what is over it elsewhere
    #[arg(long, env = "TIDEGATE_WORKER_TASKS", value_parser = clap::value_parser!(u16).range(1..=10_000), default_value_t = 64)]
    tasks: u16,
    /// Seconds that running tasks may go on after SIGTERM
    #[arg(long, env = "TIDEGATE_WORKER_GRACE", default_value_t = 30)]
    grace: u32,
    /// Which log lines are written
    #[arg(long, env = "TIDEGATE_WORKER_LOG_LEVEL", default_value = "info")]
    log_level: String,
}

/// A number of bytes, written with a unit.
#[derive(Debug, Clone, Copy)]
struct ByteSize(u64);

impl std::fmt::Display for ByteSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Unit::Bytes.show(self.0))
    }
}

/// A time in milliseconds, written with a unit.
#[derive(Debug, Clone, Copy)]
struct StoreTime(u64);

impl std::fmt::Display for StoreTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Unit::Time.show(self.0))
    }
}

fn store_time(text: &str) -> Result<StoreTime, String> {
    let time = Unit::Time.read(text).ok_or_else(|| format!("write {}", Unit::Time.how()))?;
    if !(LEAST_STORE_TIME..=MOST_STORE_TIME).contains(&time) {
        let (least, most) = (Unit::Time.show(LEAST_STORE_TIME), Unit::Time.show(MOST_STORE_TIME));
        return Err(format!("it must be {least} at least and {most} at most"));
    }
    Ok(StoreTime(time))
}

fn memory(text: &str) -> Result<ByteSize, String> {
    byte_size(text, LEAST_MEMORY)
}

fn footer_memory(text: &str) -> Result<ByteSize, String> {
    byte_size(text, LEAST_FOOTER_MEMORY)
}

fn cache_size(text: &str) -> Result<ByteSize, String> {
    byte_size(text, LEAST_CACHE)
}

fn byte_size(text: &str, least: u64) -> Result<ByteSize, String> {
    let bytes = Unit::Bytes.read(text).ok_or_else(|| format!("write {}", Unit::Bytes.how()))?;
    if bytes < least {
        return Err(format!("it must be {} at least", Unit::Bytes.show(least)));
    }
    Ok(ByteSize(bytes))
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let mut options = Options::default();
    options.server.log_level.clone_from(&arguments.log_level);
    start_logging(&options)?;
    crate::allocator::collect_in_background();
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let accept = accept(&arguments)?;
    let segments = segments(&arguments)?;
    let worker = Worker::start(&worker_options(&arguments, connect(&arguments)?), segments)?;
    // Computing has threads of its own.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(worker, accept, &arguments))
}

/// The segments that tasks may read.
fn segments(arguments: &Arguments) -> Result<SegmentFiles, Box<dyn Error>> {
    let Arguments { store, cache, cache_size, store_time, .. } = arguments;
    if !store.contains("://") {
        let folder = Path::new(store);
        let segments = SegmentFiles::folder(folder)?;
        may_be_read(folder)?;
        return Ok(segments);
    }
    // What is read of a folder is not kept. What is wrong with an address is told first.
    let folder = match cache {
        None if is_store_url(store) && !store.starts_with("file://") => {
            return Err(format!("--store {store} needs --cache, a folder of this worker alone").into());
        }
        folder => folder.clone().unwrap_or_default(),
    };
    let time = Duration::from_millis(store_time.0);
    Ok(SegmentFiles::open(store, &SegmentCache { folder, bytes: cache_size.0 }, time)?)
}

/// Checks that this process may list a data folder and its segments, because otherwise every task would fail.
fn may_be_read(folder: &Path) -> Result<(), String> {
    for folder in [folder.to_path_buf(), folder.join("segments")] {
        match std::fs::read_dir(&folder) {
            Ok(_) => {}
            // A server makes the folder of its segments when it starts, which may be later.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let hint = match error.kind() {
                    ErrorKind::PermissionDenied => {
                        "; the worker must run as the user of the server, with the same user id on each machine"
                    }
                    _ => "",
                };
                return Err(format!("{} cannot be read: {error}{hint}", folder.display()));
            }
        }
    }
    Ok(())
}

/// The files of the certificates, if they are set: the worker shows the same one to servers and to other workers.
fn tls_files(arguments: &Arguments) -> Option<TlsFiles> {
    let (certificate, key) = (arguments.tls_certificate.clone()?, arguments.tls_key.clone()?);
    let authority = Some(arguments.tls_client_ca.clone()?);
    Some(TlsFiles { certificate, key, authority, protocols: PROTOCOLS, tickets: 2 })
}

/// How servers are let in.
fn accept(arguments: &Arguments) -> Result<Accept, Box<dyn Error>> {
    match tls_files(arguments) {
        Some(files) => Ok(Accept::Tls(Arc::new(ServerTls::server(files)?))),
        None if is_loopback(arguments.listen) => Ok(Accept::Loopback),
        None => {
            let listen = arguments.listen;
            let message = format!(
                "{listen} can be reached from other machines: that needs --tls-certificate, --tls-key and --tls-client-ca"
            );
            Err(message.into())
        }
    }
}

/// How the worker connects to others.
fn connect(arguments: &Arguments) -> Result<Connect, Box<dyn Error>> {
    Ok(match tls_files(arguments) {
        Some(files) => Connect::Tls(Arc::new(ClientTls::client(files)?)),
        None => Connect::Loopback,
    })
}

fn worker_options(arguments: &Arguments, connect: Connect) -> WorkerOptions {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = arguments.threads.map_or(processors, usize::from);
    let memory = size(arguments.memory.0);
    let engine = EngineOptions {
        partitions: threads,
        // A task brings the bound of its statement.
        statement_memory: memory,
        total_memory: memory,
        footer_memory: size(arguments.footer_memory.0),
        narrow: tidegate_store::narrowed,
        counted: tidegate_store::counted,
        ..EngineOptions::default()
    };
    WorkerOptions { engine, tasks: usize::from(arguments.tasks), threads, build: BUILD.into(), connect }
}

async fn serve(worker: Arc<Worker>, accept: Accept, arguments: &Arguments) -> Outcome {
    let tasks = listen(arguments.listen).await?;
    let probes = match arguments.probe_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let address = tasks.local_addr()?;
    let probes_at = probes.as_ref().map(|probes| probes.local_addr()).transpose()?;
    tracing::info!(%address, ?probes_at, memory = %arguments.memory, "listening for tasks");
    tell(&[NotifyState::Ready]);
    let grace = Duration::from_secs(u64::from(arguments.grace));
    tidegate_workers::serve(worker, WorkerListeners { tasks, accept, probes, grace }, stopped()).await;
    tracing::info!("stopped");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_it_is_written() {
        for text in ["2 GiB", "64 MiB"] {
            assert_eq!(memory(text).map(|memory| memory.to_string()), Ok(text.to_owned()));
        }
        assert!(memory("1 MiB").is_err() && memory("much").is_err());
        assert_eq!(store_time("10 s").map(|time| time.to_string()), Ok("10 s".to_owned()));
        assert!(store_time("10").is_err() && store_time("1 ms").is_err() && store_time("1 h").is_err());
    }
}
