//! `tidegate demo`: a complete service to try: a fresh folder, sample logs of all nine sources, both endpoints, a
//! token, and requests to paste.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_service::Service;
use tidegate_service::tokens::generate_token;

use crate::author::packs::for_start;
use crate::config::{Config, Flags, environment};
use crate::outcome::Outcome;
use crate::runtime::runtime;
use crate::sample;
use crate::serve::{compiler, listen, serve, start_logging};

/// The number of events of each source. It is the same for all sources: then an edge request, its function call and its
/// sign-in belong to the same moment, and can be joined.
const EVENTS: usize = 800;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:4000")]
    listen: SocketAddr,
    /// The folder to use; it must not exist. Without it, a temporary one that is removed at the end
    #[arg(long)]
    data_dir: Option<PathBuf>,
    /// Save the endpoints of a pack too, by its name or the path of a folder; may be repeated
    #[arg(long = "pack", value_name = "PACK")]
    packs: Vec<String>,
    /// Number that decides what the sample logs are
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut options = Config::read(&Flags::default(), environment())?.options;
    options.components.compiler = compiler();
    (options.packs, options.pack_sources) = for_start(&arguments.packs)?;
    start_logging(&options)?;
    crate::allocator::collect_in_background();
    let temporary = arguments.data_dir.is_none();
    let folder = match &arguments.data_dir {
        Some(folder) if folder.exists() => {
            return Err(format!("{} exists; the demonstration needs a fresh folder", folder.display()).into());
        }
        Some(folder) => folder.clone(),
        None => std::env::temp_dir().join(format!("tidegate-demo-{}", uuid::Uuid::new_v4().simple())),
    };
    let done = runtime()?.block_on(async {
        // The port is bound first: if it is taken, nothing has been created yet.
        let listener = listen(arguments.listen).await?;
        let token = generate_token();
        options.data_dir.clone_from(&folder);
        options.private_token = Some(token.clone());
        let (service, _) = Service::open(options).await?;
        let now = chrono::Utc::now().timestamp_micros();
        let mut total = 0;
        for source in sample::source_names() {
            let events: Vec<_> = sample::events(source, EVENTS, now, WEEK, arguments.seed).collect();
            total += service.ingest(source, events).await?.stored;
        }
        print_requests(&format!("http://{}", listener.local_addr()?), &token, total);
        serve(service, listener).await
    });
    // There is no folder if the command ended before it made one.
    if temporary
        && let Err(error) = std::fs::remove_dir_all(&folder)
        && error.kind() != ErrorKind::NotFound
    {
        eprintln!("tidegate: the folder {} could not be removed: {error}", folder.display());
    }
    done
}

fn print_requests(base: &str, token: &str, total: usize) {
    println!("Tidegate runs at {base} with {total} sample logs of nine sources.\n");
    println!("The console, in a browser (the token to sign in with is {token}):\n");
    println!("  {base}/console#/explore?endpoint=logs.all&p.project=default\n");
    println!("Or try, in another terminal:\n");
    println!("  # requests of the last 7 days by product, one row a day");
    println!(
        "  curl -s -H 'X-API-KEY: {token}' '{base}/api/endpoints/query/usage.api-counts?interval=daily&project=default'\n"
    );
    println!("  # the newest logs of one project");
    println!("  curl -s -H 'X-API-KEY: {token}' '{base}/api/endpoints/query/logs.all?project=default'\n");
    println!("  # your own SQL over the tables that the endpoint grants");
    println!("  curl -s -G -H 'X-API-KEY: {token}' '{base}/api/endpoints/query/logs.all' \\");
    println!("    --data-urlencode 'project=default' \\");
    println!(
        "    --data-urlencode \"sql=SELECT r.status_code, COUNT(*) AS requests FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS r GROUP BY r.status_code ORDER BY requests DESC\"\n"
    );
    println!("  # send a log, then find it");
    println!(
        "  curl -s -H 'X-API-KEY: {token}' -H 'Content-Type: application/json' '{base}/api/logs?source_name=postgres.logs' \\"
    );
    println!(
        "    -d '{{\"project\": \"default\", \"event_message\": \"hello from curl\", \"metadata\": {{\"parsed\": {{\"error_severity\": \"LOG\"}}}}}}'"
    );
    println!("  curl -s -G -H 'X-API-KEY: {token}' '{base}/api/endpoints/query/logs.all' \\");
    println!("    --data-urlencode 'project=default' \\");
    println!(
        "    --data-urlencode \"sql=SELECT id, timestamp, event_message FROM postgres_logs WHERE event_message LIKE 'hello%'\"\n"
    );
    println!("Ctrl-C stops it.");
}
