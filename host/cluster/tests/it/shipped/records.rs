//! Records of the sources of the shipped endpoints. The black-box tests send them to a server, too.

use serde_json::{Value, json};

/// 2025-12-20T12:00:00Z, in microseconds since 1970.
pub(crate) const NOW: i64 = 1_766_232_000_000_000;

/// The sources.
pub(crate) const SOURCES: [&str; 14] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
    "supavisor.logs.prod",
    "gotrue.audit.logs.prod",
    "pg_upgrade.logs.prod",
    "etl.replication.logs.prod",
    "multigres.logs.prod",
];

/// A record as gateways and services write them, 45 seconds times its number before `now`, in microseconds since 1970.
pub(crate) fn record(number: i64, source: &str, now: i64) -> Value {
    json!({
        "id": format!("{source}-{number:04}"), "timestamp": now - number * 45_000_000, "project": "default",
        "event_message": format!("GET | {} | /rest/v1/x?n={number} of {source}", 200 + number % 4 * 100),
        "level": if number % 3 == 0 { "error" } else { "info" },
        "metadata": {
            "request": {"method": "GET", "path": "/rest/v1/x", "url": format!("https://p{number}.test/x"), "host": "p.test",
                        "search": format!("?n={number}"), "headers": {"user_agent": "x", "x_client_info": "y"},
                        "cf": {"country": "NZ"}, "sb": [{"auth_user": "u", "jwt": [{"apikey": "k"}]}]},
            "response": {"status_code": 200 + number % 4 * 100, "origin_time": number * 3,
                         "headers": {"cf_cache_status": "HIT", "content_length": number}},
            "parsed": {"error_severity": "LOG", "query": "select 1", "detail": null, "user_name": "postgres"},
            "identifier": "default", "host": "h", "level": "info", "function_id": format!("f{}", number % 2),
            "execution_time_ms": number, "event_type": "Boot", "project_ref": "default", "project": "default",
            "status_code": 200 + number % 4 * 100, "tags": ["a", "b"],
        },
    })
}
