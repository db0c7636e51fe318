//! The whole document, of the fixed routes and of saved endpoints.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use tidegate_model::Errors;
use tidegate_service::tokens::Access;

use super::answers::Described;
use super::components;
use super::schemas::Schemas;
use super::{door_routes, endpoints, management_routes, request_routes};

/// What does not depend on a token and on what is saved.
#[derive(Debug, Clone)]
struct Fixed {
    paths: Map<String, Value>,
    components: Value,
}

/// Made once: the schemas are gathered of some hundred types.
static FIXED: LazyLock<Fixed> = LazyLock::new(|| Fixed::of(Errors::Status));

/// The same where errors have the status 200.
static FIXED_OK: LazyLock<Fixed> = LazyLock::new(|| Fixed::of(Errors::Ok));

impl Fixed {
    fn of(errors: Errors) -> Self {
        let (mut paths, mut schemas) = (Map::new(), Schemas::new());
        let routes = [request_routes::routes(), door_routes::routes(), management_routes::routes()];
        for route in routes.into_iter().flatten() {
            let operation = route.operation(&mut schemas, errors);
            if let Value::Object(path) = paths.entry(route.path).or_insert_with(|| json!({})) {
                path.extend(route.patched(&operation).map(|patched| ("patch".to_owned(), patched)));
                path.insert(route.method.to_owned(), operation);
            }
        }
        Self { paths, components: components::components(schemas.into_all()) }
    }
}

/// The document for a token, or for a caller without one. `errors` is the server's setting.
pub(super) fn document(endpoints: impl Iterator<Item = Described>, access: Option<&Access>, errors: Errors) -> Value {
    let Fixed { mut paths, components } = match access.and_then(|access| access.errors).unwrap_or(errors) {
        Errors::Status => FIXED.clone(),
        Errors::Ok => FIXED_OK.clone(),
    };
    let mut ids = endpoints::Ids::default();
    for described in endpoints {
        let (path, operation) = endpoints::operation(&described, access, errors, &mut ids);
        paths.insert(path, json!({"get": operation}));
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
