//! The gateway's record of a request: as JSON for the ingest door, as a row of flat columns for the peers.

use super::moment::{Moment, Product};
use super::text::{self, Json};

/// The columns of a row, in their order.
#[cfg(test)]
pub(crate) const COLUMNS: [&str; 21] = [
    "id",
    "timestamp",
    "project",
    "event_message",
    "request_id",
    "method",
    "path",
    "search",
    "url",
    "host",
    "user_agent",
    "country",
    "city",
    "colo",
    "cache_status",
    "auth_user",
    "role",
    "status_code",
    "origin_time",
    "content_length",
    "metadata",
];

/// One line of JSON.
pub(crate) fn line(out: &mut Vec<u8>, moment: &Moment) {
    let mut json = Json { out, wrapped: moment.wrapped };
    json.begin();
    json.plain("id", |out| text::uuid(out, moment.id));
    time(&mut json, moment.wrapped, moment.at);
    json.text("project", &moment.project);
    json.text("identifier", &moment.project);
    json.plain("event_message", |out| message(out, moment));
    metadata(&mut json, moment);
    json.end();
    out.push(b'\n');
}

/// The time as its sender writes it: microseconds from senders of the hosted kind, ISO text from shippers.
pub(crate) fn time(json: &mut Json<'_>, hosted: bool, at: i64) {
    if hosted {
        json.number("timestamp", at.unsigned_abs());
    } else {
        json.plain("timestamp", |out| {
            text::moment(out, at, b'T');
            out.push(b'Z');
        });
    }
}

/// One CSV row, with the flat columns or without them; `scratch` is memory for its parts.
pub(crate) fn row(out: &mut Vec<u8>, scratch: &mut Vec<u8>, moment: &Moment, flat: bool) {
    made(out, scratch, |out| text::uuid(out, moment.id));
    made(out, scratch, |out| text::moment(out, moment.at, b' '));
    text::field(out, &moment.project);
    made(out, scratch, |out| message(out, moment));
    if flat {
        columns(out, scratch, moment);
    }
    made(out, scratch, |out| {
        out.push(b'{');
        metadata(&mut Json { out, wrapped: false }, moment);
        // The record alone, without the key that it was written under.
        out.drain(..b"{\"metadata\":".len());
    });
    text::end_row(out);
}

/// A CSV field that `write` makes.
pub(crate) fn made(out: &mut Vec<u8>, scratch: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    scratch.clear();
    write(scratch);
    text::quoted(out, scratch);
}

/// What the questions read of the metadata.
fn columns(out: &mut Vec<u8>, scratch: &mut Vec<u8>, moment: &Moment) {
    made(out, scratch, |out| text::uuid(out, moment.request));
    text::field(out, moment.method);
    text::field(out, &moment.path);
    text::optional(out, (!moment.search.is_empty()).then_some(&moment.search));
    text::field(out, &moment.url);
    text::field(out, &moment.host);
    text::field(out, &moment.agent);
    let (country, city, _, colo, ..) = moment.place;
    for value in [country, city, colo, cache(moment)] {
        text::field(out, value);
    }
    match moment.user {
        Some(user) => made(out, scratch, |out| text::uuid(out, user)),
        None => text::optional(out, None),
    }
    text::optional(out, moment.role);
    text::count(out, moment.status);
    text::count(out, u64::from(moment.origin));
    text::count(out, length(moment));
}

/// Method, status, address, path and agent: no character of them needs an escape in JSON.
fn message(out: &mut Vec<u8>, moment: &Moment) {
    out.extend_from_slice(moment.method.as_bytes());
    out.extend_from_slice(b" | ");
    text::number(out, moment.status);
    out.extend_from_slice(b" | ");
    text::address(out, moment.bits);
    out.extend_from_slice(b" | ");
    text::hex(out, moment.request.0, 16);
    for part in [&moment.url, &moment.agent] {
        out.extend_from_slice(b" | ");
        out.extend_from_slice(part.as_bytes());
    }
}

fn metadata(json: &mut Json<'_>, moment: &Moment) {
    json.open("metadata");
    json.plain("request_id", |out| text::uuid(out, moment.request));
    if moment.bits >> 24 & 15 == 0 {
        json.text("load_balancer_redirect_identifier", "replica-1");
    }
    request(json, moment);
    response(json, moment);
    json.close();
}

fn request(json: &mut Json<'_>, moment: &Moment) {
    let (country, city, continent, colo, network, carrier, latitude, longitude) = moment.place;
    json.open("request");
    json.text("method", moment.method);
    json.text("protocol", "https:");
    json.text("host", &moment.host);
    json.text("path", &moment.path);
    if !moment.search.is_empty() {
        json.text("search", &moment.search);
    }
    json.text("url", &moment.url);

    json.open("headers");
    json.text("accept", "*/*");
    json.plain("cf_connecting_ip", |out| text::address(out, moment.bits));
    json.text("cf_ipcountry", country);
    json.plain("cf_ray", |out| text::hex(out, moment.request.0, 16));
    json.text("user_agent", &moment.agent);
    if moment.bits >> 28 & 1 == 0 {
        let client = super::words::CLIENTS.get((moment.bits >> 29 & 7) as usize % 5).copied().unwrap_or_default();
        json.text("x_client_info", client);
    }
    if moment.method != "GET" {
        json.plain("content_length", |out| text::number(out, moment.bits >> 32 & 4_095));
        json.text("content_type", "application/json");
    }
    json.close();

    json.open("cf");
    json.number("asn", network);
    for (key, value) in [
        ("asOrganization", carrier),
        ("city", city),
        ("country", country),
        ("continent", continent),
        ("colo", colo),
        ("latitude", latitude),
        ("longitude", longitude),
    ] {
        json.text(key, value);
    }
    json.number("clientTcpRtt", moment.bits >> 36 & 127);
    json.text("httpProtocol", if moment.bits >> 43 & 3 == 0 { "HTTP/1.1" } else { "HTTP/2" });
    if moment.bits >> 45 & 3 == 0 {
        json.open("botManagement");
        json.number("score", 1 + (moment.bits >> 47 & 63));
        json.flag("verifiedBot", moment.bits >> 53 & 31 == 0);
        json.close();
    }
    json.close();

    if let Some(role) = moment.role {
        caller(json, moment, role);
    }
    json.close();
}

/// What the credentials say of the caller.
fn caller(json: &mut Json<'_>, moment: &Moment, role: &str) {
    json.open("sb");
    if let Some(user) = moment.user {
        json.plain("auth_user", |out| text::uuid(out, user));
    }
    json.open("jwt");
    json.open("apikey");
    json.open("payload");
    json.text("role", "anon");
    json.text("algorithm", "HS256");
    json.number("expires_at", 2_050_000_000);
    json.text("signature_prefix", "bR9kLm");
    json.close();
    json.close();
    json.open("authorization");
    if moment.status == 401 {
        json.text("invalid", "the token has expired");
    }
    json.open("payload");
    json.text("role", role);
    json.text("algorithm", "ES256");
    json.plain("session_id", |out| text::hex(out, moment.request.1, 12));
    json.number("expires_at", moment.at.unsigned_abs() / 1_000_000 + 3_600);
    if let Some(user) = moment.user {
        json.plain("subject", |out| text::uuid(out, user));
    }
    json.close();
    json.close();
    json.close();
    json.close();
}

fn response(json: &mut Json<'_>, moment: &Moment) {
    json.open("response");
    json.number("status_code", moment.status);
    json.number("origin_time", u64::from(moment.origin));
    json.open("headers");
    json.text("content_type", if moment.product == Product::Storage { "image/webp" } else { "application/json" });
    json.text("cf_cache_status", cache(moment));
    json.number("content_length", length(moment));
    json.plain("x_kong_upstream_latency", |out| text::number(out, u64::from(moment.origin / 2)));
    if moment.status >= 400 {
        json.text("x_sb_error_code", if moment.product == Product::Rest { "PGRST116" } else { "unexpected" });
    }
    json.close();
    json.close();
}

fn cache(moment: &Moment) -> &'static str {
    match (moment.product, moment.bits >> 58) {
        (Product::Storage, 0..40) => "HIT",
        (Product::Storage, 40..58) => "MISS",
        _ => "DYNAMIC",
    }
}

fn length(moment: &Moment) -> u64 {
    moment.bits >> 20 & 0x7fff
}
