//! What keeps a running statement within its bounds: its memory, the stop sign, the barriers of grants and policies.

pub(crate) mod barrier;
pub(crate) mod context;
pub(crate) mod list_copies;
pub(crate) mod needless_barriers;
pub(crate) mod rounds;
pub(crate) mod stoppable_join;
pub(crate) mod stoppable_rules;
pub(crate) mod window_memory;
pub(crate) mod yielding;
