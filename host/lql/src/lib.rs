//! lql
