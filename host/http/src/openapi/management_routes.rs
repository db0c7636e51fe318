//! The routes of management: endpoints, alerts, sources, access tokens, who reads what, and the deny list.

use tidegate_service::alerts::AlertRun;

use super::route::{Gives, QUERY_REFUSALS, Route, Takes, Who, delete, get, post, put};
use crate::call_statistics::EndpointStatistics;
use crate::explain::ExplanationView;
use crate::manage::access_view::{AccessOfClasses, AccessOfToken};
use crate::manage::alert_view::{
    AlertFields, AlertOfEndpoint, AlertSecret, AlertSecretFields, AlertTest, AlertView, MadeAlert, NewAlert,
};
use crate::manage::components::CheckedComponent;
use crate::manage::endpoint_view::{Endpoint, EndpointFields, EndpointVersion, NewEndpoint};
use crate::manage::endpoints::CheckedEndpoint;
use crate::manage::issuers::{DeniedTokens, NewDeniedTokens};
use crate::manage::sources::{FillRates, NewSource, Source, SourceFields, SourceSchema};
use crate::manage::tokens::{AccessToken, CurrentAccessToken, MadeAccessToken, NewAccessToken};
use crate::manage::trial::TriedEndpoint;
use crate::slow_queries::SlowQuery;

/// The status codes with which a run of an alert may be refused.
const RUN_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504];
/// The status codes with which a report may be refused: it is planned, and takes a permit like a query.
const REPORT_REFUSALS: &[u16] = &[401, 403, 404, 422, 429, 500, 503, 504];

const ENDPOINTS: &str = "/api/endpoints";
const ENDPOINT: &str = "/api/endpoints/{endpoint}";
const ALERTS: &str = "/api/endpoints/{endpoint}/alerts";
const ALERT: &str = "/api/endpoints/{endpoint}/alerts/{alert}";
const RUNS: &str = "/api/endpoints/{endpoint}/alerts/{alert}/runs";
const SOURCES: &str = "/api/sources";
const SOURCE: &str = "/api/sources/{source}";
const TOKENS: &str = "/api/access-tokens";
const TOKEN: &str = "/api/access-tokens/{token}";
const DENIED: &str = "/api/issuers/denied";

/// All of them.
pub(super) fn routes() -> Vec<Route> {
    [endpoints(), versions(), alerts(), sources(), tokens(), access(), issuers()].into_iter().flatten().collect()
}

fn endpoints() -> Vec<Route> {
    vec![
        get(
            "/api/endpoint-statistics",
            "list_endpoint_statistics",
            "How often each endpoint was called, with what result, and how long it took",
        )
        .tells("Of the last hour, or since the start of the process if that is later. Times are rounded up, by a third at most.")
        .lists::<EndpointStatistics>(),
        get("/api/slow-queries", "list_slow_queries", "The slowest queries, with their text and their cost")
            .tells(
                "Of the last hour, at most 100, the slowest first; held in memory. Answers from the cache are not among them. The \
                 text of an ad-hoc query may hold whatever its caller looked for.",
            )
            .lists::<SlowQuery>(),
        get(ENDPOINTS, "list_endpoints", "All saved endpoints").lists::<Endpoint>(),
        post(ENDPOINTS, "create_endpoint", "Save an endpoint")
            .tells("The query is checked: what cannot run is refused with the reason.")
            .with(&["refuse_wider"])
            .takes::<NewEndpoint>()
            .makes::<Endpoint>(),
        get(ENDPOINT, "show_endpoint", "One endpoint").gives_tagged::<Endpoint>(),
        put(ENDPOINT, "update_endpoint", "Save a new version")
            .tells("Fields that are left out stay as they are.")
            .or_patch("change_endpoint")
            .with(&["refuse_wider"])
            .takes::<EndpointFields>()
            .changes()
            .gives_tagged::<Endpoint>(),
        delete(ENDPOINT, "delete_endpoint", "Delete an endpoint").changes(),
        post("/api/endpoints/{endpoint}/check", "check_endpoint", "Check an endpoint without saving it")
            .tells(
                "What would become of these fields if they were put, refusals and warnings included. Nothing is saved. Where \
                 there is no such endpoint, they are those of a new one.",
            )
            .with(&["refuse_wider"])
            .takes::<EndpointFields>()
            .changes()
            .gives::<CheckedEndpoint>(),
        post("/api/endpoints/{endpoint}/try", "try_endpoint", "Run a draft of an endpoint without saving it")
            .tells(
                "What callers would be answered if these fields were put: they are checked as by PUT, and run once with \
                 `arguments`, as a request to the endpoint. Nothing is saved, and no answer is kept. Where there is no such \
                 endpoint, they are those of a new one.",
            )
            .takes::<TriedEndpoint>()
            .answers(200, Gives::Rows)
            .refuses(QUERY_REFUSALS),
        post("/api/endpoints/{endpoint}/explain", "explain_query", "What a query would read")
            .tells(
                "Takes what the query takes, and runs nothing: which columns of granted tables it reads, what is left of its \
                 sources after times and projects are compared, and, on a server with workers, what of it goes to them or why \
                 not. For private tokens without pinned parameters, because the figures tell about all rows of a source. With \
                 an object `as` in the body, such as {\"project\": \"abc\"}, it is explained as for a token that pins these. An \
                 endpoint with code is refused without sql or lql.",
            )
            .body(Takes::Parameters)
            .gives::<ExplanationView>()
            .refuses(QUERY_REFUSALS),
    ]
}

/// Components and versions of endpoints.
fn versions() -> Vec<Route> {
    const HOW: &[&str] = &["make_sources", "refuse_wider", "strict"];
    vec![
        put("/api/endpoints/{endpoint}/component", "put_component", "Save a component")
            .tells(
                "A WebAssembly component with its manifest, as `tidegate build` packs it. It is put under the name that its \
                 manifest has, or in place of an endpoint. The one that is there already is no new version.",
            )
            .with(HOW)
            .body(Takes::Component)
            .changes()
            .gives_tagged::<Endpoint>()
            .makes_tagged::<Endpoint>(),
        post("/api/endpoints/{endpoint}/component/check", "check_component", "Check a component without saving it")
            .tells(
                "What would become of the same component if it were put, refusals and warnings included. Nothing is saved.",
            )
            .with(HOW)
            .body(Takes::Component)
            .changes()
            .gives::<CheckedComponent>(),
        get("/api/endpoints/{endpoint}/component", "get_component", "The component of an endpoint")
            .tells("As it was put, or as it was made of the saved query.")
            .answers(200, Gives::Component),
        get(
            "/api/endpoints/{endpoint}/versions",
            "list_endpoint_versions",
            "All versions of an endpoint, the newest first",
        )
        .lists::<EndpointVersion>(),
        get(
            "/api/endpoints/{endpoint}/versions/{version}/component",
            "get_version_component",
            "The component of a version",
        )
        .answers(200, Gives::Component),
        post(
            "/api/endpoints/{endpoint}/versions/{version}/restore",
            "restore_endpoint_version",
            "Make what an old version said the newest version",
        )
        .with(&["refuse_wider"])
        .changes()
        .gives_tagged::<Endpoint>(),
    ]
}

fn alerts() -> Vec<Route> {
    vec![
        get("/api/alerts", "list_all_alerts", "The alerts of all endpoints, with their state")
            .tells("Those that fire first, then by the names of endpoint and alert; the first 1,000.")
            .lists::<AlertOfEndpoint>(),
        get(ALERTS, "list_alerts", "The alerts of an endpoint, with their state").lists::<AlertView>(),
        post(ALERTS, "create_alert", "Add an alert to an endpoint")
            .tells(
                "An alert is a part of the endpoint: this saves a new version of it. The secret that signs the alert's messages \
                 is in this answer, and in no later one.",
            )
            .takes::<NewAlert>()
            .makes::<MadeAlert>(),
        get(ALERT, "show_alert", "One alert, with its state").gives_tagged::<AlertView>(),
        put(ALERT, "update_alert", "Change an alert")
            .tells("Fields that are left out stay as they are. This saves a new version of the endpoint.")
            .or_patch("change_alert")
            .takes::<AlertFields>()
            .changes()
            .gives_tagged::<AlertView>(),
        delete(ALERT, "delete_alert", "Delete an alert")
            .tells("This saves a new version of the endpoint. Messages that wait are not sent, and its secret is forgotten.")
            .changes(),
        get(RUNS, "list_alert_runs", "The last runs of an alert, the newest first").lists::<AlertRun>(),
        post(RUNS, "run_alert", "Run an alert now")
            .tells("As if its time had come: state and messages follow from what it finds. A paused alert is run too.")
            .gives::<AlertRun>()
            .refuses(RUN_REFUSALS),
        post("/api/endpoints/{endpoint}/alerts/{alert}/test", "test_alert", "Send a test message of an alert")
            .tells(
                "The endpoint is asked, and a message with the state `test` is sent once, whether the condition holds or not. \
                 The state of the alert stays as it is.",
            )
            .gives::<AlertTest>()
            .refuses(RUN_REFUSALS),
        post("/api/endpoints/{endpoint}/alerts/{alert}/secret", "set_alert_secret", "Give an alert another secret")
            .tells("The one that is given, or a new one. Messages from now on are signed with it. It is in this answer only.")
            .may_take::<AlertSecretFields>()
            .gives::<AlertSecret>(),
    ]
}

fn sources() -> Vec<Route> {
    vec![
        get(SOURCES, "list_sources", "All sources").lists::<Source>(),
        post(SOURCES, "create_source", "Make a source").takes::<NewSource>().makes::<Source>(),
        get(SOURCE, "show_source", "One source, and how much it holds").gives_tagged::<Source>(),
        put(SOURCE, "update_source", "Rename a source, change its retention, or say whose its rows are")
            .tells(
                "Endpoints that read the source go on reading it under its new name. A change of `tenant` through which tokens \
                 would read more is refused with `conflict` and what they would read, unless the request says `widens`. The \
                 first `tenant` of a source is taken, and warned of.",
            )
            .or_patch("change_source")
            .takes::<SourceFields>()
            .changes()
            .gives_tagged::<Source>(),
        delete(SOURCE, "delete_source", "Delete a source with all its rows")
            .tells(
                "Refused while an endpoint reads it; and with `conflict`, unless the request says `widens`, if tokens would read \
                 more of other sources, because a name that they pin is a tenant key of this source alone.",
            )
            .with(&["widens"])
            .changes(),
        get("/api/sources/{source}/schema", "show_source_schema", "Every path that an event had so far, with its type")
            .gives::<SourceSchema>(),
        get(
            "/api/sources/{source}/fill-rates",
            "show_fill_rates",
            "How often the fields of a source have a value",
        )
        .tells(
            "From the footers of up to 100 segments, those with the most rows, and the rows in memory. Fields of single values \
             only. A value that has no column of its own is not counted, so that a rare field may have 0.",
        )
        .gives::<FillRates>(),
        get("/api/sources/{source}/recent", "show_recent_rows", "The newest rows, newest first")
            .with(&["limit"])
            .answers(200, Gives::JsonRows)
            .refuses(QUERY_REFUSALS),
    ]
}

fn tokens() -> Vec<Route> {
    vec![
        get(TOKENS, "list_access_tokens", "All access tokens that are not revoked").lists::<AccessToken>(),
        post(TOKENS, "create_access_token", "Make an access token")
            .tells("The token itself is in this answer only.")
            .takes::<NewAccessToken>()
            .makes::<MadeAccessToken>(),
        get("/api/access-tokens/current", "show_current_access_token", "What the token of this request may do")
            .tells("For every token that is valid.")
            .by(Who::Query)
            .gives::<CurrentAccessToken>()
            .refuses(&[401, 429, 500, 503]),
        get(TOKEN, "show_access_token", "One access token").gives::<AccessToken>(),
        delete(TOKEN, "revoke_access_token", "Revoke an access token")
            .tells("At once and for good. Revoking it again is no error."),
    ]
}

/// The reports of who reads what.
fn access() -> Vec<Route> {
    let all = get("/api/access", "show_access", "Who reads what, by classes of access tokens")
        .tells(
            "Tokens with the same scopes, names of pinned values and limits are one class. So are those of each rule of an \
             issuer; alerts read for themselves. Made of the plans of all endpoints that they may query. Sorted, and without \
             times, so that it can be compared.",
        )
        .with(&["read_source", "rule"])
        .gives::<AccessOfClasses>();
    let current = get(
        "/api/access-tokens/current/access",
        "show_current_access",
        "What the token of this request reads, by endpoint, source and column",
    )
    .tells("For every token that is valid, without the names of sources that it is refused.")
    .by(Who::Query)
    .gives::<AccessOfToken>();
    let of_token = get(
        "/api/access-tokens/{token}/access",
        "show_access_of_token",
        "What an access token reads, by endpoint, source and column",
    )
    .with(&["read_source"])
    .gives::<AccessOfToken>();
    [all, current, of_token].map(|route| route.refuses(REPORT_REFUSALS)).into()
}

/// The deny list, by which tokens of issuers are refused.
fn issuers() -> Vec<Route> {
    vec![
        get(DENIED, "list_denied_tokens", "Tokens of issuers that are refused")
            .tells("What is over is not among them.")
            .lists::<DeniedTokens>(),
        post(DENIED, "deny_tokens", "Refuse the tokens of a subject, or one token, until a time")
            .tells("In effect when it is answered. Tokens that are denied already get the new end and reason.")
            .takes::<NewDeniedTokens>()
            .makes::<DeniedTokens>(),
        delete("/api/issuers/denied/{denied}", "allow_tokens", "Refuse the tokens no longer"),
    ]
}
