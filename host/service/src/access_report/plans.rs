//! The statements of an endpoint, planned for a reader: which sources each of them reads, which rows of those the store
//! gives, and which columns.
//!
//! The plans are made as for a query, over the same tables, so the report cannot say other than what runs. Only a refusal
//! does not end them: the others are told too. None of them runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Arguments, Audience, Code, Failure, Manifest, Parameter, SourceTenancy};
use tidegate_sql::{Binding, Engine, Reads, SavedQuery};
use tidegate_store::Store;
use uuid::Uuid;

use crate::execution::unbound_pin;
use crate::gate::examples::example_arguments;
use crate::registry::{Endpoint, Registry, with_parameters_of};
use crate::supposed::{RowsOf, Supposed};
use crate::tables::{Answers, Own, StoredTables};
use crate::tokens::Access;

/// A part of an endpoint that reads tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A granted table, read as a whole.
    Grant,
    /// The body of the saved query.
    Body,
    /// A fixed statement of a component.
    Statement,
}

/// What a part of an endpoint reads.
#[derive(Debug)]
pub struct PlannedPiece {
    /// What it is.
    pub piece: Piece,
    /// Its name; that of a body is `default`.
    pub name: String,
    /// The parameters that it uses, itself or through the granted tables that it reads.
    pub parameters: Vec<String>,
    /// The sources, by name.
    pub sources: Vec<PlannedSource>,
    /// Why it cannot be planned.
    pub failure: Option<Failure>,
}

/// A source that is read.
#[derive(Debug)]
pub struct PlannedSource {
    /// Its id.
    pub id: Uuid,
    /// The name that it has now.
    pub name: String,
    /// Which rows the store gives.
    pub rows: RowsOf,
    /// Whether the source says that all of its rows are for all tenants.
    pub shared: bool,
    /// The columns that the statement reads, and fields within them; none where only rows are counted.
    pub columns: BTreeSet<String>,
}

/// An endpoint as it is planned for a reader.
#[derive(Debug, Default)]
pub struct PlannedEndpoint {
    /// Why the reader may not ask the endpoint at all.
    pub refused: Option<Failure>,
    /// Its parts: granted tables, the body, statements, in this order.
    pub pieces: Vec<PlannedPiece>,
}

impl PlannedPiece {
    /// The first source that refuses the reader: with one, all of the part is refused.
    pub fn refusal(&self) -> Option<&PlannedSource> {
        self.sources.iter().find(|source| source.rows.is_err())
    }
}

/// A version of an endpoint, saved or about to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version<'v> {
    /// `None` for an endpoint that is new.
    pub(crate) id: Option<Uuid>,
    pub(crate) manifest: &'v Manifest,
    pub(crate) saved: &'v Arc<SavedQuery>,
    pub(crate) tables: &'v BTreeMap<String, Uuid>,
}

impl<'v> Version<'v> {
    pub(crate) fn of(endpoint: &'v Endpoint) -> Result<Self, Failure> {
        let Endpoint { id, manifest, tables, .. } = endpoint;
        Ok(Self { id: Some(*id), manifest, saved: endpoint.saved()?, tables })
    }

    fn own(self) -> Own<'v> {
        Own { id: self.id, name: self.manifest.name.as_str(), saved: self.saved, tables: Some(self.tables) }
    }
}

/// What is planned as if it were saved: nothing, unless a change is looked at before it is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change<'v> {
    /// A version of an endpoint.
    pub(crate) version: Option<Version<'v>>,
    /// How sources would be.
    pub(crate) supposed: Option<&'v Supposed>,
}

/// What plans endpoints for a report.
#[derive(Debug, Clone)]
pub(crate) struct ReportPlanner {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
}

impl ReportPlanner {
    /// Plans all parts of a version for a reader, as it would be after a change. Reads the catalog, and plans may
    /// be deep: to be called on the compute threads.
    ///
    /// # Errors
    /// An endpoint that the version reads cannot be read; there is no time left ([`says_nothing`]).
    pub(crate) fn plan(
        &self,
        version: Version<'_>,
        access: &Access,
        now: i64,
        change: Change<'_>,
    ) -> Result<PlannedEndpoint, Failure> {
        let manifest = self.with_parameters(version, change.version)?;
        let nothing = Supposed::default();
        let supposed = change.supposed.unwrap_or(&nothing);
        let refused = unbound_pin(&manifest, access, |name| supposed.is_key(&self.store, name));
        let (audience, arguments) = (access.audience(), arguments_of(&manifest, access));
        let pieces = self.pieces(version, &audience, &arguments, now, (change.version, supposed))?;
        Ok(PlannedEndpoint { refused, pieces })
    }

    /// The manifest with the parameters of the endpoints that the version reads.
    fn with_parameters(&self, version: Version<'_>, changed: Option<Version<'_>>) -> Result<Manifest, Failure> {
        let mut entries = self.registry.reads(version.tables);
        let changed = changed.filter(|changed| entries.iter().any(|entry| Some(entry.id) == changed.id));
        if let Some(changed) = changed {
            entries.retain(|entry| Some(entry.id) != changed.id);
            entries.extend(self.registry.reads(changed.tables));
        }
        let reads =
            entries.iter().map(|entry| self.registry.load(&self.store, entry)).collect::<Result<Vec<_>, _>>()?;
        let mut manifest = with_parameters_of(version.manifest, &reads).into_owned();
        for parameter in changed.into_iter().flat_map(|changed| &changed.manifest.parameters) {
            if !manifest.parameters.iter().any(|own| own.name.eq_ignore_ascii_case(&parameter.name)) {
                manifest.parameters.push(parameter.clone());
            }
        }
        Ok(manifest)
    }

    fn pieces(
        &self,
        version: Version<'_>,
        audience: &Audience,
        arguments: &Arguments,
        now: i64,
        (changed, supposed): (Option<Version<'_>>, &Supposed),
    ) -> Result<Vec<PlannedPiece>, Failure> {
        let Version { id: _, manifest, saved, tables } = version;
        let answers = Answers::default();
        let own = changed.map(Version::own);
        let sources = StoredTables::for_report(&self.store, &self.registry, tables, audience, &answers, own);
        let sources = sources.supposing(supposed);
        let binding = Binding::new(&sources, arguments, now);
        let planned = |piece: Piece, name: &str, parameters: Vec<String>, reads: Result<Reads, Failure>| {
            let found = self.found(answers.take(), &reads, supposed);
            planned_piece(piece, name, parameters, reads, found)
        };
        let mut pieces = Vec::new();
        for grant in saved.tables() {
            let reads = self.engine.reads_of_grant(saved, &grant, binding);
            pieces.push(planned(Piece::Grant, &grant, saved.parameters_of(&grant), reads));
        }
        let reads = self.engine.reads_of_sources(saved, None, binding);
        pieces.push(planned(Piece::Body, DEFAULT_STATEMENT, saved.parameters(), reads));
        for (name, sql) in &manifest.statements {
            let reads = self.engine.reads_of_sources(saved, Some(sql), binding);
            let parameters = SavedQuery::parse(sql).map(|statement| statement.parameters()).unwrap_or_default();
            pieces.push(planned(Piece::Statement, name, parameters, reads));
        }
        match pieces.iter().filter_map(|piece| piece.failure.as_ref()).find(|failure| says_nothing(failure)) {
            Some(failure) => Err(failure.clone()),
            None => Ok(pieces),
        }
    }

    /// The sources of a statement, by name, with what the store answers for each of them.
    fn found(
        &self,
        answers: BTreeMap<Uuid, RowsOf>,
        reads: &Result<Reads, Failure>,
        supposed: &Supposed,
    ) -> Vec<PlannedSource> {
        let found = answers.into_iter().map(|(id, rows)| {
            let text = id.to_string();
            let columns = reads.as_ref().ok().and_then(|reads| reads.get(&text)).cloned().unwrap_or_default();
            let shared = supposed.tenant_of(&self.store, id) == Some(SourceTenancy::Shared);
            let name = self.store.source(&text).map(|source| source.name);
            let name = name.or_else(|| supposed.name_of(id).map(str::to_owned)).unwrap_or(text);
            PlannedSource { id, name, rows, shared, columns }
        });
        let mut found: Vec<PlannedSource> = found.collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }
}

fn planned_piece(
    piece: Piece,
    name: &str,
    parameters: Vec<String>,
    reads: Result<Reads, Failure>,
    sources: Vec<PlannedSource>,
) -> PlannedPiece {
    PlannedPiece { piece, name: name.to_owned(), parameters, sources, failure: reads.err() }
}

/// Whether a failure says nothing of what was planned: there was no time for it.
pub(super) fn says_nothing(failure: &Failure) -> bool {
    matches!(failure.code, Code::Timeout | Code::Overloaded)
}

/// Values with which the statements can be planned: what the reader pins, else examples.
fn arguments_of(manifest: &Manifest, access: &Access) -> Arguments {
    let mut arguments = example_arguments(manifest);
    let pinned = |parameter: &&Parameter| access.pinned.contains_key(&parameter.name);
    for parameter in manifest.parameters.iter().filter(pinned) {
        let value = access.pinned.get(&parameter.name).map(String::as_str);
        // A value that is not valid is refused when the endpoint is asked; the tables are the same.
        if let Ok(value) = parameter.check(value) {
            arguments.insert(parameter.name.clone(), value);
        }
    }
    arguments
}
