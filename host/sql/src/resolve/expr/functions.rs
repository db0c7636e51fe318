//! All functions that a statement can call, and calls of the scalar ones.

use tidegate_model::Position;

use super::{aggregate, window};
use crate::fail::Result;
use crate::library::{self, Argument, Call};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::typed::Typed;
use crate::typing::folded;

/// The names of all functions that a statement can call, in capitals and in no order: scalar functions, aggregates
/// and window functions. The document of the dialect is checked against them.
pub fn functions() -> Vec<&'static str> {
    library::names().chain(aggregate::names()).chain(window::names()).collect()
}

impl Resolver<'_> {
    /// A call of a scalar function over resolved arguments; `name` is in capitals.
    ///
    /// # Errors
    /// If there is no such function, with the nearest name; if it does not take the arguments.
    pub(super) fn build(
        &mut self,
        name: &str,
        arguments: Vec<Argument>,
        at: Option<Position>,
        cx: &Context<'_, '_>,
    ) -> Result<Typed> {
        self.build_named(name, arguments, false, at, cx)
    }

    /// The same, of which the last argument may be written with its name.
    ///
    /// # Errors
    /// As [`Resolver::build`].
    pub(super) fn build_named(
        &mut self,
        name: &str,
        arguments: Vec<Argument>,
        named_last: bool,
        at: Option<Position>,
        cx: &Context<'_, '_>,
    ) -> Result<Typed> {
        let call = Call { name, arguments, at, named_last, safe: cx.guarded, now: self.now };
        library::build(call, functions).map(|value| folded(value.uniform()))
    }
}
