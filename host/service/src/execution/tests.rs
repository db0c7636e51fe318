//! What callers learn of a component that cannot be prepared, and what work beside statements takes.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::time::Instant;

use tidegate_compiler::manifest_of_texts;
use uuid::Uuid;

use super::*;
use crate::answer::Format;
use crate::catalog::{EndpointTable, NewVersion};
use crate::options::Options;
use crate::registry::Endpoint;
use crate::service::Service;
use crate::tokens::Access;

#[tokio::test]
async fn why_a_component_cannot_be_made_ready_is_not_for_its_callers() {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let manifest = manifest_of_texts("name = \"junk\"", "SELECT event_message FROM `postgres.logs`").unwrap();
    let record = EndpointTable(service.store.catalog()).put(NewVersion {
        id: Uuid::new_v4(),
        name: "junk",
        manifest: &serde_json::to_string(&manifest).unwrap(),
        component: b"junk",
        component_digest: "00",
        author: "a test",
        sources: &BTreeMap::new(),
        alerts: &[],
    });
    let endpoint = Arc::new(Endpoint::of(record.unwrap(), service.options.limits.text).unwrap());
    assert_eq!(service.endpoints.prepared(&endpoint).await.unwrap_err().code, Code::Refused);
    let (sent, access) = (SentParameters::of_object(serde_json::Map::new()).unwrap(), Access::to_all("a test"));
    let request = Arc::new(service.executor.check_request(endpoint, &[], &access, sent, Format::Json, false).unwrap());
    let account = request.account;
    let failure =
        Arc::clone(&service.executor).execute(request, 0, account, Arc::<RunRecord>::default()).await.unwrap_err();
    assert_eq!(failure.code, Code::Internal);
    assert_eq!(failure.message, "the endpoint cannot be used now; the server's log has the reason");

    let busy = Failure::new(Code::Overloaded, "try again later");
    assert_eq!(not_ready("junk", busy.clone()), busy);
    service.close().await.unwrap();
}

const A: Account = Account::Token([1; 32]);
const B: Account = Account::Token([2; 32]);

/// More works of one token than there are threads, each of which holds its thread for long, as compiling many regular
/// expressions does.
#[tokio::test]
async fn work_beside_statements_leaves_half_of_the_threads_and_ends_in_its_time() {
    const LONG: Duration = Duration::from_secs(4);
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(folder.path());
    let threads = std::thread::available_parallelism().map_or(2, usize::from) * 4;
    let works = threads.max(8) + 4;
    options.admission.concurrency = 2 * works;
    let (service, _) = Service::open(options).await.unwrap();
    let executor = &service.executor;
    assert!(executor.compute.threads() < works);
    let hostile: Vec<_> = (0..works)
        .map(|_| {
            let (executor, limit) = (Arc::clone(executor), LONG / 10);
            let work = async {
                std::thread::sleep(LONG);
                Ok(())
            };
            tokio::spawn(async move { executor.run_with_permit(A, limit, work).await })
        })
        .collect();
    tokio::time::sleep(LONG / 20).await;
    let began = Instant::now();
    assert_eq!(executor.run_with_permit(B, LONG, async { Ok(1) }).await.unwrap(), 1);
    for work in hostile {
        assert_eq!(work.await.unwrap().unwrap_err().code, Code::Timeout);
    }
    assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    assert!(executor.admission.numbers().0 > 0, "work that goes on keeps its permit");
    service.close().await.unwrap();
}

#[tokio::test]
async fn the_newest_rows_take_a_permit_of_their_account() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::new(folder.path());
    (options.admission.concurrency, options.admission.wait) = (2, Duration::from_millis(20));
    let (service, _) = Service::open(options).await.unwrap();
    let recent = |account| Arc::clone(&service.executor).recent_rows("postgres.logs".to_owned(), 5, account, 0);
    let held = service.executor.admission.enter(A).await.unwrap();
    assert_eq!(recent(A).await.unwrap_err().code, Code::TooManyRequests);
    recent(B).await.unwrap();
    drop(held);
    recent(A).await.unwrap();
    service.close().await.unwrap();
}
