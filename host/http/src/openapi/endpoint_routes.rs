//! The routes that manage endpoints and their versions, and tell how they were called.

use super::route::{CHANGE_REFUSALS, Gives, LIST_REFUSALS, QUERY_REFUSALS, Route, SAVE_REFUSALS, Takes, Who, route};

/// All routes of endpoints.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "Of the last hour, or since the start of the process if that is later. Times are rounded up, by a third at most.",
        success: &[(200, Gives::List("EndpointStatistics"))],
        refusals: LIST_REFUSALS,
        ..route(
            "/api/endpoint-statistics",
            "get",
            "list_endpoint_statistics",
            Who::Private,
            "How often each endpoint was called, with what result, and how long it took",
        )
    },
    Route {
        description: "Of the last hour, at most 100, the slowest first; held in memory. Answers from the cache are not among \
                      them. The text of an ad-hoc query may hold whatever its caller looked for.",
        success: &[(200, Gives::List("SlowQuery"))],
        refusals: LIST_REFUSALS,
        ..route(
            "/api/slow-queries",
            "get",
            "list_slow_queries",
            Who::Private,
            "The slowest queries, with their text and their cost",
        )
    },
    Route {
        success: &[(200, Gives::List("Endpoint"))],
        refusals: LIST_REFUSALS,
        ..route("/api/endpoints", "get", "list_endpoints", Who::Private, "All saved endpoints")
    },
    Route {
        description: "The query is checked: what cannot run is refused with the reason.",
        parameters: &["refuse_wider"],
        body: Takes::Json("NewEndpoint"),
        success: &[(201, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints", "post", "create_endpoint", Who::Private, "Save an endpoint")
    },
    Route {
        parameters: &["endpoint"],
        success: &[(200, Gives::Tagged("Endpoint"))],
        ..route("/api/endpoints/{endpoint}", "get", "show_endpoint", Who::Private, "One endpoint")
    },
    Route {
        description: "Fields that are left out stay as they are.",
        parameters: &["endpoint", "refuse_wider", "if-match"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Tagged("Endpoint"))],
        refusals: CHANGE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "put", "update_endpoint", Who::Private, "Save a new version")
    },
    Route {
        description: "As by PUT.",
        parameters: &["endpoint", "refuse_wider", "if-match"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Tagged("Endpoint"))],
        refusals: CHANGE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "patch", "change_endpoint", Who::Private, "Save a new version")
    },
    Route {
        parameters: &["endpoint", "if-match"],
        success: &[(204, Gives::Nothing)],
        refusals: CHANGE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "delete", "delete_endpoint", Who::Private, "Delete an endpoint")
    },
    Route {
        description: "What would become of these fields if they were put, refusals and warnings included. Nothing is saved. \
                      Where there is no such endpoint, they are those of a new one.",
        parameters: &["endpoint", "refuse_wider", "if-match"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Json("CheckedEndpoint"))],
        refusals: CHANGE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/check",
            "post",
            "check_endpoint",
            Who::Private,
            "Check an endpoint without saving it",
        )
    },
    Route {
        description: "What callers would be answered if these fields were put: they are checked as by PUT, and run once with \
                      `arguments`, as a request to the endpoint. Nothing is saved, and no answer is kept. Where there is no \
                      such endpoint, they are those of a new one.",
        parameters: &["endpoint"],
        body: Takes::Json("TriedEndpoint"),
        success: &[(200, Gives::Rows)],
        refusals: QUERY_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/try",
            "post",
            "try_endpoint",
            Who::Private,
            "Run a draft of an endpoint without saving it",
        )
    },
    Route {
        description: "Takes what the query takes, and runs nothing: which columns of granted tables it reads, what is left of \
                      its sources after times and projects are compared, and, on a server with workers, what of it goes to \
                      them or why not. For private tokens without pinned parameters, because the figures tell about all rows \
                      of a source. With an object `as` in the body, such as {\"project\": \"abc\"}, it is explained as for a token that \
                      pins these. An endpoint with code is refused without sql or lql.",
        parameters: &["endpoint"],
        body: Takes::Parameters,
        success: &[(200, Gives::Json("Explanation"))],
        refusals: QUERY_REFUSALS,
        ..route("/api/endpoints/{endpoint}/explain", "post", "explain_query", Who::Private, "What a query would read")
    },
    Route {
        description: "A WebAssembly component with its manifest, as `tidegate build` packs it. It is put under the name that \
                      its manifest has, or in place of an endpoint. The one that is there already is no new version.",
        parameters: &["endpoint", "make_sources", "refuse_wider", "strict", "if-match"],
        body: Takes::Component,
        success: &[(200, Gives::Tagged("Endpoint")), (201, Gives::Tagged("Endpoint"))],
        refusals: CHANGE_REFUSALS,
        ..route("/api/endpoints/{endpoint}/component", "put", "put_component", Who::Private, "Save a component")
    },
    Route {
        description: "What would become of the same component if it were put, refusals and warnings included. Nothing is \
                      saved.",
        parameters: &["endpoint", "make_sources", "refuse_wider", "strict", "if-match"],
        body: Takes::Component,
        success: &[(200, Gives::Json("CheckedComponent"))],
        refusals: CHANGE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/component/check",
            "post",
            "check_component",
            Who::Private,
            "Check a component without saving it",
        )
    },
    Route {
        description: "As it was put, or as it was made of the saved query.",
        parameters: &["endpoint"],
        success: &[(200, Gives::Component)],
        ..route(
            "/api/endpoints/{endpoint}/component",
            "get",
            "get_component",
            Who::Private,
            "The component of an endpoint",
        )
    },
    Route {
        parameters: &["endpoint"],
        success: &[(200, Gives::List("EndpointVersion"))],
        ..route(
            "/api/endpoints/{endpoint}/versions",
            "get",
            "list_endpoint_versions",
            Who::Private,
            "All versions of an endpoint, the newest first",
        )
    },
    Route {
        parameters: &["endpoint", "version"],
        success: &[(200, Gives::Component)],
        ..route(
            "/api/endpoints/{endpoint}/versions/{version}/component",
            "get",
            "get_version_component",
            Who::Private,
            "The component of a version",
        )
    },
    Route {
        parameters: &["endpoint", "version", "refuse_wider", "if-match"],
        success: &[(200, Gives::Tagged("Endpoint"))],
        refusals: CHANGE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/versions/{version}/restore",
            "post",
            "restore_endpoint_version",
            Who::Private,
            "Make what an old version said the newest version",
        )
    },
];
