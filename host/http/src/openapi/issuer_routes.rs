//! The routes of the deny list, by which tokens of issuers are refused.

use serde_json::{Map, Value, json};

use super::route::{Gives, LIST_REFUSALS, Route, SAVE_REFUSALS, Takes, Who, route};
use super::schemas::{closed, object};

/// All routes of issuers.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "What is over is not among them.",
        success: &[(200, Gives::List("DeniedTokens"))],
        refusals: LIST_REFUSALS,
        ..route("/api/issuers/denied", "get", "list_denied_tokens", Who::Private, "Tokens of issuers that are refused")
    },
    Route {
        description: "In effect when it is answered. Tokens that are denied already get the new end and reason.",
        body: Takes::Json("NewDeniedTokens"),
        success: &[(201, Gives::Json("DeniedTokens"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/issuers/denied",
            "post",
            "deny_tokens",
            Who::Private,
            "Refuse the tokens of a subject, or one token, until a time",
        )
    },
    Route {
        parameters: &["denied"],
        success: &[(204, Gives::Nothing)],
        refusals: SAVE_REFUSALS,
        ..route("/api/issuers/denied/{denied}", "delete", "allow_tokens", Who::Private, "Refuse the tokens no longer")
    },
];

/// The schemas of these routes.
pub(super) fn schemas() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let subject = json!({"type": ["string", "null"], "maxLength": 255, "description": "The sub of the tokens."});
    let jti = json!({"type": ["string", "null"], "maxLength": 1024, "description": "The jti of one token, in the place of a subject."});
    let until = json!({"type": "string", "format": "date-time", "description": "When they are no longer refused; at most 366 days ahead."});
    let new = json!({
        "issuer": {"type": "string", "description": "The name of an [[issuer]] of the configuration, or its iss."},
        "subject": subject, "jti": jti, "until": until,
        "reason": {"type": ["string", "null"], "maxLength": 512},
    });
    let shown = json!({
        "id": {"type": "string", "format": "uuid"},
        "name": {"type": ["string", "null"], "description": "The issuer's name; null if the configuration does not have it."},
        "issuer": {"type": "string", "description": "The iss of the tokens."},
        "subject": subject, "jti": jti, "until": time, "reason": text, "inserted_at": time,
    });
    let needed = ["id", "name", "issuer", "subject", "jti", "until", "reason", "inserted_at"];
    [
        ("NewDeniedTokens".to_owned(), closed(new, &["issuer", "until"])),
        ("DeniedTokens".to_owned(), object(shown, &needed)),
    ]
    .into_iter()
    .collect()
}
