//! `tidegate serve`: the service, until SIGTERM or Ctrl-C.

use std::error::Error;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidegate_server::{App, NewTokens, Options};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::config;

/// The errors of a command, for a person.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen
    #[arg(long, env = "TIDEGATE_LISTEN", default_value = "127.0.0.1:4000")]
    listen: SocketAddr,
    /// The folder that holds everything: catalog, logs, endpoints
    #[arg(long, env = "TIDEGATE_DATA_DIR", default_value = "tidegate-data")]
    data_dir: PathBuf,
    /// A TOML file with the limits of requests
    #[arg(long, env = "TIDEGATE_CONFIG")]
    config: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    start_logging();
    let mut options = from_environment(Options::new(arguments.data_dir));
    options.limits = config::limits(arguments.config.as_deref(), config::environment())?;
    runtime()?.block_on(async {
        let (app, new) = App::open(options).await?;
        if let Some(tokens) = new {
            announce(&tokens);
        }
        let listener = listen(arguments.listen).await?;
        tracing::info!(address = %listener.local_addr()?, "listening");
        serve(app, listener).await
    })
}

/// Serves until a signal; a second one ends at once.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener) -> Outcome {
    tidegate_server::serve(app, listener, stopped()).await?;
    tracing::info!("stopped");
    Ok(())
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, Box<dyn Error>> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another with --listen").into())
}

pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

pub(crate) fn start_logging() {
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

/// The two tokens that a container is given, under our names or the incumbent's.
fn from_environment(mut options: Options) -> Options {
    let variable = |names: &[&str]| names.iter().find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()));
    options.private_token =
        variable(&["TIDEGATE_PRIVATE_ACCESS_TOKEN", "LOGFLARE_PRIVATE_ACCESS_TOKEN", "LOGFLARE_API_KEY"]);
    options.public_token = variable(&["TIDEGATE_PUBLIC_ACCESS_TOKEN", "LOGFLARE_PUBLIC_ACCESS_TOKEN"]);
    options
}

/// Shown once: only hashes are kept.
fn announce(tokens: &NewTokens) {
    println!("Two access tokens were made. They are shown this once; keep them:");
    println!("  private (queries and management): {}", tokens.private);
    println!("  public (sending logs):            {}", tokens.public);
}

async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(130);
    });
}
