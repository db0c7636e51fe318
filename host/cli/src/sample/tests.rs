//! The properties that the demonstration and the benchmarks rely on.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime};
use serde_json::Value;

use super::{events, source_names};

const NOW: i64 = 1_782_913_507_123_456;
const HOUR: i64 = 3_600_000_000;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The sources that have no events from self-hosted shippers.
const HOSTED_ONLY: [&str; 2] = ["deno-subhosting-events", "pgbouncer.logs.prod"];

fn week(source: &str, count: usize) -> Vec<Value> {
    events(source, count, NOW, WEEK, 1).collect()
}

fn time(event: &Value) -> i64 {
    let timestamp = event.get("timestamp").unwrap();
    timestamp.as_i64().unwrap_or_else(|| {
        let text = timestamp.as_str().unwrap();
        match DateTime::parse_from_rfc3339(text) {
            Ok(time) => time.timestamp_micros(),
            Err(_) => {
                NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f UTC").unwrap().and_utc().timestamp_micros()
            }
        }
    })
}

fn is_bare(event: &Value) -> bool {
    event["metadata"].is_object()
}

/// The metadata of an event in either flavour.
fn fields(event: &Value) -> &Value {
    event["metadata"].get(0).unwrap_or(&event["metadata"])
}

#[test]
fn a_seed_decides_everything() {
    for source in source_names() {
        let texts = |seed| events(source, 200, NOW, WEEK, seed).map(|event| event.to_string()).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1), "{source}");
        assert_ne!(texts(1), texts(2), "{source}");
    }
}

#[test]
fn events_are_objects_of_a_known_shape() {
    for source in source_names() {
        let all = week(source, 1_000);
        assert_eq!(all.len(), 1_000);
        let ids: HashSet<_> = all.iter().filter_map(|event| event["id"].as_str()).collect();
        assert_eq!(ids.len(), all.iter().filter(|event| !is_bare(event)).count(), "{source}");
        for event in &all {
            assert!(event["event_message"].is_string() && fields(event).is_object(), "{source}: {event}");
        }
        assert_eq!(all.iter().any(is_bare), !HOSTED_ONLY.contains(&source), "{source}");
        assert!(all.iter().any(|event| !is_bare(event)), "{source}");
        assert!(all.iter().any(|event| event["timestamp"].is_i64()), "{source}");
        assert!(all.iter().any(|event| event["timestamp"].is_string()), "{source}");
    }
    assert_eq!(events("no.such.source", 10, NOW, WEEK, 1).count(), 0);
}

#[test]
fn times_are_in_order_and_within_the_span() {
    for source in source_names() {
        let times: Vec<_> = week(source, 2_000).iter().map(time).collect();
        // Shippers write milliseconds, so times may be rounded down.
        let start = NOW - i64::try_from(WEEK.as_micros()).unwrap() - 1_000;
        assert!(times.iter().all(|time| (start..=NOW).contains(time)), "{source}");
        let recent = times.iter().filter(|time| **time >= NOW - HOUR).count();
        assert!((900..=1_100).contains(&recent), "{source}: {recent}");
        let days: HashSet<_> = times.iter().map(|time| time / (24 * HOUR)).collect();
        assert!(days.len() >= 7, "{source}: {days:?}");
        assert!(times.windows(2).any(|pair| pair[0] == pair[1]), "{source}");
        assert!(times.windows(2).all(|pair| pair[0] - pair[1] < 1_000), "{source}");
    }
    let short: Vec<_> =
        events("postgres.logs", 100, NOW, Duration::from_secs(60), 1).map(|event| time(&event)).collect();
    assert!(short.iter().all(|time| (NOW - 60_001_000..=NOW).contains(time)));
    assert_eq!(events("postgres.logs", 10, NOW, Duration::ZERO, 1).count(), 10);
}

#[test]
fn a_day_has_a_wave() {
    let times: Vec<_> =
        week("pgbouncer.logs.prod", 20_000).iter().map(time).filter(|time| *time < NOW - HOUR).collect();
    let between = |from: i64, to: i64| times.iter().filter(|time| (from..to).contains(&(*time / HOUR % 24))).count();
    assert!(between(18, 22) > 5 * between(0, 4));
}

#[test]
fn projects_stand_where_the_endpoints_look() {
    for source in source_names() {
        let seen: HashSet<String> = week(source, 500)
            .iter()
            .map(|event| {
                let project = match source {
                    "deno-relay-logs" | "deno-subhosting-events" => &fields(event)["project_ref"],
                    "realtime.logs.prod" | "storage.logs.prod.2" => &fields(event)["project"],
                    _ => &event["project"],
                };
                project.as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(seen, ["default", "acme", "globex"].map(str::to_owned).into(), "{source}");
    }
}

#[test]
fn the_gateway_sees_every_product_and_kind_of_path() {
    let all = week("cloudflare.logs.prod", 5_000);
    let hosted: Vec<_> = all
        .iter()
        .filter(|event| !is_bare(event))
        .map(|event| (&event["project"], &fields(event)["request"][0]))
        .collect();
    for product in ["/rest/v1/", "/auth/v1/", "/storage/v1/", "/realtime/v1/", "/functions/v1/", "/graphql/v1"] {
        assert!(hosted.iter().any(|(_, request)| request["path"].as_str().unwrap().starts_with(product)), "{product}");
    }
    for (project, request) in &hosted {
        assert!(request["url"].as_str().unwrap().contains(project.as_str().unwrap()));
        assert!(!request["path"].as_str().unwrap().contains('?'));
    }
    assert!(hosted.iter().any(|(_, request)| request.get("search").is_none()));
    assert!(hosted.iter().any(|(_, request)| request["search"].as_str().is_some_and(|search| search.len() > 1_900)));
    assert!(hosted.iter().any(|(_, request)| !request["path"].as_str().unwrap().is_ascii()));
    let bad = hosted.len()
        - all
            .iter()
            .filter(|event| fields(event)["response"][0]["status_code"].as_u64().is_some_and(|code| code < 400))
            .count();
    assert!((5..=13).contains(&(bad * 100 / hosted.len())), "{bad} of {}", hosted.len());
}

#[test]
fn types_are_as_mixed_as_in_practice() {
    let auth = week("gotrue.logs.prod", 3_000);
    let (texts, numbers): (Vec<_>, Vec<_>) =
        auth.iter().filter_map(|event| fields(event).get("status")).partition(|status| status.is_string());
    assert!((5..=15).contains(&(texts.len() * 100 / (texts.len() + numbers.len()))));
    assert!(auth.iter().any(|event| serde_json::from_str::<Value>(event["event_message"].as_str().unwrap()).is_err()));
    let storage = week("storage.logs.prod.2", 500);
    assert!(storage.iter().all(|event| fields(event)["level"].is_i64() == is_bare(event)));
    let ids: Vec<_> = week("postgres.logs", 2_000)
        .iter()
        .filter_map(|event| fields(event)["parsed"][0]["query_id"].as_i64())
        .collect();
    assert!(ids.iter().any(|id| *id < -(1 << 53)));
}

#[test]
fn one_moment_in_several_sources() {
    let edge = week("cloudflare.logs.prod", 1_000);
    let invocations = week("deno-relay-logs", 1_000);
    let output = week("deno-subhosting-events", 1_000);
    let mut met = 0;
    for ((edge, invocation), output) in edge.iter().zip(&invocations).zip(&output) {
        let request = &fields(edge)["request"][0];
        if is_bare(edge) || !request["path"].as_str().unwrap().starts_with("/functions/") {
            continue;
        }
        met += 1;
        assert_eq!(time(edge), time(invocation));
        assert_eq!(request["path"], fields(invocation)["request"][0]["pathname"]);
        assert_eq!(fields(edge)["request_id"], fields(invocation)["request_id"]);
        assert_eq!(fields(output)["execution_id"], fields(invocation)["execution_id"]);
    }
    assert!(met > 20);
}
