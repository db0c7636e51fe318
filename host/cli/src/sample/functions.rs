//! The two logs of functions: invocations at the edge, and the output of the code.

use serde_json::Value;

use super::clock::Clock;
use super::dice::Dice;
use super::moment::Moment;
use super::words::{CLIENTS, REGIONS};
use super::{set, wrap};

pub(super) fn invocation(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    if moment.bare {
        // The console output of a self-hosted container is part of this log.
        let message = match dice.below(4) {
            0 => format!("serving the request for /{}", moment.function),
            1 => "worker started".to_owned(),
            2 => format!("[Info] {}: ⚓ {} boats in sight", moment.function, dice.below(40)),
            _ => "TypeError: cannot read the depth of undefined\n    at berth.ts:41:12".to_owned(),
        };
        return record! {
            "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-functions", "project": "default",
            "event_message": message, "metadata": record! { "project_ref": "default" },
        };
    }
    let host = moment.host();
    let path = format!("/functions/v1/{}", moment.function);
    let url = format!("https://{host}{path}");
    let took = dice.duration(120.0);
    let request = record! {
        "method": "POST", "pathname": path, "search": "", "host": host.as_str(), "url": url.as_str(), "protocol": "https:",
        "headers": wrap(record! {
            "accept": "*/*", "host": host, "user_agent": moment.agent, "content_length": dice.below(2_000).to_string(),
            "x_client_info": dice.pick(&CLIENTS),
        }),
    };
    let response = record! {
        "status_code": moment.status,
        "headers": wrap(record! {
            "content_type": "application/json", "date": clock.of_http(moment.at), "x_sb_edge_region": dice.pick(&REGIONS),
        }),
    };
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false),
        "event_message": format!("POST | {} | {url}", moment.status),
        "metadata": wrap(record! {
            "function_id": moment.function_id(), "deployment_id": moment.deployment_id(), "version": moment.version(),
            "execution_id": moment.execution_id(), "request_id": moment.request_id(), "project_ref": moment.project,
            "execution_time_ms": if dice.chance(80) { Value::from(took as u32) } else { Value::from((took * 100.0).round() / 100.0) },
            "request": wrap(request), "response": wrap(response),
        }),
    }
}

/// An event of the function output. Only the hosted platform has this log; a self-hosted container has none.
pub(super) fn output(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let failed = moment.status >= 500;
    let (kind, level, message) = match dice.below(100) {
        0..12 => ("Boot", "log", format!("booted (time: {}ms)", dice.below(80) + 12)),
        12..20 => ("Shutdown", "log", "shutdown".to_owned()),
        20 if failed => {
            ("UncaughtException", "error", "Error: no harbourmaster on duty\n    at main.ts:17:9\n".to_owned())
        }
        _ if failed => {
            ("Log", "error", format!("berth {}: the mail service answered {}\n", dice.below(90), moment.status))
        }
        _ => {
            let level = dice.weighted(&[(60, "info"), (20, "log"), (12, "debug"), (8, "warning")]);
            ("Log", level, printed(dice, moment.function))
        }
    };
    let mut fields = record! {
        "event_type": kind, "level": level, "function_id": moment.function_id(), "deployment_id": moment.deployment_id(),
        "execution_id": moment.execution_id(), "request_id": moment.request_id(), "project_ref": moment.project,
        "region": dice.pick(&REGIONS), "version": moment.version(),
        "timestamp": if dice.chance(60) { Value::from(moment.at) } else { clock.iso_millis(moment.at).into() },
    };
    if kind == "Shutdown" {
        let heap = dice.below(40_000_000);
        set(&mut fields, "reason", dice.pick(&["EarlyDrop", "WallClockTime", "Memory"]));
        set(&mut fields, "cpu_time_used", dice.below(900));
        let used = record! { "total": heap + 6_000_000, "heap": heap, "external": dice.below(5_000_000) };
        set(&mut fields, "memory_used", wrap(used));
    }
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "event_message": message,
        "metadata": wrap(fields),
    }
}

fn printed(dice: &mut Dice, function: &str) -> String {
    let number = dice.below(9_000);
    match dice.below(60) {
        // A long message of several kilobytes.
        0 => format!("{function}: {}\n", format!("{{\"gauge\":{number},\"level\":\"3.2 m\"}},").repeat(160)),
        1..10 => format!("{{\"event\":\"moored\",\"boat\":{number},\"ok\":true}}\n"),
        10..20 => format!("Zoë's boat №{number} is 100 % full ⛵\n"),
        20..30 => format!("retry {} of 3\n", number % 3 + 1),
        _ => format!("{function}: {number} records in {} ms\n", dice.below(400)),
    }
}
