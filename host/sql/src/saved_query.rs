//! A saved query: its parts, and what can be told of it from its text alone.
//!
//! The top-level CTEs of a saved query are the tables that its endpoint grants to callers. Which tables and parameters
//! each part uses is found when the text is read.

use std::collections::BTreeSet;
use std::sync::Arc;

use sqlparser::ast::{Cte, Query};
use tidegate_model::TextLimits;

use crate::fail::Result;
use crate::piece_names::{PieceNames, by_dependency};
use crate::text;

/// A saved query, read once: its top-level CTEs are the granted tables.
#[derive(Debug, Clone)]
pub struct SavedQuery {
    /// The whole query.
    pub(crate) query: Arc<Query>,
    /// Its top-level CTEs, shared by all statements that are resolved over them; each after those that it reads.
    pub(crate) ctes: Arc<[Arc<Cte>]>,
    /// Whether they are those of a WITH RECURSIVE, so that their names mean them everywhere in it.
    pub(crate) recursive: bool,
    /// The query without them.
    pub(crate) body: Arc<Query>,
    /// The names in each of `ctes`, and last those in `body`.
    pieces: Arc<[PieceNames]>,
}

impl SavedQuery {
    /// Reads a saved query.
    ///
    /// # Errors
    /// Whatever is wrong with the text; see [`crate::Engine::plan`] for what its names may be.
    pub fn parse(sql: &str) -> Result<Self> {
        Self::parse_within(sql, &TextLimits::default())
    }

    /// Reads a saved query under other limits than the default ones.
    ///
    /// # Errors
    /// As [`SavedQuery::parse`].
    pub fn parse_within(sql: &str, limits: &TextLimits) -> Result<Self> {
        Ok(Self::of_query(Arc::from(text::parse(sql, limits)?)))
    }

    /// A query that was read already.
    pub fn of_query(query: Arc<Query>) -> Self {
        let mut body = query.as_ref().clone();
        let with = body.with.take();
        let recursive = with.as_ref().is_some_and(|with| with.recursive);
        let ctes: Vec<Arc<Cte>> = with.into_iter().flat_map(|with| with.cte_tables).map(Arc::new).collect();
        let ctes: Arc<[Arc<Cte>]> = if recursive { by_dependency(ctes) } else { ctes }.into();
        let of_ctes = ctes.iter().map(|cte| PieceNames::within(cte.query.as_ref()));
        let pieces = of_ctes.chain([PieceNames::within(&body)]).collect();
        Self { query, ctes, recursive, body: Arc::new(body), pieces }
    }

    /// The names of the granted tables, in the order of the query.
    pub fn tables(&self) -> Vec<String> {
        let ctes = self.query.with.iter().flat_map(|with| &with.cte_tables);
        ctes.map(|cte| cte.alias.name.value.clone()).collect()
    }

    /// The parameters (`@name`) that the query uses, anywhere.
    pub fn parameters(&self) -> Vec<String> {
        let all: BTreeSet<&String> = self.pieces.iter().flat_map(|piece| &piece.parameters).collect();
        all.into_iter().cloned().collect()
    }

    /// The parameters that a granted table uses, itself or through the CTEs that it reads.
    pub fn parameters_of(&self, table: &str) -> Vec<String> {
        let (mut parameters, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![table.to_lowercase()];
        while let Some(name) = open.pop() {
            if let Some(named) = self.names_of(&name)
                && seen.insert(name)
            {
                parameters.extend(named.parameters.iter().cloned());
                open.extend(named.tables.iter().cloned());
            }
        }
        parameters.into_iter().collect()
    }

    /// The names in FROM that are none of the query's CTEs: tables that it reads, and paths into their columns. Each once,
    /// as it is written.
    pub fn relations(&self) -> BTreeSet<&str> {
        let pieces = self.pieces.iter().enumerate();
        let all = pieces.flat_map(|(i, named)| named.written.iter().map(move |written| (i, written.as_str())));
        all.filter(|(i, written)| !self.is_cte_before(*i, &written.to_lowercase()))
            .map(|(_, written)| written)
            .collect()
    }

    /// Which of these tables the body itself names. No CTE narrows the rows that it reads of them.
    pub fn names_in_body<'t>(&self, tables: impl IntoIterator<Item = &'t str>) -> Vec<&'t str> {
        let Some(body) = self.pieces.last() else { return Vec::new() };
        let named = |table: &&str| {
            let table = table.to_lowercase();
            body.tables.contains(&table) && self.names_of(&table).is_none()
        };
        tables.into_iter().filter(named).collect()
    }

    /// Whether a name, in lower case, is that of a CTE that the piece sees: those before it, and with RECURSIVE all of them,
    /// which hide what is outside.
    fn is_cte_before(&self, piece: usize, name: &str) -> bool {
        let before = self.ctes.get(..piece).filter(|_| !self.recursive).unwrap_or(&self.ctes);
        before.iter().any(|cte| cte.alias.name.value.to_lowercase() == name)
    }

    /// The names in a CTE, which is found by its own name in lower case.
    fn names_of(&self, cte: &str) -> Option<&PieceNames> {
        let mut all = self.ctes.iter().zip(self.pieces.iter());
        all.find(|(known, _)| known.alias.name.value.to_lowercase() == cte).map(|(_, named)| named)
    }
}
