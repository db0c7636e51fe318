//! The black-box tests: the rules of the specification and the promises of the design, each tried
//! on the running binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test may panic"
)]

mod access_changes;
mod access_readers;
mod access_report;
mod alerts;
mod api_counts;
mod arrival_order;
mod cache;
mod cancel;
mod cluster;
mod cluster_broken_answers;
mod cluster_corpus;
mod cluster_costs;
mod cluster_document;
mod cluster_kills;
mod cluster_store_faults;
mod cluster_throttled;
mod cluster_tls;
mod compaction;
mod compile;
mod components;
mod connections;
mod console;
mod costs;
mod crash;
mod damage;
mod demo;
mod doors;
mod doors_bulk;
mod doors_fluent_bit;
mod doors_journal;
mod doors_loki;
mod doors_senders;
mod errors;
mod errors_ok;
mod exchange;
mod explain;
mod follow;
mod follow_again;
mod formats;
#[expect(dead_code, reason = "shared with the property tests of the SQL crate, which use more of it")]
#[path = "../../../host/sql/tests/property/grammar.rs"]
mod grammar;
mod hints;
mod hostile;
mod import;
mod ingest;
mod ingest_tenants;
mod intake;
mod issuers;
mod kit;
mod limits;
mod log_viewer;
mod logs_all;
mod lql;
mod management;
mod managers;
mod many;
mod object_copies;
#[expect(dead_code, reason = "shared with the tests of the store, which use more of it")]
#[path = "../../../host/store/src/tests/object_server.rs"]
mod object_server;
mod openapi;
mod operation;
mod otlp;
mod otlp_grpc;
mod overflow;
mod pack;
mod preconditions;
mod promises;
mod recover;
mod restart;
mod retention;
mod sandbox;
mod serve_tls;
mod shapes;
mod siege;
mod slow_readers;
mod syslog;
mod tables;
#[path = "../../../host/sql/tests/property/tape.rs"]
mod tape;
mod tenancy;
mod tenancy_kinds;
mod tls;
mod tokens;
