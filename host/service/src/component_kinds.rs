//! Whether the component of an endpoint is a saved query or code of an author.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_compiler::is_generated;
use tidegate_model::Failure;
use tidegate_store::{Store, StoreError};

use crate::blocking::blocking;
use crate::catalog::EndpointTable;

/// The components whose kind is remembered.
const REMEMBERED: u64 = 100_000;

/// What an endpoint is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ComponentKind {
    /// A saved query; its component is generated.
    Sql,
    /// Code that an author built.
    Wasm,
}

/// The kinds of components by digest; each component is inspected once. Clones share it.
#[derive(Debug, Clone)]
pub struct ComponentKinds {
    store: Arc<Store>,
    kinds: moka::sync::Cache<String, ComponentKind>,
}

impl ComponentKinds {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self { store: Arc::clone(store), kinds: moka::sync::Cache::new(REMEMBERED) }
    }

    /// The kinds of the components with these digests (in hex), in their order.
    ///
    /// # Errors
    /// The store's.
    pub async fn of(&self, digests: Vec<String>) -> Result<Vec<ComponentKind>, Failure> {
        let known: Option<Vec<ComponentKind>> = digests.iter().map(|digest| self.kinds.get(digest)).collect();
        if let Some(known) = known {
            return Ok(known);
        }
        let own = self.clone();
        blocking(&self.store, move |_| digests.iter().map(|digest| own.read(digest)).collect()).await
    }

    /// The kind of one component. Blocks where it is not remembered.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn read(&self, digest: &str) -> Result<ComponentKind, StoreError> {
        if let Some(kind) = self.kinds.get(digest) {
            return Ok(kind);
        }
        let component = EndpointTable(self.store.catalog()).component(digest)?;
        let generated = component.is_none_or(|component| is_generated(&component));
        let kind = if generated { ComponentKind::Sql } else { ComponentKind::Wasm };
        self.kinds.insert(digest.to_owned(), kind);
        Ok(kind)
    }
}
