//! The engine that the tests ask. The crate `tidegate-cluster` has the same tests with another one, whose plans travel
//! before they run.

#[path = "no_shadow.rs"]
mod no_shadow;

pub(crate) use no_shadow::Shadow;
use tidegate_sql::{Engine, EngineOptions};

pub(crate) fn engine(options: &EngineOptions) -> Engine {
    Engine::new(options).unwrap()
}
