//! The records that the services behind the gateway write of the same requests.

use super::edge::{made, time};
use super::moment::Moment;
use super::text::{self, Json};
use super::words::{ERRORS, FUNCTIONS, NOTICES, OUTPUT};

/// The columns of a row of what functions print, in their order.
#[cfg(test)]
pub(crate) const OUTPUT_COLUMNS: [&str; 10] = [
    "id",
    "timestamp",
    "project",
    "event_message",
    "event_type",
    "level",
    "function_id",
    "execution_id",
    "request_id",
    "metadata",
];

/// Writes one line: what all records have, then what `fields` writes.
fn event(
    out: &mut Vec<u8>,
    moment: &Moment,
    (source, delay): (u64, i64),
    message: &str,
    fields: impl FnOnce(&mut Json<'_>),
) {
    let mut json = Json { out, wrapped: moment.wrapped };
    json.begin();
    json.plain("id", |out| text::uuid(out, (moment.id.0 ^ source << 8, moment.id.1)));
    time(&mut json, moment.wrapped, moment.at + delay);
    json.text("event_message", message);
    fields(&mut json);
    json.end();
    out.push(b'\n');
}

/// The database server: one line in five is an error where the request failed.
pub(crate) fn postgres(out: &mut Vec<u8>, moment: &Moment) {
    let failed = moment.status >= 400 && moment.status != 404;
    let (code, message) =
        if failed { choose(&ERRORS, moment.bits >> 20) } else { ("00000", choose(&NOTICES, moment.bits)) };
    event(out, moment, (1, 900), message, |json| {
        json.text("project", &moment.project);
        json.text("identifier", &moment.project);
        json.open("metadata");
        json.plain("host", |out| {
            out.extend_from_slice(b"db-");
            out.extend_from_slice(moment.project.as_bytes());
        });
        json.open("parsed");
        json.text("error_severity", if failed { "ERROR" } else { "LOG" });
        json.text("sql_state_code", code);
        json.text("backend_type", "client backend");
        json.text("application_name", "PostgREST 12.2.3");
        json.text("user_name", "authenticator");
        json.text("database_name", "bakery");
        json.text("query", "select * from orders where number = $1");
        json.raw("query_id", |out| {
            // Half of them are negative.
            if moment.bits & 1 == 0 {
                out.push(b'-');
            }
            text::number(out, moment.bits >> 1);
        });
        json.number("process_id", moment.bits & 0x7fff);
        json.plain("session_id", |out| text::hex(out, moment.request.1, 12));
        json.plain("timestamp", |out| {
            text::moment(out, moment.at, b' ');
            out.extend_from_slice(b" UTC");
        });
        json.close();
        json.close();
    });
}

/// What the relay of functions says of an invocation.
pub(crate) fn invocation(out: &mut Vec<u8>, moment: &Moment) {
    let function = FUNCTIONS.get(moment.function).copied().unwrap_or_default();
    event(out, moment, (2, 1_500), &format!("POST | {} | {}", moment.status, moment.url), |json| {
        json.open("metadata");
        json.text("function_id", function);
        json.text("version", "12");
        json.plain("execution_id", |out| text::uuid(out, (moment.request.1, moment.request.0)));
        json.plain("request_id", |out| text::uuid(out, moment.request));
        json.number("execution_time_ms", u64::from(moment.origin));
        json.text("project_ref", &moment.project);
        json.open("request");
        json.text("method", "POST");
        json.text("pathname", &moment.path);
        json.text("host", &moment.host);
        json.text("url", &moment.url);
        json.close();
        json.open("response");
        json.number("status_code", moment.status);
        json.close();
        json.close();
    });
}

/// How many lines the function of a request prints.
pub(crate) fn printed(moment: &Moment) -> u64 {
    moment.bits >> 16 & 3
}

/// Line `number` that a function prints.
pub(crate) fn output(out: &mut Vec<u8>, moment: &Moment, number: u64) {
    event(out, moment, (3 + number, output_delay(number)), output_text(moment, number), |json| {
        output_metadata(json, moment, number);
    });
}

/// The same as a CSV row, with the flat columns or without them.
pub(crate) fn output_row(out: &mut Vec<u8>, scratch: &mut Vec<u8>, moment: &Moment, number: u64, flat: bool) {
    made(out, scratch, |out| text::uuid(out, (moment.id.0 ^ (3 + number) << 8, moment.id.1)));
    made(out, scratch, |out| text::moment(out, moment.at + output_delay(number), b' '));
    text::field(out, &moment.project);
    text::field(out, output_text(moment, number));
    if flat {
        text::field(out, "Log");
        text::field(out, output_level(moment, number));
        text::field(out, FUNCTIONS.get(moment.function).copied().unwrap_or_default());
        made(out, scratch, |out| text::uuid(out, (moment.request.1, moment.request.0)));
        made(out, scratch, |out| text::uuid(out, moment.request));
    }
    made(out, scratch, |out| {
        out.push(b'{');
        output_metadata(&mut Json { out, wrapped: false }, moment, number);
        // The record alone, without the key that it was written under.
        out.drain(..b"{\"metadata\":".len());
    });
    text::end_row(out);
}

fn output_delay(number: u64) -> i64 {
    2_000 + 700 * number.cast_signed()
}

fn output_text(moment: &Moment, number: u64) -> &'static str {
    choose(&OUTPUT, (moment.bits >> 8).wrapping_add(number))
}

fn output_level(moment: &Moment, number: u64) -> &'static str {
    match output_text(moment, number) {
        text if text.starts_with("Error") => "error",
        text if text.contains("429") => "warning",
        _ => "info",
    }
}

fn output_metadata(json: &mut Json<'_>, moment: &Moment, number: u64) {
    json.open("metadata");
    json.text("event_type", "Log");
    json.text("level", output_level(moment, number));
    json.text("function_id", FUNCTIONS.get(moment.function).copied().unwrap_or_default());
    json.plain("execution_id", |out| text::uuid(out, (moment.request.1, moment.request.0)));
    json.plain("request_id", |out| text::uuid(out, moment.request));
    json.text("project_ref", &moment.project);
    json.text("region", "eu-west-1");
    json.close();
}

/// The auth server, whose message is JSON; its `status` is a text in one record of ten.
pub(crate) fn auth(out: &mut Vec<u8>, moment: &Moment) {
    let path = moment.path.strip_prefix("/auth/v1").unwrap_or_default();
    let message = format!(
        r#"{{"component":"api","level":"info","method":"POST","msg":"request completed","path":"{path}","status":{}}}"#,
        moment.status
    );
    event(out, moment, (8, 1_100), &message, |json| {
        json.text("project", &moment.project);
        json.open("metadata");
        json.text("component", "api");
        json.text("level", "info");
        json.text("msg", "request completed");
        json.text("method", "POST");
        json.text("path", path);
        if moment.bits.is_multiple_of(10) {
            json.plain("status", |out| text::number(out, moment.status));
        } else {
            json.number("status", moment.status);
        }
        json.number("duration", u64::from(moment.origin) * 1_000_000);
        json.plain("request_id", |out| text::uuid(out, moment.request));
        if let Some(user) = moment.user {
            json.open("auth_event");
            json.text("action", "token_refreshed");
            json.plain("actor_id", |out| text::uuid(out, user));
            json.flag("actor_via_sso", false);
            json.close();
        }
        json.close();
    });
}

/// The object storage, whose `context` is an array from every sender.
pub(crate) fn storage(out: &mut Vec<u8>, moment: &Moment) {
    let message = format!("{} | {} | {}", moment.method, moment.status, moment.path);
    event(out, moment, (9, 1_300), &message, |json| {
        json.open("metadata");
        json.text("level", if moment.status < 400 { "info" } else { "error" });
        json.text("project", &moment.project);
        json.text("tenantId", &moment.project);
        json.plain("reqId", |out| text::uuid(out, moment.request));
        json.raw("responseTime", |out| {
            text::number(out, u64::from(moment.origin));
            out.extend_from_slice(b".25");
        });
        json.raw("context", |out| out.extend_from_slice(br#"[{"host":"storage-1","pid":17}]"#));
        json.open("req");
        json.text("method", moment.method);
        json.text("url", &moment.path);
        json.close();
        json.open("res");
        json.number("statusCode", moment.status);
        json.close();
        json.close();
    });
}

/// The realtime service.
pub(crate) fn realtime(out: &mut Vec<u8>, moment: &Moment) {
    let connected = moment.bits & 255;
    event(out, moment, (10, 400), &format!("Connected clients {connected}, limit 200"), |json| {
        json.open("metadata");
        json.text("level", "info");
        json.text("external_id", &moment.project);
        json.text("project", &moment.project);
        json.open("measurements");
        json.number("connected", connected);
        json.number("limit", 200);
        json.close();
        json.close();
    });
}

/// REST over the database.
pub(crate) fn postgrest(out: &mut Vec<u8>, moment: &Moment) {
    event(out, moment, (11, 300), "Schema cache loaded 12 Relations, 4 Relationships, 9 Functions", |json| {
        json.text("project", &moment.project);
        json.text("identifier", &moment.project);
        json.open("metadata");
        json.text("host", "rest-1");
        json.close();
    });
}

/// The pooler of connections.
pub(crate) fn pooler(out: &mut Vec<u8>, moment: &Moment) {
    event(out, moment, (12, 200), "stats: 4 xacts/s, 5 queries/s, in 1200 B/s, out 5400 B/s", |json| {
        json.text("project", &moment.project);
        json.open("metadata");
        json.text("host", "pool-1");
        json.text("file", "pooler.log");
        json.text("project", &moment.project);
        json.close();
    });
}

fn choose<T: Copy + Default>(list: &[T], bits: u64) -> T {
    list.get((bits % list.len().max(1) as u64) as usize).copied().unwrap_or_default()
}
