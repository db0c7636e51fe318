//! Workers over a network of this machine.

mod hostile;
mod network;
mod support;
mod tasks;
