//! Where the statements of one request run: the endpoint's grants, the request's values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::array::ArrayRef;
use futures::{FutureExt, StreamExt};
use sqlparser::ast::Query;
use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Code, Failure, Kind, Value};
use tidegate_runtime::{Column, Rows, Statement, Statements};
use tidegate_sql::{Binding, ColumnEncoder, Plan, ResultStream, Stop, Style, Type};

use crate::admission::Permit;
use crate::app::App;
use crate::bound::Pins;
use crate::compute::AbortOnDrop;
use crate::execute::Asked;
use crate::lql;
use crate::tables::StoredTables;
use crate::turns::InTurn;

/// In which language a request's ad-hoc text is, and what it may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Sql,
    Lql,
}

/// The statements of one request.
#[derive(Debug, Clone)]
pub(crate) struct RequestStatements {
    pub(crate) app: Arc<App>,
    pub(crate) asked: Arc<Asked>,
    /// The language of ad-hoc text.
    pub(crate) language: Language,
    /// Microseconds.
    pub(crate) now: i64,
    /// Ends planning that nobody waits for.
    pub(crate) stop: Stop,
    /// The most rows that a statement hands out; one more tells that there were more.
    pub(crate) rows: usize,
    /// The place of the request, in whose turns its statements compute.
    pub(crate) place: Arc<Permit>,
    /// What may not be meant as it is written, for the caller.
    pub(crate) warnings: Warnings,
}

/// What the statements of a request warn of, each once.
pub(crate) type Warnings = Arc<Mutex<BTreeSet<String>>>;

/// The key of the remark by which an answer tells its warnings.
const WARNING: &str = "warning";

/// Puts the warnings of its statements among the remarks of an answer, behind what the component says there itself.
pub(crate) fn warn(notes: &mut BTreeMap<String, String>, warnings: &Warnings) {
    let warnings = std::mem::take(&mut *warnings.lock().unwrap_or_else(PoisonError::into_inner));
    if !warnings.is_empty() {
        let own = notes.remove(WARNING);
        let all: Vec<String> = own.into_iter().chain(warnings).collect();
        notes.insert(WARNING.to_owned(), all.join("; "));
    }
}

/// The types of a statement's columns, kept with its rows for the encoder.
pub(crate) type ColumnTypes = Vec<Type>;

#[async_trait]
impl Statements for RequestStatements {
    async fn run(&self, statement: Statement, arguments: Vec<(String, Value)>) -> Result<Rows, Failure> {
        // Planning recurses deeply and scans compute: not on the fiber that the guest waits on.
        let this = self.clone();
        let work = async move {
            let stop = this.stop.clone();
            stop.cover(this.start(statement, arguments)).await
        };
        let mut task = AbortOnDrop(tokio::spawn(InTurn::new(Arc::clone(&self.place), work.boxed())));
        (&mut task.0).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a statement's task ended early");
            Err(Failure::new(Code::Internal, "the statement ended unexpectedly; the server's log has the details"))
        })
    }
}

/// The rows of a statement, with what encoding them needs.
pub(crate) fn rows_of(stream: ResultStream) -> Rows {
    let columns = stream.columns();
    let types: Arc<ColumnTypes> = Arc::new(columns.iter().map(|(_, ty)| ty.clone()).collect());
    let described = columns.iter().map(|(name, ty)| (name.clone(), kind_of(ty), true));
    let cells = Arc::clone(&types);
    Rows {
        columns: Column::of_statement(described),
        batches: stream.boxed(),
        context: types,
        json: Arc::new(move |column, array, row| cell(cells.get(column), array, row)),
    }
}

impl RequestStatements {
    async fn start(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Rows, Failure> {
        let plan = self.plan(statement, extra)?;
        let never_seen = plan.never_seen().iter().map(ToString::to_string);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(never_seen);
        let stream = self.app.engine.run_within(plan, Some(self.rows), self.asked.limits.statement_memory).await?;
        let Rows { columns, batches, context, json } = rows_of(stream);
        // A guest may ask for them in a task of its own.
        let batches = InTurn::new(Arc::clone(&self.place), batches).boxed();
        Ok(Rows { columns, batches, context, json })
    }

    fn plan(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Plan, Failure> {
        let Asked { endpoint, arguments, pinned, unrestricted, .. } = self.asked.as_ref();
        let mut arguments = arguments.clone();
        for (name, value) in extra {
            // The grants filter by these: who writes components chooses no other tenant either.
            if pinned.keys().any(|fixed| fixed.eq_ignore_ascii_case(&name)) {
                let message = format!("parameter '{name}' is fixed by the access token");
                return Err(Failure::new(Code::Forbidden, message).about(name));
            }
            arguments.insert(name, value);
        }
        let saved = endpoint.saved()?;
        let text_limits = &self.app.options.limits.text;
        let pins = match pinned.is_empty() {
            true => Pins::default(),
            false => {
                let reads = self.app.registry.load_reads(&self.app.store, &endpoint.tables)?;
                Pins::of(&self.app, pinned, endpoint, &reads)?
            }
        };
        // A caller's text that may read all sources names them as they are called now.
        let bound = !(*unrestricted && matches!(statement, Statement::Text(_)));
        let sources = StoredTables::of(&self.app.store, &self.app.registry, endpoint, bound).held_to(pins.columns());
        let binding = Binding::new(&sources, &arguments, self.now);
        // What ad-hoc text may read.
        let of_text = if *unrestricted { binding } else { binding.granted(saved) };
        match statement {
            Statement::Named(name) if name == DEFAULT_STATEMENT => {
                pins.allow_body()?;
                self.app.engine.plan_saved(saved, binding)
            }
            Statement::Named(name) => match endpoint.manifest.statements.get(&name) {
                Some(sql) => {
                    pins.allow_fixed(sql, text_limits)?;
                    self.app.engine.plan(sql, binding.granted(saved))
                }
                None => {
                    let message = format!("the endpoint has no statement {name}");
                    Err(Failure::new(Code::UnknownStatement, message).about(name))
                }
            },
            Statement::Text(sql) if self.language == Language::Sql => {
                pins.allow_text(&sql, text_limits)?;
                self.app.engine.plan(&sql, of_text)
            }
            Statement::Text(text) => {
                let tables = if *unrestricted {
                    self.app.store.sources().into_iter().map(|source| source.name).collect()
                } else {
                    saved.tables()
                };
                let plan = |query: &Query| {
                    pins.allow_query(query)?;
                    self.app.engine.plan_query(query, of_text)
                };
                plan(&lql::translate(&text, &tables, self.now, plan)?)
            }
        }
    }
}

/// How a guest sees a type.
fn kind_of(ty: &Type) -> Kind {
    match ty {
        Type::Bool => Kind::Boolean,
        Type::Int64 => Kind::Int64,
        Type::Float64 => Kind::Float64,
        Type::Bytes => Kind::Bytes,
        Type::Timestamp => Kind::Timestamp,
        Type::String | Type::Null => Kind::Text,
        _ => Kind::Json,
    }
}

/// The type behind a kind, for rows that a guest made.
pub(crate) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Boolean => Type::Bool,
        Kind::Int64 => Type::Int64,
        Kind::Float64 => Type::Float64,
        Kind::Bytes => Type::Bytes,
        Kind::Timestamp => Type::Timestamp,
        Kind::Text => Type::String,
        Kind::Json => Type::Json,
    }
}

fn cell(ty: Option<&Type>, array: &ArrayRef, row: usize) -> Result<String, Failure> {
    let internal = |detail: String| {
        tracing::error!(detail, "a cell cannot be encoded");
        Failure::new(Code::Internal, "a value could not be encoded")
    };
    let ty = ty.ok_or_else(|| internal("there is no such column".to_owned()))?;
    let encoder =
        ColumnEncoder::new(&array.slice(row, 1), ty, Style::Result).map_err(|error| internal(error.to_string()))?;
    let mut text = Vec::new();
    encoder.write(0, &mut text);
    String::from_utf8(text).map_err(|error| internal(error.to_string()))
}
