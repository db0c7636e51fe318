//! The routes for what watches the service.

use super::route::{Gives, Route, Who, route};

/// All routes of operation.
pub(super) const ROUTES: &[Route] = &[
    Route {
        success: &[(200, Gives::Json("Health"))],
        refusals: &[500],
        ..route("/health", "get", "health", Who::Nobody, "Whether the process answers")
    },
    Route {
        success: &[(200, Gives::Json("Health"))],
        refusals: &[500, 503],
        ..route("/ready", "get", "ready", Who::Nobody, "Whether requests can be served")
    },
    Route {
        success: &[(200, Gives::Metrics)],
        refusals: &[500],
        ..route("/metrics", "get", "metrics", Who::Nobody, "Figures for Prometheus")
    },
    Route {
        description: "With an access token it has the endpoints that the token may query, too.",
        success: &[(200, Gives::Json("OpenApi"))],
        refusals: &[401, 429, 500, 503, 504],
        ..route("/api/openapi", "get", "openapi", Who::Anyone, "This document")
    },
];
