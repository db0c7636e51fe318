//! The log of the gateway: one record per request.

use serde_json::Value;

use super::clock::Clock;
use super::dice::Dice;
use super::moment::{Moment, Product};
use super::words::{CLIENTS, FILTERS, OBJECTS, PLACES, TABLES};
use super::{set, wrap};

pub(super) fn event(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let (method, path, search) = request(dice, moment);
    if moment.bare {
        bare(dice, moment, clock, method, &path, &search)
    } else {
        hosted(dice, moment, clock, method, path, search)
    }
}

/// The method, the path, and the query string with its question mark; the query string may be empty.
fn request(dice: &mut Dice, moment: &Moment) -> (&'static str, String, String) {
    match moment.product {
        Product::Rest => {
            let method =
                dice.weighted(&[(70, "GET"), (14, "POST"), (9, "PATCH"), (4, "DELETE"), (2, "HEAD"), (1, "OPTIONS")]);
            let table = dice.pick(&TABLES);
            let search = match dice.below(100) {
                0..30 => String::new(),
                30..60 => format!("?id=eq.{}&select=*", dice.below(90_000)),
                60 => long_search(dice),
                _ => dice.pick(&FILTERS).to_owned(),
            };
            (method, format!("/rest/v1/{table}"), search)
        }
        Product::Auth => {
            let (method, search) = match moment.auth_path {
                "/token" if dice.chance(60) => ("POST", "?grant_type=password"),
                "/token" => ("POST", "?grant_type=refresh_token"),
                "/user" | "/admin/users" => ("GET", ""),
                "/verify" => ("GET", "?type=signup&redirect_to=https%3A%2F%2Fharbour.example.test"),
                _ => ("POST", ""),
            };
            (method, format!("/auth/v1{}", moment.auth_path), search.to_owned())
        }
        Product::Storage => {
            let (path, search) = split(dice.pick(&OBJECTS));
            (
                dice.weighted(&[(85, "GET"), (10, "POST"), (3, "PUT"), (2, "DELETE")]),
                format!("/storage/v1{path}"),
                search,
            )
        }
        Product::Realtime => ("GET", "/realtime/v1/websocket".to_owned(), "?vsn=1.0.0".to_owned()),
        Product::Functions => ("POST", format!("/functions/v1/{}", moment.function), String::new()),
        Product::Graphql => ("POST", "/graphql/v1".to_owned(), String::new()),
    }
}

/// A search of about two kilobytes, as long lists of ids cause.
fn long_search(dice: &mut Dice) -> String {
    let ids: Vec<String> = (0..330).map(|_| (10_000 + dice.below(80_000)).to_string()).collect();
    format!("?id=in.({})", ids.join(","))
}

fn split(address: &str) -> (&str, String) {
    match address.find('?') {
        Some(mark) => (address.get(..mark).unwrap_or_default(), address.get(mark..).unwrap_or_default().to_owned()),
        None => (address, String::new()),
    }
}

fn hosted(
    dice: &mut Dice,
    moment: &Moment,
    clock: &mut Clock,
    method: &'static str,
    path: String,
    search: String,
) -> Value {
    let host = moment.host();
    let url = format!("https://{host}{path}{search}");
    let ray = format!("{:016x}", dice.any());
    let place = dice.pick(&PLACES);
    let message = format!("{method} | {} | {} | {ray} | {url} | {}", moment.status, moment.client, moment.agent);
    let response = response(dice, moment, clock, &ray);

    let mut headers = record! {
        "accept": "*/*", "cf_connecting_ip": moment.client.as_str(), "cf_ipcountry": place.country, "cf_ray": ray,
        "host": host.as_str(), "user_agent": moment.agent, "x_forwarded_proto": "https",
        "x_real_ip": moment.client.as_str(),
    };
    if dice.chance(60) {
        set(&mut headers, "x_client_info", dice.pick(&CLIENTS));
        set(&mut headers, "referer", "https://harbour.example.test/");
    }
    if method != "GET" {
        set(&mut headers, "content_length", dice.below(4_000).to_string());
        set(&mut headers, "content_type", "application/json");
    }
    let mut request = record! {
        "method": method, "protocol": "https:", "host": host, "path": path, "url": url, "headers": wrap(headers),
        "cf": wrap(network(dice, &place)),
    };
    if !search.is_empty() {
        set(&mut request, "search", search);
    }
    if dice.chance(75) {
        set(&mut request, "sb", wrap(caller(dice, moment)));
    }
    record! {
        "id": dice.uuid(), "timestamp": clock.timestamp(dice, moment.at, false), "project": moment.project,
        "identifier": moment.project, "event_message": message,
        "metadata": wrap(record! {
            "load_balancer_redirect_identifier": dice.one_in(20).then_some("replica-1"),
            "request_id": moment.request_id(), "request": wrap(request), "response": wrap(response),
        }),
    }
}

/// The data that the network in front of the gateway adds about the visitor.
fn network(dice: &mut Dice, place: &super::words::Place) -> Value {
    let mut facts = record! {
        "asn": place.asn, "asOrganization": place.carrier, "city": place.city, "region": place.region,
        "country": place.country, "continent": place.continent, "colo": place.colo, "latitude": place.latitude,
        "longitude": place.longitude, "timezone": place.timezone, "clientTcpRtt": dice.below(180),
        "httpProtocol": dice.weighted(&[(55, "HTTP/2"), (30, "HTTP/3"), (15, "HTTP/1.1")]), "tlsVersion": "TLSv1.3",
        "tlsCipher": "AEAD-AES128-GCM-SHA256",
    };
    if dice.chance(40) {
        let detected: Vec<u32> = (0..dice.below(3)).map(|_| 33_000_000 + dice.below(999)).collect();
        let manager = record! {
            "score": dice.below(99) + 1, "verifiedBot": dice.one_in(30), "corporateProxy": false,
            "staticResource": false, "detectionIds": detected,
        };
        set(&mut facts, "botManagement", wrap(manager));
    }
    facts
}

/// The data about the caller that the credentials contain.
fn caller(dice: &mut Dice, moment: &Moment) -> Value {
    if dice.chance(25) {
        let key = record! {
            "prefix": dice.pick(&["sb_publishable_7Hq2", "sb_secret_x9Lk"]), "hash": format!("{:016x}", dice.any()),
            "error": dice.one_in(25).then_some("unknown key"),
        };
        return record! { "apikey": wrap(record! { "apikey": wrap(key) }) };
    }
    let expires = moment.at / 1_000_000 + 3_600;
    let anonymous = record! {
        "role": "anon", "algorithm": "HS256", "issuer": "harbour", "expires_at": 2_050_000_000, "signature_prefix": "Vn3dQa",
    };
    let mut apikey = record! { "payload": wrap(anonymous) };
    let role = dice.weighted(&[(30, "anon"), (60, "authenticated"), (10, "service_role")]);
    let mut payload = record! {
        "role": role, "algorithm": "ES256", "issuer": format!("https://{}/auth/v1", moment.host()),
        "key_id": "key-2", "session_id": format!("{:012x}", dice.any() >> 16), "expires_at": expires, "signature_prefix": "pT8wZe",
    };
    let mut facts = serde_json::json!({});
    if role == "authenticated" {
        set(&mut payload, "subject", moment.user_id());
        set(&mut facts, "auth_user", moment.user_id());
    }
    let mut authorization = record! { "payload": wrap(payload) };
    if moment.status == 401 {
        let place = if dice.chance(20) { &mut apikey } else { &mut authorization };
        set(place, "invalid", dice.pick(&["the token has expired", "the signature does not fit"]));
    }
    set(&mut facts, "jwt", wrap(record! { "apikey": wrap(apikey), "authorization": wrap(authorization) }));
    facts
}

fn response(dice: &mut Dice, moment: &Moment, clock: &mut Clock, ray: &str) -> Value {
    let cache = match moment.product {
        Product::Storage => {
            dice.weighted(&[(60, "HIT"), (25, "MISS"), (5, "EXPIRED"), (3, "REVALIDATED"), (7, "DYNAMIC")])
        }
        _ => "DYNAMIC",
    };
    let length = dice.below(40_000);
    let mut headers = record! {
        "content_type": if matches!(moment.product, Product::Storage) { "image/webp" } else { "application/json" },
        "cf_cache_status": cache, "cf_ray": ray, "date": clock.of_http(moment.at),
        "sb_gateway_version": "1", "x_kong_upstream_latency": dice.below(90).to_string(),
        // The type depends on the version of the gateway.
        "content_length": if dice.chance(70) { Value::from(length) } else { length.to_string().into() },
    };
    if let Some(code) = error_code(moment) {
        set(&mut headers, "x_sb_error_code", code);
    }
    record! {
        "status_code": moment.status, "origin_time": dice.duration(40.0) as u32, "headers": wrap(headers),
    }
}

fn error_code(moment: &Moment) -> Option<&'static str> {
    Some(match (moment.product, moment.status) {
        (_, ..400) => return None,
        (Product::Rest, 404) => "PGRST205",
        (Product::Rest, 406) => "PGRST116",
        (Product::Rest, 409) => "23505",
        (Product::Rest, 403) => "42501",
        (Product::Rest, _) => "PGRST000",
        (Product::Auth, 429) => "over_request_rate_limit",
        (Product::Auth, _) => "bad_jwt",
        (Product::Storage, _) => "NoSuchKey",
        _ => return None,
    })
}

fn bare(dice: &mut Dice, moment: &Moment, clock: &mut Clock, method: &'static str, path: &str, search: &str) -> Value {
    let mut headers = record! {
        "referer": "-", "user_agent": moment.agent, "cf_connecting_ip": moment.client.as_str(),
    };
    // The error log of the gateway is shipped in the same form.
    if dice.one_in(30) {
        return record! {
            "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-gateway", "project": "default",
            "severity": dice.pick(&["error", "warn"]),
            "event_message": format!("upstream closed the connection too early, client: {}, request: \"{method} {path}\"", moment.client),
            "metadata": record! {
                "request": record! { "method": "GET", "path": path, "host": "localhost", "headers": headers },
                "response": record! { "status_code": 200 },
            },
        };
    }
    if dice.one_in(4) {
        set(&mut headers, "x_client_info", dice.pick(&CLIENTS));
    }
    let message = format!(
        "{} - - [{}] \"{method} {path}{search} HTTP/1.1\" {} {} \"-\" \"{}\"",
        moment.client,
        clock.of_access_log(moment.at),
        moment.status,
        dice.below(9_000),
        moment.agent
    );
    record! {
        "timestamp": clock.timestamp(dice, moment.at, true), "appname": "harbour-gateway", "project": "default",
        "event_message": message,
        "metadata": record! {
            "request": record! {
                "method": method, "path": format!("{path}{search}"), "protocol": "HTTP/1.1", "headers": headers,
            },
            "response": record! { "status_code": moment.status },
        },
    }
}
