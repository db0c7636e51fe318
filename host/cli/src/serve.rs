//! `tidegate serve`: runs the service until SIGTERM or Ctrl-C.

use std::error::Error;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use sd_notify::NotifyState;
use tidegate_doors::Syslog;
use tidegate_http::{Startup, Tls, Traces};
use tidegate_service::options::{LogFormat, ServerOptions};
use tidegate_service::tokens::NewTokens;
use tidegate_service::{Options, Service, StartError};
use tokio::net::TcpListener;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, reload};

use crate::author::packs::for_start;
use crate::config;
use crate::outcome::Outcome;
use crate::recover;
use crate::runtime::runtime;
use crate::signals::{Signals, keep_watchdog, stopped, tell};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen: the setting server.listen, or TIDEGATE_LISTEN; 127.0.0.1:4000 unless set
    #[arg(long)]
    listen: Option<String>,
    /// The folder that holds everything: catalog, logs, endpoints; server.data_dir, or
    /// TIDEGATE_DATA_DIR; tidegate-data unless set
    #[arg(long)]
    data_dir: Option<String>,
    /// A TOML file with settings, or TIDEGATE_CONFIG
    #[arg(long)]
    config: Option<PathBuf>,
    /// Save the endpoints of a pack at the start, by its name or the path of a folder; may be repeated. Each is saved once
    /// for each content that the pack gives it: later changes and rollbacks stay
    #[arg(long = "pack", value_name = "PACK")]
    packs: Vec<String>,
    /// If the data folder is empty, make it of the copies at this address first, which must be that of storage.url: the server
    /// takes over from the one that had them. A folder that has a catalog is used as it is
    #[arg(long, value_name = "URL")]
    recover_from: Option<String>,
    /// If the data folder was restored from a backup, take the copies at storage.url over from the server that has them, which
    /// stops taking events in. Another data folder does nothing with it
    #[arg(long)]
    take_over: bool,
    /// Print the configuration in effect and where each value comes from, and do nothing else
    #[arg(long)]
    print_config: bool,
}

/// The name of this build: the version, and a digest of the sources (`build.rs`).
pub(crate) const BUILD: &str = env!("TIDEGATE_BUILD");

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let Arguments { listen: address, data_dir, config, packs, recover_from, take_over, print_config } = arguments;
    let flags = config::Flags { config, listen: address, data_dir };
    let mut config = config::Config::read(&flags, config::environment())?;
    if print_config {
        print!("{}", config::print(&config));
        return Ok(());
    }
    config.options.components.compiler = compiler();
    (config.options.packs, config.options.pack_sources) = for_start(&packs)?;
    config.options.cluster.build = BUILD.into();
    config.options.store.take_over = take_over;
    let options = config.options;
    if let Some(url) = &recover_from {
        recover::check(url, &options)?;
    }
    let Logging { traces, filter } = start_logging(&options)?;
    crate::allocator::collect_in_background();
    // Raises the limit of open files, for as many connections as the system allows. The default limit is often 1,024.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let server = options.server.clone();
    // TLS is loaded first: if it is invalid, there is no need to open the data folder.
    let tls = Tls::load(&server)?;
    let done = runtime()?.block_on(async {
        let listener = listen(server.listen).await?;
        let syslog = Syslog::bind(&options).await?;
        let startup = Startup::new();
        let stop = ended(Arc::clone(&startup), server.drain_delay, Reload { flags, filter });
        let opening = tokio::spawn(open(Arc::clone(&startup), options, recover_from, listener.local_addr()?));
        let refused = async {
            match opening.await {
                Ok(Ok(())) => std::future::pending().await,
                Ok(Err(error)) => Box::<dyn Error>::from(error),
                Err(error) => error.into(),
            }
        };
        tokio::select! {
            served = tidegate_http::serve(startup, listener, tls, syslog, &server, stop) => served?,
            error = refused => return Err(error),
        }
        tracing::info!("stopped");
        Ok(())
    });
    if let Some(traces) = traces {
        traces.stop();
    }
    done
}

/// The path of this program, which compiles components in a separate process. Where the system supports it, the path
/// refers to the running program, because the file on disk may have been replaced.
pub(crate) fn compiler() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    let program = if running.exists() { Some(running) } else { std::env::current_exe().ok() };
    if program.is_none() {
        tracing::warn!("where this program lies is not known: components are compiled in this process");
    }
    program
}

/// Opens the service while `startup` answers probes, after the data folder was recovered if that is asked for. If opening fails, it is tried again: the orchestrator waits for a
/// healthy container, and the cause may go away, such as a disk that is mounted late or a file that is put back.
async fn open(
    startup: Arc<Startup>,
    options: Options,
    recover_from: Option<String>,
    address: SocketAddr,
) -> Result<(), StartError> {
    let mut pause = Duration::from_secs(1);
    // Health probes do not wait until the data folder is open. A manager of services does.
    let waiting = tokio::spawn(ask_for_time());
    loop {
        let recovered = match &recover_from {
            Some(url) => recover::recover(url.clone(), options.data_dir.clone()).await,
            None => Ok(()),
        };
        let opened = match recovered {
            Ok(()) => Service::open(options.clone()).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok((service, new)) => {
                if let Some(tokens) = new {
                    announce(&tokens);
                }
                let alive = Arc::downgrade(&service);
                startup.open(service);
                waiting.abort();
                tell(&[NotifyState::Ready]);
                tokio::spawn(keep_watchdog(alive));
                tracing::info!(%address, "listening");
                return Ok(());
            }
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                tracing::error!(%error, seconds = pause.as_secs(), "the service cannot be opened; it is tried again");
                startup.fail("the data folder cannot be opened; the server's log has the reason");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(30));
            }
        }
    }
}

/// Asks systemd for more time while the data folder is opened, which may take longer than it waits by itself.
async fn ask_for_time() {
    const AGAIN: Duration = Duration::from_secs(20);
    loop {
        tell(&[NotifyState::ExtendTimeoutUsec(3 * 20_000_000)]);
        tokio::time::sleep(AGAIN).await;
    }
}

/// Prints to standard error why an object store refuses, for commands whose results are all they print otherwise.
pub(crate) fn log_object_stores() {
    let filter = EnvFilter::new("off,tidegate_store::objects=warn");
    let printed = tracing_subscriber::fmt::layer().without_time().with_target(false).with_writer(std::io::stderr);
    let printed = printed.with_ansi(std::io::stderr().is_terminal());
    // Fails where another one is set already, which then prints it.
    let _ = tracing_subscriber::registry().with(printed.with_filter(filter)).try_init();
}

/// Serves until a signal. A second signal ends the process at once.
pub(crate) async fn serve(service: Arc<Service>, listener: TcpListener) -> Outcome {
    tidegate_http::serve(Startup::opened(service), listener, None, None, &ServerOptions::default(), stopped()).await?;
    tracing::info!("stopped");
    Ok(())
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Box<dyn Error>> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another with --listen").into())
}

/// Starts logging to standard error, and the export of traces if a receiver is configured.
///
/// # Errors
/// The export of traces cannot be set up.
pub(crate) fn start_logging(options: &Options) -> Result<Logging, Box<dyn Error>> {
    let (filter, handle) = reload::Layer::new(log_filter(&options.server.log_level));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match options.server.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let traces = Traces::start(&options.traces)?;
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    Ok(Logging { traces, filter: handle })
}

/// The filter of the log lines, which can be replaced.
type LogFilter = reload::Handle<EnvFilter, Registry>;

/// The log and the export of traces.
pub(crate) struct Logging {
    traces: Option<Traces>,
    filter: LogFilter,
}

fn log_filter(level: &str) -> EnvFilter {
    EnvFilter::try_new(with_current_names(level)).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// Updates module names in the log filter. The former crate `tidegate_server` is now three crates, so a directive for it
/// applies to all; `tidegate_doors` was a part of `tidegate_http`.
fn with_current_names(filter: &str) -> String {
    let current = |directive: &str| {
        let trimmed = directive.trim();
        let (name, rest) = trimmed.split_at(trimmed.find(['=', ':', '[']).unwrap_or(trimmed.len()));
        let level = rest.rsplit_once('=').map_or(String::new(), |(_, level)| format!("={level}"));
        match name {
            // Modules have moved between the crates, so a directive for one module applies to the whole crates.
            "tidegate_server" => format!("tidegate_http{level},tidegate_doors{level},tidegate_service{level}"),
            "tidegate_http" if rest.starts_with("::ingest") => format!("tidegate_doors{level}"),
            "tidegate_http" if rest.is_empty() || rest.starts_with('=') => {
                format!("tidegate_http{rest},tidegate_doors{rest}")
            }
            _ => directive.to_owned(),
        }
    };
    filter.split(',').map(current).collect::<Vec<_>>().join(",")
}

/// Prints the new tokens. They are shown only once, because only their hashes are stored.
fn announce(tokens: &NewTokens) {
    println!("Two access tokens were made. They are shown this once; keep them:");
    println!("  private (queries and management): {}", tokens.private);
    println!("  public (sending logs):            {}", tokens.public);
}

/// What SIGHUP has done.
struct Reload {
    flags: config::Flags,
    filter: LogFilter,
}

impl Reload {
    /// Reads the settings again and uses the level of the log. Certificates are read when they change, other settings at the start.
    fn run(&self, startup: &Startup) {
        // Who is not ready yet must not say so at the end.
        let is_open = startup.is_open();
        if is_open {
            let mut states = vec![NotifyState::Reloading];
            states.extend(NotifyState::monotonic_usec_now());
            tell(&states);
        }
        match config::Config::read(&self.flags, config::environment()) {
            Ok(config) => {
                let level = config.options.server.log_level;
                let _ = self.filter.reload(log_filter(&level));
                tracing::info!(level, "the level of the log is read again; other settings are read at the start");
            }
            Err(error) => tracing::error!(%error, "the settings cannot be read again: those from before hold"),
        }
        if is_open {
            tell(&[NotifyState::Ready]);
        }
    }
}

/// Waits for the word to end. Then `GET /ready` says it for `delay`, while everything is served, so that load balancers send
/// nothing more when connections are refused. A second word ends the delay, the next one the process.
async fn ended(startup: Arc<Startup>, delay: Duration, reload: Reload) {
    let Some(mut signals) = Signals::listen() else { return std::future::pending().await };
    signals.end(|| reload.run(&startup)).await;
    if !delay.is_zero() && startup.drain() {
        let seconds = delay.as_secs_f64();
        tracing::info!(
            seconds,
            "the server ends; until the delay is over, GET /ready says so and everything is served"
        );
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = signals.again() => tracing::info!("the delay is ended by a second signal"),
        }
    }
    signals.exit_at_next();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_may_name_the_crate_that_was_split() {
        for (filter, current) in [
            ("info", "info"),
            ("warn, tidegate_server=debug", "warn,tidegate_http=debug,tidegate_doors=debug,tidegate_service=debug"),
            ("tidegate_server::cache=trace", "tidegate_http=trace,tidegate_doors=trace,tidegate_service=trace"),
            ("info,tidegate_store=debug", "info,tidegate_store=debug"),
            ("tidegate_servers=debug", "tidegate_servers=debug"),
            ("tidegate_http=debug", "tidegate_http=debug,tidegate_doors=debug"),
            ("tidegate_http::ingest=debug,tidegate_http::tls=trace", "tidegate_doors=debug,tidegate_http::tls=trace"),
        ] {
            assert_eq!(with_current_names(filter), current);
        }
    }
}
