//! The sources that every data folder has from its first start.

/// The names of the sources that log shippers of the platform post to.
pub(crate) const SOURCES: [&str; 9] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
];
