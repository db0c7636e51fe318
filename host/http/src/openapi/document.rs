//! The whole document, of the fixed routes and of saved endpoints.

use serde_json::{Map, Value, json};
use tidegate_model::Errors;
use tidegate_service::tokens::Access;

use super::answers::Described;
use super::{
    access_routes, alert_routes, door_routes, endpoint_routes, endpoint_schemas, explanation_schemas, issuer_routes,
    operation_routes, request_routes, source_routes, token_routes, worker_schemas,
};
use super::{components, endpoints, route::Route};

/// The fixed routes.
const ROUTES: [&[Route]; 9] = [
    request_routes::ROUTES,
    door_routes::ROUTES,
    endpoint_routes::ROUTES,
    alert_routes::ROUTES,
    source_routes::ROUTES,
    token_routes::ROUTES,
    access_routes::ROUTES,
    issuer_routes::ROUTES,
    operation_routes::ROUTES,
];

/// The document for a token, or for a caller without one. `errors` is the server's setting.
pub(super) fn document(endpoints: impl Iterator<Item = Described>, access: Option<&Access>, errors: Errors) -> Value {
    let of_caller = access.and_then(|access| access.errors).unwrap_or(errors);
    let mut paths = Map::new();
    for route in ROUTES.into_iter().flatten() {
        if let Value::Object(path) = paths.entry(route.path).or_insert_with(|| json!({})) {
            path.insert(route.method.to_owned(), route.operation(of_caller));
        }
    }
    let mut ids = endpoints::Ids::default();
    for described in endpoints {
        let (path, operation) = endpoints::operation(&described, access, errors, &mut ids);
        paths.insert(path, json!({"get": operation}));
    }
    let mut components = components::components();
    if let Some(all) = components.get_mut("schemas").and_then(Value::as_object_mut) {
        all.extend(access_routes::schemas());
        all.extend(alert_routes::schemas());
        all.extend(endpoint_schemas::schemas());
        all.extend(issuer_routes::schemas());
        all.insert("FillRates".to_owned(), source_routes::fill_rates());
        all.extend(worker_schemas::schemas());
        all.extend(explanation_schemas::schemas());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Saved SQL over logs, as HTTP endpoints.",
            "description": "With an access token, this document also has the saved endpoints that the token may query.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"bearer": []}],
        "tags": [
            {"name": "endpoints", "description": "The saved endpoints."},
            {"name": "query", "description": "Running an endpoint, saved or with an ad-hoc query."},
            {"name": "logs", "description": "Sending logs."},
            {"name": "management", "description": "Endpoints, sources and access tokens; for private tokens."},
            {"name": "operation", "description": "What watches the service."},
        ],
        "paths": paths,
        "components": components,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// The console's types are generated from this file when it is built, so a change of the interface that the console
    /// does not fit is an error of its build.
    #[test]
    fn the_console_is_built_for_this_document() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../console/openapi.json");
        let current = serde_json::to_string_pretty(&document(std::iter::empty(), None, Errors::Status)).unwrap() + "\n";
        if std::env::var_os("TIDEGATE_UPDATE").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == current, "console/openapi.json is out of date: run this test with TIDEGATE_UPDATE=1");
    }
}
