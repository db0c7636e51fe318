//! Kernels of text. What only searches is left to the engine's functions, which the optimizer knows; what makes text is
//! a kernel, because the engine does not bound what its own functions make.

pub(crate) mod codes;
pub mod demands;
pub(crate) mod format;
pub(crate) mod like;
pub(crate) mod number_format;
pub(crate) mod pieces;
pub(crate) mod regexps;
pub(crate) mod search;
