//! Workers over a network of this machine.

#[expect(dead_code, reason = "shared with the tests of workers in one process, which use more of it")]
#[path = "../../../cluster/tests/it/cluster/mod.rs"]
mod cluster;
mod connections;
mod hostile;
mod network;
#[path = "../../../cluster/tests/it/promises/mod.rs"]
mod promises;
mod stages;
mod support;
mod tasks;
