//! A store that hangs: one request finds out, the others fail at once, and blocks that are on disk are read as before.

use std::time::Duration;

use super::{
    object_server::{Fault, ObjectServer},
    objects::{BLOCK, object},
};
use crate::objects::{block_reader::BlockReader, client::RequestLimits, url::StoreUrl};

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_is_waited_for_once() {
    let (server, folder) = (ObjectServer::start(), tempfile::tempdir().unwrap());
    let (object, written) = object(&server, 8 * BLOCK);
    let limits = RequestLimits::within(Duration::from_millis(600));
    let url = StoreUrl::parse("s3://bucket/logs").unwrap();
    let reader = BlockReader::open(&url, server.settings(), limits, (folder.path(), 1 << 20, BLOCK)).unwrap();
    let read = async |block: u64| {
        let wanted = block * BLOCK..block * BLOCK + 10;
        let expected = &written[wanted.start as usize..wanted.end as usize];
        let read = reader.ranges(&object, std::slice::from_ref(&wanted), None).await;
        read.map(|read| assert_eq!(read[0], expected))
    };
    read(0).await.unwrap();
    // Far longer than the test may take.
    server.faults(|_| Some(Fault::Slow(Duration::from_secs(3600))));
    let error = read(2).await.unwrap_err();
    assert!(!error.is_damage() && error.to_string().contains("does not answer in time"), "{error}");
    let stats = reader.stats();
    assert_eq!((stats.failed_requests, stats.is_failing), (1, true));
    let asked = server.requests();
    // Those within the pause, and one that is sent after it.
    let refused = futures::future::join_all((3..8).map(&read)).await;
    assert!(refused.iter().all(|read| read.as_ref().is_err_and(|error| !error.is_damage())), "{refused:?}");
    let stats = reader.stats();
    assert!(stats.refused_requests >= 4 && server.requests() <= asked + 2, "{stats:?}");
    read(0).await.unwrap();

    server.faults(|_| None);
    while read(3).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!reader.stats().is_failing);
    for block in 0..8 {
        read(block).await.unwrap();
    }
}
