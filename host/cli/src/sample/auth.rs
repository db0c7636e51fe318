//! The log of the auth server: its JSON lines, as text in the message and as fields in the metadata.

use serde_json::Value;

use super::clock::Clock;
use super::dice::Dice;
use super::moment::Moment;
use super::words::PEOPLE;
use super::{set, wrap};

pub(super) fn event(dice: &mut Dice, moment: &Moment, clock: &mut Clock) -> Value {
    let time = clock.iso(moment.at);
    let (message, mut fields) = match dice.below(100) {
        0..2 => (
            dice.pick(&["auth server v2 listening on :9999", "{ reloading keys: 2 found", ""]).to_owned(),
            record! { "level": "info" },
        ),
        kind => {
            let mut line = line(dice, moment, kind);
            set(&mut line, "time", time.as_str());
            (line.to_string(), line)
        }
    };
    set(&mut fields, "timestamp", time);
    if let Some(mut account) = fields.get("action").and_then(Value::as_str).map(|action| account(moment, action)) {
        let traits = record! { "provider": provider(moment), "user_id": moment.user_id() };
        set(&mut account, "traits", if moment.bare { traits } else { wrap(traits) });
        set(&mut fields, "auth_event", if moment.bare { account } else { wrap(account) });
    }
    let mut event = record! {
        "timestamp": clock.timestamp(dice, moment.at, moment.bare), "project": moment.project, "event_message": message,
    };
    if moment.bare {
        set(&mut event, "appname", "harbour-auth");
        set(&mut event, "metadata", fields);
    } else {
        set(&mut event, "id", dice.uuid());
        set(&mut event, "metadata", wrap(fields));
    }
    event
}

/// A line about the end of a request, an account event, a token refresh or an error.
fn line(dice: &mut Dice, moment: &Moment, kind: u32) -> Value {
    let mut line = record! {
        "component": "api", "level": "info", "method": if moment.auth_path == "/user" { "GET" } else { "POST" },
        "path": moment.auth_path, "remote_addr": moment.client.as_str(), "request_id": moment.request_id(),
        "referer": "https://harbour.example.test", "host": moment.host(),
    };
    match kind {
        2..62 => {
            set(&mut line, "msg", "request completed");
            let status = if moment.status == 304 { 200 } else { moment.status };
            // Some versions of the auth server log the status as text.
            let status = if dice.one_in(10) { Value::from(status.to_string()) } else { status.into() };
            set(&mut line, "status", status);
            set(&mut line, "duration", (dice.duration(35.0) * 1e6) as u64);
            if moment.status >= 400 {
                set(&mut line, "level", if moment.status >= 500 { "error" } else { "warning" });
                set(&mut line, "error", format!("{}: the request was refused", moment.status));
                set(
                    &mut line,
                    "error_code",
                    dice.pick(&["invalid_credentials", "over_request_rate_limit", "session_not_found"]),
                );
            } else if moment.auth_path == "/token" {
                login(dice, moment, &mut line, "login");
            }
        }
        62..86 => {
            let action = dice.pick(&[
                "login",
                "login",
                "logout",
                "user_signedup",
                "user_recovery_requested",
                "user_modified",
                "user_updated_password",
            ]);
            set(&mut line, "msg", if action == "login" { "Login" } else { "account event" });
            login(dice, moment, &mut line, action);
        }
        86..95 => {
            set(&mut line, "msg", "token refreshed");
            let action = if dice.one_in(9) { "token_revoked" } else { "token_refreshed" };
            login(dice, moment, &mut line, action);
        }
        _ => {
            set(&mut line, "level", dice.pick(&["error", "error", "fatal"]));
            set(&mut line, "component", dice.pick(&["api", "mailer"]));
            set(&mut line, "msg", "500: could not hand the mail over");
            set(&mut line, "error", "dial tcp 10.4.0.30:587: connection refused");
        }
    }
    line
}

fn login(dice: &mut Dice, moment: &Moment, line: &mut Value, action: &'static str) {
    set(line, "action", action);
    set(line, "user_id", moment.user_id());
    set(line, "provider", provider(moment));
    set(line, "login_method", dice.pick(&["password", "password", "pkce", "otp", "token", "oidc"]));
    set(line, "metering", true);
}

fn provider(moment: &Moment) -> &'static str {
    match moment.user % 5 {
        0 => "google",
        1 => "github",
        _ => "email",
    }
}

fn account(moment: &Moment, action: &str) -> Value {
    let person = PEOPLE.iter().cycle().nth(moment.user as usize).copied().unwrap_or_default();
    record! {
        "action": action, "actor_id": moment.user_id(), "actor_username": format!("{person}{}@example.test", moment.user),
        "actor_via_sso": false, "log_type": if action.starts_with("token") { "token" } else { "account" },
    }
}
