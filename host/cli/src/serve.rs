//! `tidegate serve`: the service, until SIGTERM or Ctrl-C.

use std::error::Error;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tidegate_server::options::{LogFormat, ServerOptions};
use tidegate_server::{App, NewTokens};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::config;

/// The errors of a command, for a person.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

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
    /// Print the configuration in effect and where each value comes from, and do nothing else
    #[arg(long)]
    print_config: bool,
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    let Arguments { listen: address, data_dir, config, print_config } = arguments;
    let flags = config::Flags { config, listen: address, data_dir };
    let config = config::Config::read(&flags, config::environment())?;
    if print_config {
        print!("{}", config::print(&config));
        return Ok(());
    }
    let options = config.options;
    start_logging(&options.server);
    let address = options.server.listen;
    runtime()?.block_on(async {
        let (app, new) = App::open(options).await?;
        if let Some(tokens) = new {
            announce(&tokens);
        }
        let listener = listen(address).await?;
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

/// Log lines on standard error.
pub(crate) fn start_logging(options: &ServerOptions) {
    let filter = EnvFilter::try_new(&options.log_level).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let _ = match options.log_format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).try_init(),
    };
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
