//! Who shares an answer with whom, where the times are known: two requests at once, and one in between.
#![expect(clippy::unwrap_used, reason = "a failed test may panic")]

use tidegate_compiler::manifest_of_texts;

use super::*;
use crate::admit::Saving;
use crate::answer::Format;
use crate::app::App;
use crate::execute::execute;
use crate::options::Options;
use crate::parameters::Sent;
use crate::query::check;
use crate::tokens::Access;

/// Fails after others had the time to join.
async fn failing(code: Code) -> Result<Encoded, Failure> {
    tokio::task::yield_now().await;
    Err(Failure::new(code, "not for others"))
}

/// An answer that a component lets be kept for so many seconds.
async fn told(make: impl Future<Output = Result<Encoded, Failure>>, seconds: u64) -> Result<Encoded, Failure> {
    tokio::task::yield_now().await;
    let mut answer = make.await?;
    answer.told.max_age = Some(Duration::from_secs(seconds));
    Ok(answer)
}

/// A service, and a request to an endpoint of it that keeps answers for a minute.
async fn asked() -> (tempfile::TempDir, Arc<App>, Arc<Asked>) {
    let folder = tempfile::tempdir().unwrap();
    let (app, _) = App::open(Options::new(folder.path())).await.unwrap();
    let toml = "name = \"waits\"\n[settings]\ncache_duration_seconds = 60";
    let manifest = manifest_of_texts(toml, "SELECT event_message FROM `postgres.logs`").unwrap();
    let endpoint = app.register_query(&manifest, Saving::default()).await.unwrap();
    let (sent, access) = (Sent::of_object(serde_json::Map::new()).unwrap(), Access::to_all("a test"));
    let asked = check(&app, endpoint, &[], &access, sent, Format::Json, false).unwrap();
    (folder, app, Arc::new(asked))
}

#[tokio::test]
async fn an_answer_that_is_not_to_be_kept_is_of_one_request_alone() {
    let (_folder, app, asked) = asked().await;
    let own = || execute(Arc::clone(&app), Arc::clone(&asked), 0, asked.tenant);
    let miss = |found: &Found| matches!(found, Found::Kept(_, How::Miss { collapsed: false }));

    // Who waits with another makes its own, which may be kept.
    let (first, second) =
        tokio::join!(app.cache.answer(&asked, told(own(), 0)), app.cache.answer(&asked, told(own(), 5)));
    assert!(matches!(first.unwrap(), Found::Unkept(_)));
    let second = second.unwrap();
    assert!(miss(&second), "{second:?}");
    let Found::Kept(entry, _) = second else { return };
    assert_eq!(entry.lifetime, Duration::from_secs(5));
    assert!(!app.cache.entries.alone.contains_key(&asked.key()));
    let again = app.cache.answer(&asked, own()).await.unwrap();
    assert!(matches!(again, Found::Kept(_, How::Hit { stale: false })));

    // What an execution without a request makes, as for warming, is nobody's; it ends what was kept before.
    let (execution, _) = app.cache.fly(asked.key(), Arc::clone(&asked), Instant::now(), told(own(), 0));
    let (warmed, joined) = tokio::join!(execution, async {
        app.cache.entries.kept.invalidate(&asked.key());
        app.cache.answer(&asked, told(own(), 0)).await
    });
    assert!(matches!((warmed.unwrap(), joined.unwrap()), (Made::Unkept(_), Found::Unkept(_))));
    assert_eq!(app.cache.size().0, 0);

    // It is known now, so nobody waits with another in vain.
    let (first, second) =
        tokio::join!(app.cache.answer(&asked, told(own(), 5)), app.cache.answer(&asked, told(own(), 7)));
    assert!(miss(&first.unwrap()) && miss(&second.unwrap()));
    app.close().await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_made_anew_and_not_to_be_kept_ends_the_old_one() {
    let (_folder, app, asked) = asked().await;
    let own = || execute(Arc::clone(&app), Arc::clone(&asked), 0, asked.tenant);
    assert!(matches!(app.cache.answer(&asked, own()).await.unwrap(), Found::Kept(..)));
    assert_eq!(app.cache.size().0, 1);
    app.cache.fly(asked.key(), Arc::clone(&asked), Instant::now(), told(own(), 0)).0.await.unwrap();
    assert_eq!(app.cache.size().0, 0);
    app.close().await.unwrap();
}

#[tokio::test]
async fn who_waits_with_another_is_not_refused_in_its_place() {
    let (_folder, app, asked) = asked().await;
    let own = || execute(Arc::clone(&app), Arc::clone(&asked), 0, asked.tenant);

    // What is wrong with the query is so for all who wait.
    let (first, second) =
        tokio::join!(app.cache.answer(&asked, failing(Code::Timeout)), app.cache.answer(&asked, own()));
    assert_eq!([first.unwrap_err().code, second.unwrap_err().code], [Code::Timeout; 2]);

    for code in [Code::TooManyRequests, Code::Overloaded] {
        let (first, second) = tokio::join!(app.cache.answer(&asked, failing(code)), app.cache.answer(&asked, own()));
        assert_eq!(first.unwrap_err().code, code);
        assert!(matches!(second.unwrap(), Found::Kept(_, How::Miss { collapsed: false })));
        app.cache.forget(asked.endpoint.id);
    }
    app.close().await.unwrap();
}
