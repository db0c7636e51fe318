//! Which requests share an answer, with controlled timing: two concurrent requests, and a third between them.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use tidegate_compiler::manifest_of_texts;

use super::*;
use crate::account::Account;
use crate::answer::{Format, TransferMemory};
use crate::execution::{RunRecord, SentParameters};
use crate::options::Options;
use crate::save_request::SaveRequest;
use crate::service::Service;
use crate::tokens::Access;

/// Fails, after other requests have had time to join.
async fn failing(code: Code) -> Result<Encoded, Failure> {
    tokio::task::yield_now().await;
    Err(Failure::new(code, "not for others"))
}

/// An answer whose component allows caching for `seconds`.
async fn with_max_age(make: impl Future<Output = Result<Encoded, Failure>>, seconds: u64) -> Result<Encoded, Failure> {
    tokio::task::yield_now().await;
    let mut answer = make.await?;
    answer.metadata.max_age = Some(Duration::from_secs(seconds));
    Ok(answer)
}

/// A service, and a request to one of its endpoints, which caches answers for a minute.
async fn request() -> (tempfile::TempDir, Arc<Service>, Arc<QueryRequest>) {
    let folder = tempfile::tempdir().unwrap();
    let (service, _) = Service::open(Options::new(folder.path())).await.unwrap();
    let toml = "name = \"waits\"\n[settings]\ncache_duration_seconds = 60";
    let manifest = manifest_of_texts(toml, "SELECT event_message FROM `postgres.logs`").unwrap();
    let endpoint = service.registrar.register_query(&manifest, SaveRequest::default()).await.unwrap();
    let (sent, access) = (SentParameters::of_object(serde_json::Map::new()).unwrap(), Access::to_all("a test"));
    let request = service.executor.check_request(endpoint, &[], &access, sent, Format::Json, false).unwrap();
    (folder, service, Arc::new(request))
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_kept_is_of_one_request_alone() {
    let (_folder, service, request) = request().await;
    let own =
        || Arc::clone(&service.executor).execute(Arc::clone(&request), 0, request.account, Arc::<RunRecord>::default());
    let miss = |found: &Lookup| matches!(found, Lookup::Cached(_, CacheStatus::Miss { collapsed: false }));

    // The request that waited executes its own answer, which may be cached.
    let (first, second) = tokio::join!(
        service.cache.answer(&request, with_max_age(own(), 0)),
        service.cache.answer(&request, with_max_age(own(), 5))
    );
    assert!(matches!(first.unwrap(), Lookup::Uncached(_)));
    let second = second.unwrap();
    assert!(miss(&second), "{second:?}");
    let Lookup::Cached(entry, _) = second else { return };
    assert_eq!(entry.lifetime, Duration::from_secs(5));
    assert!(!service.cache.entries.uncacheable.contains_key(&request.key()));
    let again = service.cache.answer(&request, own()).await.unwrap();
    assert!(matches!(again, Lookup::Cached(_, CacheStatus::Hit { stale: false })));

    // An execution without a request, as in warming, belongs to no request. Its uncacheable answer removes the older
    // cached answer.
    let (execution, _) =
        service.cache.join_or_start(request.key(), Arc::clone(&request), Instant::now(), with_max_age(own(), 0));
    let (warmed, joined) = tokio::join!(execution, async {
        service.cache.entries.cached.invalidate(&request.key());
        service.cache.answer(&request, with_max_age(own(), 0)).await
    });
    assert!(matches!((warmed.unwrap(), joined.unwrap()), (Executed::Uncached(_), Lookup::Uncached(_))));
    assert_eq!(service.cache.size().0, 0);

    // The key is now known as uncacheable, so the requests do not wait for each other.
    let (first, second) = tokio::join!(
        service.cache.answer(&request, with_max_age(own(), 5)),
        service.cache.answer(&request, with_max_age(own(), 7))
    );
    assert!(miss(&first.unwrap()) && miss(&second.unwrap()));
    service.close().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_made_anew_and_not_to_be_kept_ends_the_old_one() {
    let (_folder, service, request) = request().await;
    let own =
        || Arc::clone(&service.executor).execute(Arc::clone(&request), 0, request.account, Arc::<RunRecord>::default());
    assert!(matches!(service.cache.answer(&request, own()).await.unwrap(), Lookup::Cached(..)));
    assert_eq!(service.cache.size().0, 1);
    service
        .cache
        .join_or_start(request.key(), Arc::clone(&request), Instant::now(), with_max_age(own(), 0))
        .0
        .await
        .unwrap();
    assert_eq!(service.cache.size().0, 0);
    service.close().await.unwrap();
}

#[tokio::test]
async fn who_waits_with_another_is_not_refused_in_its_place() {
    let (_folder, service, request) = request().await;
    let own =
        || Arc::clone(&service.executor).execute(Arc::clone(&request), 0, request.account, Arc::<RunRecord>::default());

    // A failure of the query itself is the same for all requests that wait.
    let (first, second) =
        tokio::join!(service.cache.answer(&request, failing(Code::Timeout)), service.cache.answer(&request, own()));
    assert_eq!([first.unwrap_err().code, second.unwrap_err().code], [Code::Timeout; 2]);

    for code in [Code::TooManyRequests, Code::Overloaded] {
        let (first, second) =
            tokio::join!(service.cache.answer(&request, failing(code)), service.cache.answer(&request, own()));
        assert_eq!(first.unwrap_err().code, code);
        assert!(matches!(second.unwrap(), Lookup::Cached(_, CacheStatus::Miss { collapsed: false })));
        service.cache.forget(request.endpoint.id);
    }
    service.close().await.unwrap();
}

#[tokio::test]
async fn who_read_an_answer_to_its_end_is_not_refused_because_others_still_do() {
    const A: Account = Account::Token([1; 32]);
    const B: Account = Account::Token([2; 32]);
    let (_folder, service, request) = request().await;
    let own = Arc::clone(&service.executor).execute(Arc::clone(&request), 0, request.account, Arc::default());
    let Lookup::Cached(entry, _) = service.cache.answer(&request, own).await.unwrap() else { return };
    let size = entry.answer.len();
    let memory = TransferMemory::new(2 * size, Duration::from_millis(20));
    let first = entry.outgoing(&memory.of(A)).await.unwrap();
    let other = entry.outgoing(&memory.of(B)).await.unwrap();
    assert_eq!(memory.used(), size, "it is in memory once");
    drop(first);
    // The first account holds nothing, and has its half.
    let held = memory.of(A).take(size).await.unwrap();
    assert_eq!(memory.of(B).take(size).await.unwrap_err().code, Code::Overloaded);
    drop(held);
    assert_eq!(memory.of(B).take(size).await.unwrap_err().code, Code::TooManyRequests);
    drop(other);
    assert_eq!(memory.used(), 0);
    service.close().await.unwrap();
}
