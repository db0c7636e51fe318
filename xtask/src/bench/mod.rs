//! `cargo xtask bench peers`: the same questions to Tidegate and to other stores, over the same records.

mod generator;
mod http;
