//! The other eight sources. The project stands where each service puts it: at the top level, in
//! `metadata.project`, or in `metadata.project_ref`.

use serde_json::{Value, json};

use super::edge::status;
use super::{Choice, Event};

/// Metadata as the flavour of the event has it: a plain object, or an array of one.
fn metadata(event: &Event, record: Value) -> Value {
    if event.shipped { record } else { json!([record]) }
}

pub(super) fn postgres(choice: &mut Choice, event: &Event) -> Value {
    let severity = match choice.below(100) {
        0..90 => "LOG",
        90..93 => "WARNING",
        93..99 => "ERROR",
        _ => "FATAL",
    };
    let process = choice.below(30_000);
    let message = match severity {
        "ERROR" => choice
            .text(&[
                "duplicate key value violates unique constraint \"orders_pkey\"",
                "permission denied for table teams",
                "canceling statement due to statement timeout",
            ])
            .to_owned(),
        "FATAL" => "password authentication failed for user \"postgres\"".to_owned(),
        "WARNING" => "there is no transaction in progress".to_owned(),
        _ => match choice.below(6) {
            0 => {
                format!("connection received: host=10.0.0.{} port={}", choice.below(255), 40_000 + choice.below(9_000))
            }
            1 => "connection authorized: user=authenticator database=postgres".to_owned(),
            2 => "checkpoint starting: time".to_owned(),
            3 => format!("cron job {} starting: select refresh_totals()", 1 + choice.below(5)),
            4 => format!("duration: {}.{} ms  statement: select * from orders", choice.below(9_000), choice.below(999)),
            _ => "AUDIT: SESSION,1,1,DDL,CREATE TABLE,,,create table notes (id int),<not logged>".to_owned(),
        },
    };
    let parsed = if event.shipped {
        json!({"error_severity": severity, "timestamp": event.iso()})
    } else {
        json!([{
            "error_severity": severity, "sql_state_code": choice.text(&["00000", "23505", "42501", "57014"]), "backend_type": "client backend",
            "application_name": choice.text(&["PostgREST 12.2.3", "pg_cron", "psql", ""]), "user_name": choice.text(&["authenticator", "postgres"]), "database_name": "postgres",
            "command_tag": choice.text(&["SELECT", "INSERT", "CREATE TABLE", "idle"]), "query": "select 1", "query_id": -7_312_409_950_012_345_678_i64 + i64::from(choice.below(1_000)),
            "connection_from": format!("10.0.0.12:{}", 40_000 + choice.below(9_000)), "process_id": process, "session_id": format!("{}.{process:x}", choice.hex(8)),
            "session_line_num": 1 + choice.below(20), "transaction_id": choice.below(90_000), "timestamp": event.iso(),
        }])
    };
    let host = format!("db-{}", event.project);
    let record = json!({"host": host, "parsed": parsed});
    json!({"project": event.project, "identifier": event.project, "event_message": message, "metadata": metadata(event, record)})
}

pub(super) fn function_edge(choice: &mut Choice, event: &Event) -> Value {
    if event.shipped {
        let line = choice.text(&["listening on port 9999", "worker started", "warning: slow start"]);
        return json!({"event_message": line, "appname": "functions", "metadata": {"project_ref": event.project}});
    }
    let status = status(choice);
    let url = format!("https://{}.example.test/functions/v1/send-invoice", event.project);
    json!({
        "event_message": format!("POST | {status} | {url}"),
        "metadata": [{
            "function_id": "2f6f0c5e-3a7b-4c57-9d7e-52b1d0a9c4e1", "deployment_id": format!("{}_send-invoice_{}", event.project, 1 + choice.below(20)), "version": (1 + choice.below(20)).to_string(),
            "execution_id": choice.uuid(), "execution_time_ms": choice.below(900), "project_ref": event.project, "request_id": choice.uuid(),
            "request": [{"method": "POST", "pathname": "/functions/v1/send-invoice", "search": "", "host": format!("{}.example.test", event.project), "url": url, "protocol": "https:", "headers": [{"user_agent": "OrchardApp/2.4", "content_length": choice.below(900).to_string()}]}],
            "response": [{"status_code": status, "headers": [{"content_type": "application/json", "x_sb_edge_region": choice.text(&["eu-west-1", "us-east-1"])}]}],
        }],
    })
}

pub(super) fn function(choice: &mut Choice, event: &Event) -> Value {
    let kind = choice.text(&["Log", "Log", "Log", "Boot", "Shutdown"]);
    let message = match kind {
        "Boot" => format!("booted (time: {}ms)", 10 + choice.below(60)),
        "Shutdown" => "shutdown".to_owned(),
        _ => format!("invoice {}: mail sent\n", choice.below(900)),
    };
    let mut record = json!({
        "event_type": kind, "level": choice.text(&["info", "log", "warning", "error"]), "function_id": "2f6f0c5e-3a7b-4c57-9d7e-52b1d0a9c4e1",
        "execution_id": choice.uuid(), "project_ref": event.project, "region": "eu-west-1", "version": (1 + choice.below(20)).to_string(),
    });
    if let (Value::Object(fields), "Shutdown") = (&mut record, kind) {
        fields.insert("cpu_time_used".to_owned(), json!(choice.below(90)));
        fields.insert(
            "memory_used".to_owned(),
            metadata(event, json!({"total": 9_000_000, "heap": 4_000_000, "external": 1_000_000})),
        );
    }
    json!({"event_message": message, "metadata": metadata(event, record)})
}

pub(super) fn auth(choice: &mut Choice, event: &Event) -> Value {
    let action = choice.text(&["login", "logout", "user_signedup", "token_refreshed", "user_recovery_requested"]);
    let user = choice.uuid();
    let code = status(choice);
    // One record in ten has its status as text.
    let status = if choice.chance(10) { json!(code.to_string()) } else { json!(code) };
    let level = if code >= 500 {
        "error"
    } else if code >= 400 {
        "warning"
    } else {
        "info"
    };
    let provider = choice.text(&["email", "google", "github"]);
    let line = json!({
        "component": "api", "duration": choice.below(90_000_000), "level": level, "method": "POST", "msg": "request completed", "path": choice.text(&["/token", "/signup", "/otp", "/user"]),
        "remote_addr": format!("203.0.113.{}", choice.below(256)), "request_id": choice.uuid(), "status": status, "time": event.iso(),
        "login_method": "password", "provider": provider, "metering": true, "action": action, "user_id": user,
    });
    // Start-up banners are no JSON.
    let message = if choice.chance(5) { "auth service started".to_owned() } else { line.to_string() };
    let mut record = line;
    if let Value::Object(fields) = &mut record {
        fields.insert("timestamp".to_owned(), json!(event.iso()));
        if code >= 400 {
            fields.insert("error".to_owned(), json!("invalid grant"));
        }
        let happened = json!({"action": action, "actor_id": user, "actor_username": "ana@example.test", "actor_via_sso": false, "log_type": "account", "traits": metadata(event, json!({"provider": provider}))});
        fields.insert("auth_event".to_owned(), metadata(event, happened));
    }
    json!({"project": event.project, "event_message": message, "metadata": metadata(event, record)})
}

pub(super) fn realtime(choice: &mut Choice, event: &Event) -> Value {
    let connected = choice.below(200);
    let mut record = json!({"project": event.project, "external_id": event.project, "level": choice.text(&["info", "info", "warning", "error"])});
    if let (Value::Object(fields), false) = (&mut record, event.shipped) {
        fields.insert(
            "measurements".to_owned(),
            json!([{"connected": connected, "connected_cluster": connected, "limit": 200}]),
        );
    }
    let message = match choice.below(3) {
        0 => "{:error, %{reason: \"rate limit\"}}".to_owned(),
        _ => format!("Connected clients {connected}, limit 200"),
    };
    json!({"event_message": message, "metadata": metadata(event, record)})
}

pub(super) fn storage(choice: &mut Choice, event: &Event) -> Value {
    let path = format!("/object/public/avatars/{}.png", choice.below(400));
    if event.shipped {
        return json!({
            "event_message": format!("GET {path}"),
            "metadata": {"project": event.project, "tenantId": event.project, "level": choice.of(&[30, 40, 50]).unwrap_or(30), "timestamp": event.iso(), "context": [{"host": "storage-1", "pid": 17}]},
        });
    }
    let status = status(choice);
    json!({
        "event_message": format!("GET | {status} | 203.0.113.{} | {} | {path} | Mozilla/5.0", choice.below(256), choice.hex(8)),
        "metadata": [{
            "level": if status >= 400 { "error" } else { "info" }, "project": event.project, "tenantId": event.project, "reqId": choice.hex(8), "responseTime": f64::from(choice.below(9_000)) / 100.0,
            "context": [{"host": "storage-1", "pid": 17}],
            "req": [{"method": "GET", "url": path, "hostname": "storage.internal", "remoteAddress": "10.0.0.5", "remotePort": 40_000 + choice.below(9_000), "headers": [{"user_agent": "Mozilla/5.0"}]}],
            "res": [{"statusCode": status, "headers": [{"content_length": choice.below(90_000), "content_type": "image/png"}]}],
        }],
    })
}

pub(super) fn postgrest(choice: &mut Choice, event: &Event) -> Value {
    let message = choice.text(&[
        "Schema cache loaded 14 Relations, 5 Relationships, 9 Functions",
        "Listening for notifications on the pgrst channel",
        "Config reloaded",
    ]);
    let record = json!({"host": format!("db-{}", event.project)});
    json!({"project": event.project, "identifier": event.project, "event_message": message, "metadata": metadata(event, record)})
}

pub(super) fn pgbouncer(choice: &mut Choice, event: &Event) -> Value {
    let message = match choice.below(3) {
        0 => "closing because: client close request".to_owned(),
        1 => format!("C-0x{}: app/user@10.0.0.9:{} login attempt", choice.hex(8), 5_000 + choice.below(900)),
        _ => format!("stats: {} xacts/s, {} queries/s", choice.below(40), choice.below(90)),
    };
    let record = json!({"host": format!("db-{}", event.project), "file": "pgbouncer.log", "project": event.project});
    json!({"project": event.project, "event_message": message, "metadata": metadata(event, record)})
}
