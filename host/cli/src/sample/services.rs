//! The smaller logs: realtime, storage, REST over the database, and the connection pooler.

use serde_json::Value;

use super::clock::Clock;
use super::dice::Dice;
use super::moment::Moment;
use super::words::{CLIENTS, OBJECTS, TABLES};
use super::{set, wrap};

pub(super) fn realtime(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let connected = dice.below(400);
    let (level, message) = match dice.below(20) {
        0..8 => ("info", format!("{connected} clients are connected, 500 may be")),
        8..13 => ("info", format!("joined the channel realtime:public:{}", dice.pick(&TABLES))),
        13..16 => ("debug", format!("the subscription of {} was renewed", moment.client)),
        16 => ("warning", "too many joins a second: %{limit: 100, seen: 131}".to_owned()),
        17 => ("error", "{:error, %Quay.Error{reason: \"tide's out\", code: :econnrefused}}".to_owned()),
        18 => ("error", "** (MatchError) no match of right hand side value: {:ok, \"\"}".to_owned()),
        _ => ("info", format!("the tenant {} starts", moment.project)),
    };
    let mut fields = record! { "level": level, "project": moment.project, "external_id": moment.project };
    if moment.bare {
        return record! {
            "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-realtime", "project": "default",
            "event_message": message, "metadata": fields,
        };
    }
    if dice.chance(50) {
        let measured =
            record! { "connected": connected, "connected_cluster": connected + 3, "limit": 500, "sum": connected * 2 };
        set(&mut fields, "measurements", wrap(measured));
    }
    if dice.chance(20) {
        let context = record! { "module": "Quay.Channel", "pid": format!("<0.{}.0>", dice.below(9_000)) };
        set(&mut fields, "context", wrap(context));
    }
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "event_message": message,
        "metadata": wrap(fields),
    }
}

pub(super) fn storage(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let object = dice.pick(&OBJECTS);
    let method = dice.weighted(&[(85, "GET"), (10, "POST"), (5, "DELETE")]);
    let request_id = moment.request_id();
    let (name, number) = match moment.status {
        ..400 => ("info", 30),
        400..500 => ("warn", 40),
        _ => ("error", 50),
    };
    let context = record! { "host": format!("storage-{}", dice.below(3) + 1), "pid": dice.below(30) + 1 };
    if moment.bare {
        let written = if dice.chance(50) { Value::from(moment.at / 1_000) } else { clock.iso_millis(moment.at).into() };
        return record! {
            "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-storage",
            "event_message": format!("{method} {object} answered {}", moment.status),
            "metadata": record! {
                "project": "default", "tenantId": "default", "level": number, "timestamp": written, "context": wrap(context),
            },
        };
    }
    let mut fields = record! {
        "level": name, "project": moment.project, "tenantId": moment.project, "reqId": request_id.as_str(),
        "responseTime": (dice.duration(18.0) * 100.0).round() / 100.0, "context": wrap(context),
        "req": wrap(record! {
            "method": method, "url": object, "hostname": moment.host(), "remoteAddress": "10.4.0.5",
            "remotePort": 30_000 + dice.below(9_000),
            "headers": wrap(record! {
                "cf_connecting_ip": moment.client.as_str(), "user_agent": moment.agent, "host": moment.host(),
                "x_client_info": dice.pick(&CLIENTS), "x_forwarded_proto": "https",
            }),
        }),
        "res": wrap(record! {
            "statusCode": moment.status,
            "headers": wrap(record! { "content_length": dice.below(900_000), "content_type": "image/webp" }),
        }),
    };
    if moment.status >= 400 {
        let raw = format!("{{\"code\":\"NoSuchKey\",\"status\":{}}}", moment.status);
        set(&mut fields, "rawError", raw.as_str());
        set(&mut fields, "error", wrap(record! { "message": "the object is not in the bucket", "raw": raw }));
    }
    let message =
        format!("{method} | {} | {} | {request_id} | {object} | {}", moment.status, moment.client, moment.agent);
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "event_message": message,
        "metadata": wrap(fields),
    }
}

pub(super) fn postgrest(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let message = match dice.below(5) {
        0 => format!(
            "Schema cache loaded {} Relations, {} Relationships, {} Functions",
            dice.below(60),
            dice.below(30),
            dice.below(20)
        ),
        1 => "Listening for database notifications on the \"harbour\" channel".to_owned(),
        2 => format!("Schema cache queried in {:.1} milliseconds", dice.duration(30.0)),
        _ => format!(
            "{} - anon [{}] \"GET /{}?select=* HTTP/1.1\" {} - \"\" \"{}\"",
            moment.client,
            clock.of_access_log(moment.at),
            dice.pick(&TABLES),
            moment.status,
            moment.agent
        ),
    };
    let mut event = record! {
        "timestamp": clock.timestamp(dice, moment.at, moment.bare), "project": moment.project, "event_message": message,
    };
    let fields = record! { "host": format!("db-{}", moment.project) };
    if moment.bare {
        set(&mut event, "appname", "harbour-rest");
        set(&mut event, "metadata", fields);
    } else {
        set(&mut event, "id", dice.uuid());
        set(&mut event, "identifier", moment.project);
        set(&mut event, "metadata", wrap(fields));
    }
    event
}

/// An event of the pooler. Only the hosted platform has this log; a self-hosted stack has another pooler.
pub(super) fn pgbouncer(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let message = match dice.below(6) {
        0 | 1 => format!(
            "stats: {} xacts/s, {} queries/s, in {} B/s, out {} B/s, xact {} us, query {} us, wait 0 us",
            dice.below(90),
            dice.below(200),
            dice.below(90_000),
            dice.below(900_000),
            dice.below(4_000),
            dice.below(2_000)
        ),
        2 => format!(
            "C-0x{:012x}: postgres/skipper@10.4.0.{}:5000 login attempt: db=postgres user=skipper tls=no",
            dice.any() >> 16,
            dice.below(200)
        ),
        3 => format!(
            "C-0x{:012x}: postgres/skipper@10.4.0.{}:5000 closing because: client close request (age={}s)",
            dice.any() >> 16,
            dice.below(200),
            dice.below(900)
        ),
        4 => format!("S-0x{:012x}: postgres/skipper@10.4.0.2:5432 new connection to server", dice.any() >> 16),
        _ => format!(
            "S-0x{:012x}: postgres/skipper@10.4.0.2:5432 closing because: server idle timeout (age=600s)",
            dice.any() >> 16
        ),
    };
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "project": moment.project,
        "event_message": message,
        "metadata": wrap(record! {
            "host": format!("db-{}", moment.project), "file": "/var/log/harbour/pooler.log", "project": moment.project,
        }),
    }
}
