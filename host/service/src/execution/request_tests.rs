//! One name, one parameter: what callers and components send in another spelling.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;

use tidegate_compiler::manifest_of_texts;
use tidegate_runtime::{Body, Statement, Statements};

use super::*;
use crate::answer::Format;
use crate::options::Options;
use crate::registry::Endpoint;
use crate::save_request::SaveRequest;
use crate::service::Service;
use crate::tokens::Access;

/// Its query spells the parameters otherwise than its declaration does.
const NARROW: (&str, &str) = (
    "name = \"narrow\"\n[settings]\nsandboxable = true\n\
     [[parameters]]\nname = \"project\"\nrequired = true\nenum = [\"a\"]\n\
     [[parameters]]\nname = \"days\"\nkind = \"int64\"\nenum = [\"7\"]",
    "WITH t AS (SELECT event_message, @Project AS project, @Days AS days FROM `postgres.logs`) SELECT project, days FROM t",
);
/// It declares the parameter of the endpoint that it reads in another spelling.
const OUTER: (&str, &str) = (
    "name = \"around\"\n[settings]\nsandboxable = true\n[[parameters]]\nname = \"PROJECT\"\nenum = [\"a\"]",
    "WITH u AS (SELECT project FROM narrow WHERE @PROJECT IS NOT NULL) SELECT project FROM u",
);

async fn saved(service: &Service, (toml, query): (&str, &str)) -> Arc<Endpoint> {
    let manifest = manifest_of_texts(toml, query).unwrap();
    service.registrar.register_query(&manifest, SaveRequest::default()).await.unwrap()
}

fn sent(values: &[(&str, &str)], sql: Option<&str>) -> SentParameters {
    let values = values.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    SentParameters { values, records: Vec::new(), adhoc: sql.map(|sql| AdhocQuery::Sql(sql.to_owned())) }
}

#[tokio::test]
async fn a_declared_name_in_another_spelling_reaches_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let (narrow, outer) = (saved(&service, NARROW).await, saved(&service, OUTER).await);
    let inner = [Arc::clone(&narrow)];
    let mut access = Access::to_all("a test");
    let check = |endpoint: &Arc<Endpoint>, access: &Access, sent: SentParameters| {
        let reads: &[Arc<Endpoint>] = if Arc::ptr_eq(endpoint, &outer) { &inner } else { &[] };
        service.executor.check_request(Arc::clone(endpoint), reads, access, sent, Format::Json, false)
    };
    let of_t = "SELECT * FROM t -- @project, @days, @ref";
    let of_u = "SELECT * FROM u -- @project, @days";
    for (endpoint, values, sql) in [
        (&narrow, &[("project", "a"), ("Project", "b")][..], Some(of_t)),
        (&narrow, &[("PROJECT", "b"), ("project", "a")], Some(of_t)),
        (&narrow, &[("project", "a"), ("Days", "400")], Some(of_t)),
        (&narrow, &[("project", "a"), ("days", "7"), ("DAYS", "400 or more")], Some(of_t)),
        (&narrow, &[("project", "a"), ("ref", "x"), ("Ref", "y")], Some(of_t)),
        (&narrow, &[("project", "a"), ("Project", "b")], None),
        (&outer, &[("PROJECT", "a"), ("project", "b")], Some(of_u)),
        (&outer, &[("PROJECT", "a"), ("Project", "b")], Some(of_u)),
        (&outer, &[("PROJECT", "a"), ("Days", "400")], Some(of_u)),
    ] {
        let failure = check(endpoint, &access, sent(values, sql)).unwrap_err();
        assert_eq!(failure.code, Code::InvalidParameter, "{values:?}: {failure}");
        let wrong = failure.location.unwrap_or_default();
        assert!(values.iter().any(|(name, _)| *name == wrong), "{values:?}: {wrong}");
    }
    let fine = check(&narrow, &access, sent(&[("project", "a"), ("days", "7"), ("Ref", "x")], Some(of_t))).unwrap();
    assert_eq!(fine.arguments.get("days"), Some(&Value::Int64(7)));
    assert_eq!(fine.arguments.keys().collect::<Vec<_>>(), ["Ref", "days", "project"]);
    // What no text uses and nobody declared makes no difference.
    let fine = check(&narrow, &access, sent(&[("project", "a"), ("other", "x"), ("Other", "y")], Some(of_t))).unwrap();
    assert_eq!(fine.arguments.len(), 2);

    // What a token fixes is refused in any spelling, and a caller who repeats it sends nothing else.
    access.pinned = BTreeMap::from([("project".to_owned(), "a".to_owned())]);
    let failure = check(&narrow, &access, sent(&[("Project", "b")], Some(of_t))).unwrap_err();
    assert_eq!(failure.code, Code::Forbidden);
    let fine = check(&narrow, &access, sent(&[("Project", "a")], Some(of_t))).unwrap();
    assert_eq!(fine.arguments.get("project"), Some(&Value::Text("a".to_owned())));
    assert_eq!(fine.arguments.len(), 2);
    service.close().await.unwrap();
}

#[tokio::test]
async fn what_a_component_binds_takes_the_place_of_any_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let endpoint = saved(&service, NARROW).await;
    let access = Access::to_all("a test");
    let request = service
        .executor
        .check_request(endpoint, &[], &access, sent(&[("project", "a")], None), Format::Json, false)
        .unwrap();
    let (account, options) = (request.account, options(&request));
    let executor = Arc::clone(&service.executor);
    let permit = Arc::new(executor.admission.enter(account).await.unwrap());
    let stop = Stop::after(Duration::from_secs(60));
    let statements = executor.statements(Arc::new(request), 0, stop, Arc::clone(&permit));
    let bound = [("PROJECT", "b"), ("New", "x"), ("NEW", "y")];
    let bound = bound.map(|(name, text)| (name.to_owned(), Value::Text(text.to_owned()))).to_vec();
    let memory = executor.answers.of(account);
    let made = async move {
        let sql = "SELECT @project AS a, @Project AS b, @PROJECT AS c, @new AS d, @New AS e";
        let rows = statements.run(Statement::Text(sql.to_owned()), bound).await?;
        Ok(Body::Rows(rows).into())
    };
    let answer = executor.compute.run_in(permit, encode(made, options, memory)).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.concat()).unwrap();
    assert_eq!(answer, serde_json::json!({"result": [{"a": "b", "b": "b", "c": "b", "d": "y", "e": "y"}]}));
    service.close().await.unwrap();
}
