//! `[cluster]`: workers that run parts of statements.

use tidegate_model::{Access, Setting, bytes, count};
use tidegate_workers::WorkerAddress;

use crate::options::Options;

pub(super) const CLUSTER: &[Setting<Options>] = &[
    Setting {
        name: "workers",
        what: "where workers are; a name stands for all its addresses and is looked up every 10 seconds",
        access: Access::List {
            how: "hosts and ports with commas between them, such as \"10.0.0.1:4100, workers.internal:4100\", or nothing",
            get: |o: &Options| {
                let workers: Vec<_> = o.cluster.workers.iter().map(ToString::to_string).collect();
                workers.join(", ")
            },
            set: |o, text| {
                let workers = text.split(',').map(str::trim).filter(|worker| !worker.is_empty()).map(str::parse);
                let workers: Result<Vec<WorkerAddress>, ()> = workers.collect();
                workers.map(|workers| o.cluster.workers = workers).is_ok()
            },
        },
    },
    path!(
        "tls_certificate",
        "the certificate of this server for its workers, in PEM; needed beyond this machine; read again when it changes",
        cluster.tls_certificate
    ),
    path!("tls_key", "the private key of that certificate, in PEM, not encrypted", cluster.tls_key),
    path!("tls_ca", "certificates in PEM that sign those of workers", cluster.tls_ca),
    bytes!(
        "least_bytes",
        "segments of a source that a statement reads, as they are stored, from which on workers read them",
        0,
        1 << 50,
        Options,
        cluster.least_bytes
    ),
    count!(
        "least_exchanged_rows",
        "rows of segments that a statement reads, before any condition, from which on workers exchange rows for its joins, groups and windows",
        0,
        i64::MAX as u64,
        Options,
        cluster.least_exchanged_rows
    ),
];
