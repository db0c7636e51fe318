//! The routes of alerts, and the schemas of what they take and return.

use serde_json::{Map, Value, json};

use super::route::{CHANGE_REFUSALS, Gives, Route, SAVE_REFUSALS, SHOW_REFUSALS, Takes, Who, route};
use super::schemas::{closed, object, reference};

/// The status codes with which a run may be refused.
const RUN_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504];

const ALERTS: &str = "/api/endpoints/{endpoint}/alerts";
const ALERT: &str = "/api/endpoints/{endpoint}/alerts/{alert}";
const RUNS: &str = "/api/endpoints/{endpoint}/alerts/{alert}/runs";

/// All routes of alerts.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "Those that fire first, then by the names of endpoint and alert; the first 1,000.",
        success: &[(200, Gives::List("AlertOfEndpoint"))],
        ..route("/api/alerts", "get", "list_all_alerts", Who::Private, "The alerts of all endpoints, with their state")
    },
    Route {
        parameters: &["endpoint"],
        success: &[(200, Gives::List("Alert"))],
        ..route(ALERTS, "get", "list_alerts", Who::Private, "The alerts of an endpoint, with their state")
    },
    Route {
        description: "An alert is a part of the endpoint: this saves a new version of it. The secret that signs the alert's \
                      messages is in this answer, and in no later one.",
        parameters: &["endpoint"],
        body: Takes::Json("NewAlert"),
        success: &[(201, Gives::Json("MadeAlert"))],
        refusals: SAVE_REFUSALS,
        ..route(ALERTS, "post", "create_alert", Who::Private, "Add an alert to an endpoint")
    },
    Route {
        parameters: &["endpoint", "alert"],
        success: &[(200, Gives::Tagged("Alert"))],
        ..route(ALERT, "get", "show_alert", Who::Private, "One alert, with its state")
    },
    Route {
        description: "Fields that are left out stay as they are. This saves a new version of the endpoint.",
        parameters: &["endpoint", "alert", "if-match"],
        body: Takes::Json("AlertFields"),
        success: &[(200, Gives::Tagged("Alert"))],
        refusals: CHANGE_REFUSALS,
        ..route(ALERT, "put", "update_alert", Who::Private, "Change an alert")
    },
    Route {
        description: "As by PUT.",
        parameters: &["endpoint", "alert", "if-match"],
        body: Takes::Json("AlertFields"),
        success: &[(200, Gives::Tagged("Alert"))],
        refusals: CHANGE_REFUSALS,
        ..route(ALERT, "patch", "change_alert", Who::Private, "Change an alert")
    },
    Route {
        description: "This saves a new version of the endpoint. Messages that wait are not sent, and its secret is forgotten.",
        parameters: &["endpoint", "alert", "if-match"],
        success: &[(204, Gives::Nothing)],
        refusals: CHANGE_REFUSALS,
        ..route(ALERT, "delete", "delete_alert", Who::Private, "Delete an alert")
    },
    Route {
        parameters: &["endpoint", "alert"],
        success: &[(200, Gives::List("AlertRun"))],
        refusals: SHOW_REFUSALS,
        ..route(RUNS, "get", "list_alert_runs", Who::Private, "The last runs of an alert, the newest first")
    },
    Route {
        description: "As if its time had come: state and messages follow from what it finds. A paused alert is run too.",
        parameters: &["endpoint", "alert"],
        success: &[(200, Gives::Json("AlertRun"))],
        refusals: RUN_REFUSALS,
        ..route(RUNS, "post", "run_alert", Who::Private, "Run an alert now")
    },
    Route {
        description: "The endpoint is asked, and a message with the state `test` is sent once, whether the condition holds or \
                      not. The state of the alert stays as it is.",
        parameters: &["endpoint", "alert"],
        success: &[(200, Gives::Json("AlertTest"))],
        refusals: RUN_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/alerts/{alert}/test",
            "post",
            "test_alert",
            Who::Private,
            "Send a test message of an alert",
        )
    },
    Route {
        description: "The one that is given, or a new one. Messages from now on are signed with it. It is in this answer only.",
        parameters: &["endpoint", "alert"],
        body: Takes::JsonOrNothing("AlertSecretFields"),
        success: &[(200, Gives::Json("AlertSecret"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/alerts/{alert}/secret",
            "post",
            "set_alert_secret",
            Who::Private,
            "Give an alert another secret",
        )
    },
];

fn definition() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let fields = json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Unique within the endpoint: letters, digits, '.', '_', '-' and inner blanks."},
        "description": text,
        "every_minutes": {"type": "integer", "minimum": 1, "maximum": 1440},
        "condition": {"type": "string", "maxLength": 400, "description": "`rows > 0`, or a column, a comparison (> >= < <= = !=) and a number. It holds for a column if it holds for the value of any row; NULL does not count."},
        "url": {"type": "string", "maxLength": 2048, "description": "Where messages are posted to: https:// or http://, without a user name."},
        "parameters": {"type": "object", "additionalProperties": text, "description": "The parameters with which the endpoint is asked."},
        "tenant": {"type": "object", "additionalProperties": text, "description": "The tenant for which it is asked, as tenant keys and values. Without any, it reads the rows of all."},
        "again_after_minutes": {"type": "integer", "minimum": 0, "maximum": 1440, "default": 0, "description": "The least minutes between two messages that it fires."},
        "notify_resolved": {"type": "boolean", "default": true, "description": "Whether a message is sent when the condition holds no more."},
        "paused": {"type": "boolean", "default": false},
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// The schemas of alerts.
pub(super) fn schemas() -> Map<String, Value> {
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let text = json!({"type": ["string", "null"]});
    let count = json!({"type": "integer", "minimum": 0});
    let some_count = json!({"type": ["integer", "null"], "minimum": 0});
    let or_null = |name: &str| json!({"anyOf": [reference("schemas", name), {"type": "null"}]});
    let needed = ["name", "every_minutes", "condition", "url"];
    let fields = Value::Object(definition());
    let mut alert = definition();
    for (name, schema) in [
        (
            "firing",
            json!({"type": "boolean", "description": "Whether the condition held at the last run that could tell."}),
        ),
        ("since", time.clone()),
        ("occurrence", json!({"type": ["string", "null"], "format": "uuid"})),
        (
            "next_run",
            json!({"type": ["string", "null"], "format": "date-time", "description": "Null while it is paused."}),
        ),
        ("last_run", or_null("AlertRun")),
        ("last_delivery", or_null("AlertDelivery")),
        ("warnings", json!({"type": "array", "items": {"type": "string"}, "description": "Where it was saved."})),
    ] {
        alert.insert(name.to_owned(), schema);
    }
    let mut of_endpoint = alert.clone();
    let endpoint =
        object(json!({"id": {"type": "string", "format": "uuid"}, "name": {"type": "string"}}), &["id", "name"]);
    of_endpoint.insert("endpoint".to_owned(), endpoint);
    let mut made = alert.clone();
    made.insert("secret".to_owned(), json!({"type": "string", "description": "Shown once."}));
    let delivery = json!({
        "at": time,
        "state": {"type": "string", "enum": ["firing", "resolved", "test"]},
        "attempt": count,
        "delivered": {"type": "boolean", "description": "Whether the receiver answered a status from 200 to 299."},
        "given_up": {"type": "boolean"},
        "status": {"type": ["integer", "null"]},
        "error": {"type": ["string", "null"], "description": "Why there is no status."},
        "milliseconds": count,
    });
    let mut test = delivery.clone();
    if let Some(fields) = test.as_object_mut() {
        fields
            .insert("holds".to_owned(), json!({"type": "boolean", "description": "Whether the condition holds now."}));
    }
    let state = ["name", "every_minutes", "condition", "url", "firing", "next_run"];
    let secret = json!({"secret": {"type": ["string", "null"], "minLength": 16, "maxLength": 256, "description": "A new one is made if it is null or absent."}});
    let all = json!({
        "AlertDefinition": closed(fields.clone(), &needed),
        "AlertFields": closed(fields.clone(), &[]),
        "NewAlert": closed(fields, &needed),
        "Alert": object(Value::Object(alert), &state),
        "AlertOfEndpoint": object(Value::Object(of_endpoint), &["name", "endpoint", "firing", "since", "last_run", "last_delivery"]),
        "MadeAlert": object(Value::Object(made), &["name", "every_minutes", "condition", "url", "firing", "next_run", "secret"]),
        "AlertRun": object(json!({
            "at": time,
            "milliseconds": count,
            "holds": {"type": ["boolean", "null"], "description": "Whether the condition held; null if the run failed."},
            "rows": some_count,
            "value": {"type": ["number", "null"], "description": "What was compared: the number of rows, or of the column the value for which the condition holds, else the first."},
            "error": {"anyOf": [object(json!({"code": {"type": "string"}, "message": {"type": "string"}}), &["code", "message"]), {"type": "null"}]},
            "occurrence": text,
            "message": {"type": ["string", "null"], "enum": ["firing", "resolved", null], "description": "The message that it made."},
        }), &["at", "milliseconds", "holds", "rows", "value", "error", "occurrence", "message"]),
        "AlertDelivery": object(delivery, &["at", "state", "attempt", "delivered", "given_up", "status", "error", "milliseconds"]),
        "AlertTest": object(test, &["at", "state", "attempt", "delivered", "given_up", "status", "error", "milliseconds", "holds"]),
        "AlertSecretFields": closed(secret, &[]),
        "AlertSecret": object(json!({"secret": {"type": "string", "description": "Shown once."}}), &["secret"]),
    });
    match all {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}
