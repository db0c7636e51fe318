//! The WIT contract, embedded in the program: the generator encodes against it, and the gate checks against it.
//!
//! It is parsed once for each process. Its text is a part of this crate, so that a failure to parse it is a bug that
//! every test of this crate finds.

use std::sync::OnceLock;

use wit_parser::{Resolve, WorldId};

/// The text of the contract, package `tidegate:endpoint`.
pub const WIT: &str = include_str!("../../../wit/endpoint.wit");

/// The name of the interface that every endpoint exports.
pub(crate) const HANDLER: &str = "tidegate:endpoint/handler@0.1.0";

/// The worlds for which an endpoint may be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum World {
    /// The statements are fixed when the endpoint is saved.
    Endpoint,
    /// SQL text at run time as well, under the same grants.
    EndpointAdhoc,
}

impl World {
    /// The world's name in the contract.
    pub fn name(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::EndpointAdhoc => "endpoint-adhoc",
        }
    }
}

/// The parsed contract.
pub(crate) struct Contract {
    pub(crate) resolve: Resolve,
    endpoint: WorldId,
    adhoc: WorldId,
}

impl Contract {
    pub(crate) fn world(&self, world: World) -> WorldId {
        match world {
            World::Endpoint => self.endpoint,
            World::EndpointAdhoc => self.adhoc,
        }
    }

    /// The names of the interfaces that a world imports, types and resources included.
    pub(crate) fn imports(&self, world: World) -> Vec<String> {
        let world = self.resolve.worlds.get(self.world(world));
        let keys = world.into_iter().flat_map(|world| world.imports.keys());
        keys.map(|key| self.resolve.name_world_key(key)).collect()
    }
}

/// The contract, parsed at the first call.
pub(crate) fn contract() -> Result<&'static Contract, String> {
    static CONTRACT: OnceLock<Result<Contract, String>> = OnceLock::new();
    CONTRACT.get_or_init(parse).as_ref().map_err(Clone::clone)
}

fn parse() -> Result<Contract, String> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("endpoint.wit", WIT).map_err(|error| format!("{error:#}"))?;
    let world = |name| resolve.select_world(&[package], Some(name)).map_err(|error| format!("{error:#}"));
    let (endpoint, adhoc) = (world(World::Endpoint.name())?, world(World::EndpointAdhoc.name())?);
    Ok(Contract { resolve, endpoint, adhoc })
}
