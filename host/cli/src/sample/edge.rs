//! Requests through the API gateway.

use serde_json::{Value, json};

use super::{Choice, Event};

const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64)",
    "OrchardApp/2.4",
    "curl/8.9.1",
    "node",
    "Köderbot/1.0 (+https://bot.example.test)",
];
const TABLES: [&str; 8] = ["orders", "todos", "profiles", "messages", "teams", "größen", "events", "invoices"];

/// A path of a product, as often as products are called.
fn path(choice: &mut Choice) -> String {
    match choice.below(100) {
        0..55 => format!("/rest/v1/{}", choice.text(&TABLES)),
        55..70 => format!("/auth/v1/{}", choice.text(&["token", "user", "signup", "otp", "logout"])),
        70..85 => format!("/storage/v1/object/public/avatars/{}.png", choice.below(400)),
        85..93 => "/realtime/v1/websocket".to_owned(),
        93..99 => "/functions/v1/send-invoice".to_owned(),
        _ => "/graphql/v1".to_owned(),
    }
}

pub(super) fn status(choice: &mut Choice) -> u16 {
    match choice.below(100) {
        0..80 => 200,
        80..86 => 201,
        86..88 => 204,
        88..91 => 304,
        91..98 => choice.of(&[400, 401, 403, 404, 406, 409, 429]).unwrap_or(400),
        _ => choice.of(&[500, 502, 503]).unwrap_or(500),
    }
}

/// Milliseconds with a long tail.
fn origin_time(choice: &mut Choice) -> u32 {
    let base = 8 + choice.below(60);
    if choice.chance(4) { base * (5 + choice.below(200)) } else { base }
}

pub(super) fn request(choice: &mut Choice, event: &Event) -> Value {
    let method = choice.text(&["GET", "GET", "GET", "POST", "POST", "PATCH", "DELETE", "HEAD"]);
    let path = path(choice);
    let search = choice.chance(60).then(|| match choice.below(10) {
        0 => format!("?name=eq.{}&note=it's+100%25+✓", choice.hex(8)),
        _ => format!("?select=*&id=eq.{}", choice.below(10_000)),
    });
    let status = status(choice);
    let agent = choice.text(&AGENTS);
    let address = format!("203.0.113.{}", choice.below(256));
    let host = format!("{}.example.test", event.project);
    let query = search.clone().unwrap_or_default();
    if event.shipped {
        let line = format!(
            "{address} - - \"{method} {path}{query} HTTP/1.1\" {status} {} \"-\" \"{agent}\"",
            choice.below(9_000)
        );
        return json!({
            "event_message": line, "appname": "gateway", "project": event.project,
            "metadata": {
                "request": {
                    "method": method, "path": format!("{path}{query}"), "protocol": "HTTP/1.1",
                    "url": format!("https://{host}{path}{query}"),
                    "headers": {"user_agent": agent, "referer": "-", "cf_connecting_ip": address},
                },
                "response": {"status_code": status},
            },
        });
    }
    let url = format!("https://{host}{path}{query}");
    let role = choice.text(&["anon", "authenticated", "service_role"]);
    let payload = json!([{"role": role, "algorithm": "HS256", "issuer": "auth", "subject": choice.uuid(), "expires_at": 2_000_000_000, "signature_prefix": choice.hex(6)}]);
    let ray = choice.hex(16);
    json!({
        "project": event.project, "identifier": event.project,
        "event_message": format!("{method} | {status} | {address} | {ray} | {url} | {agent}"),
        "metadata": [{
            "load_balancer_redirect_identifier": "primary", "request_id": choice.uuid(),
            "request": [{
                "method": method, "protocol": "https:", "host": host, "path": path, "search": search, "url": url,
                "headers": [{
                    "accept": "*/*", "cf_connecting_ip": address, "cf_ipcountry": choice.text(&["PT", "DE", "US", "BR", "JP"]), "cf_ray": ray,
                    "content_length": choice.below(4_000).to_string(), "content_type": "application/json",
                    "user_agent": agent, "x_client_info": "supabase-js/2.45.0",
                }],
                "cf": [{
                    "asn": 64_500 + choice.below(10), "asOrganization": "Example Carrier", "city": "Porto", "country": "PT", "continent": "EU", "colo": "OPO",
                    "latitude": "41.15", "longitude": "-8.62", "httpProtocol": choice.text(&["HTTP/1.1", "HTTP/2", "HTTP/3"]), "clientTcpRtt": choice.below(90),
                    "botManagement": [{"score": 1 + choice.below(99), "verifiedBot": false, "detectionIds": [choice.below(9), choice.below(9)]}],
                }],
                "sb": [{"auth_user": choice.uuid(), "jwt": [{"apikey": [{"payload": payload}], "authorization": [{"payload": payload}]}]}],
            }],
            "response": [{
                "status_code": status, "origin_time": origin_time(choice),
                "headers": [{
                    "content_type": "application/json", "content_length": choice.below(9_000), "cf_ray": ray,
                    "cf_cache_status": choice.text(&["HIT", "HIT", "MISS", "EXPIRED", "DYNAMIC"]),
                    "x_kong_upstream_latency": choice.below(90).to_string(),
                }],
            }],
        }],
    })
}
