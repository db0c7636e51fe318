//! The routes that manage access tokens.

use super::route::{Gives, LIST_REFUSALS, Route, SAVE_REFUSALS, Takes, Who, route};

/// All routes of access tokens.
pub(super) const ROUTES: &[Route] = &[
    Route {
        success: &[(200, Gives::List("AccessToken"))],
        refusals: LIST_REFUSALS,
        ..route(
            "/api/access-tokens",
            "get",
            "list_access_tokens",
            Who::Private,
            "All access tokens that are not revoked",
        )
    },
    Route {
        description: "The token itself is in this answer only.",
        body: Takes::Json("NewAccessToken"),
        success: &[(201, Gives::Json("MadeAccessToken"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/access-tokens", "post", "create_access_token", Who::Private, "Make an access token")
    },
    Route {
        description: "For every token that is valid.",
        success: &[(200, Gives::Json("CurrentAccessToken"))],
        refusals: &[401, 429, 500, 503],
        ..route(
            "/api/access-tokens/current",
            "get",
            "show_current_access_token",
            Who::Query,
            "What the token of this request may do",
        )
    },
    Route {
        parameters: &["token"],
        success: &[(200, Gives::Json("AccessToken"))],
        ..route("/api/access-tokens/{token}", "get", "show_access_token", Who::Private, "One access token")
    },
    Route {
        description: "At once and for good. Revoking it again is no error.",
        parameters: &["token"],
        success: &[(204, Gives::Nothing)],
        refusals: SAVE_REFUSALS,
        ..route("/api/access-tokens/{token}", "delete", "revoke_access_token", Who::Private, "Revoke an access token")
    },
];
