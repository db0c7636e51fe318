//! Rewriting expressions over the schema of the table to expressions over the columns of one segment or batch.
//!
//! The Parquet scan calls this once for each file. A `get_field` chain becomes the same chain on the columns of the
//! file, so that the scan reads single leaves and prunes by their statistics. A path that the file lacks becomes a NULL
//! literal. Only a column whose type differs, or a path with values in the overflow, becomes an [`AdaptedPath`]. Conditions on
//! packed UUIDs look at the column as it is ([`packed_conditions`](super::packed_conditions)).
//! A test for NULL of a path that the file declares as required becomes a constant: that a record is there then costs
//! nothing. So does the test for the one project that all rows have which are read ([`sole_project`]). Batches in memory are
//! read in the same way.
//!
//! The scan skips the rewriting for a file whose schema equals that of the table. Segments have key-value metadata,
//! which Arrow shows as metadata of the schema, so that their schema never equals it. Mixed paths, whose column may
//! have the same type on both sides, depend on that (`text_first_mixed_path_without_filter` in the tests).

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, SchemaRef},
    common::{
        ScalarValue, internal_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    functions::core::getfield::GetFieldFunc,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, TryCastExpr, lit},
    },
    physical_expr_adapter::{PhysicalExprAdapter, PhysicalExprAdapterFactory},
};

use crate::{
    arrays::column_path::type_below,
    field_names::{OVERFLOW, PLACE},
    overflow::{cache::OverflowCache, sparse_paths::SparsePaths},
    scan::{
        adapted_path::{AdaptedPath, PathRead},
        packed_conditions::over_packed,
        sole_project,
    },
    schema::{
        arrow_fields::field,
        json_pointer::push_pointer,
        shape::{PathTarget, Shape},
    },
};

/// Makes the adapters for the segments of a snapshot.
#[derive(Debug)]
pub(crate) struct AdapterFactory {
    pub(crate) shape: Arc<Shape>,
}

impl PhysicalExprAdapterFactory for AdapterFactory {
    fn create(&self, logical: SchemaRef, physical: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(Adapter::new(Arc::clone(&self.shape), logical, physical)))
    }
}

/// Rewrites expressions for one segment or batch.
#[derive(Debug)]
pub(crate) struct Adapter {
    shape: Arc<Shape>,
    logical: SchemaRef,
    physical: SchemaRef,
    sparse: SparsePaths,
    cache: Arc<OverflowCache>,
}

impl Adapter {
    /// An adapter from expressions over `logical`, the schema of the table, to expressions over `physical`, that of a
    /// segment or batch.
    pub(crate) fn new(shape: Arc<Shape>, logical: SchemaRef, physical: SchemaRef) -> Adapter {
        let sparse = SparsePaths::of_schema(&physical);
        Adapter { shape, logical, physical, sparse, cache: Arc::default() }
    }
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let adapted = expr.transform_down(|expr| {
            let replaced = if self.is_certain(&expr) {
                Some(lit(true))
            } else if let Some(column) = expr.downcast_ref::<Column>() {
                self.path(column, &[], None)?
            } else if let Some((get_field, column, keys)) = field_chain(&expr) {
                self.path(column, &keys, Some(get_field))?
            } else {
                None
            };
            Ok(match replaced {
                Some(new) => Transformed::new(new, true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            })
        })?;
        adapted
            .data
            .transform_up(|expr| {
                let packed = over_packed(&expr, &self.physical)?;
                let decided = self.decided(packed.as_ref().unwrap_or(&expr))?;
                Ok(decided.or(packed).map_or_else(|| Transformed::no(expr), Transformed::yes))
            })
            .data()
    }
}

/// `get_field(get_field(column, 'a'), 'b', 'c')` as the column and its keys.
pub(crate) fn field_chain(expr: &Arc<dyn PhysicalExpr>) -> Option<(&ScalarFunctionExpr, &Column, Vec<&str>)> {
    let outer = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(expr.as_ref())?;
    let mut call = outer;
    let mut reversed = Vec::new();
    loop {
        let (base, keys) = call.args().split_first()?;
        for key in keys.iter().rev() {
            reversed.push(key.downcast_ref::<Literal>()?.value().try_as_str()??);
        }
        if let Some(column) = base.downcast_ref::<Column>() {
            reversed.reverse();
            return Some((outer, column, reversed));
        }
        call = ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(base.as_ref())?;
    }
}

/// Whether an expression only selects: a column, or a path of fields below one.
pub(crate) fn picks(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Column>().is_some() || field_chain(expr).is_some()
}

impl Adapter {
    /// Whether a condition holds for every row, because all rows have one project.
    fn is_certain(&self, condition: &Arc<dyn PhysicalExpr>) -> bool {
        // Values of a path that reads the overflow need not be in the column.
        let is_in_column = || match self.shape.resolve(sole_project::PROJECT, std::iter::empty::<&str>()) {
            Some(PathTarget::Value(kind)) => {
                !kind.reads_overflow() && !self.sparse.has_at_or_below(sole_project::POINTER)
            }
            _ => false,
        };
        sole_project::is_certain(condition, &self.physical) && is_in_column()
    }

    /// A test for NULL as a constant, if the file declares the tested path as required, and a conjunction without the
    /// sides that are always true. The presence of a record is such a test.
    fn decided(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let required =
            |path: &Arc<dyn PhysicalExpr>| Ok::<_, DataFusionError>(picks(path) && !path.nullable(&self.physical)?);
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            return Ok(required(test.arg())?.then(|| lit(true)));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            return Ok(required(test.arg())?.then(|| lit(false)));
        }
        let Some(both) = expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::And) else {
            return Ok(None);
        };
        let always = |side: &Arc<dyn PhysicalExpr>| {
            side.downcast_ref::<Literal>().is_some_and(|side| *side.value() == ScalarValue::Boolean(Some(true)))
        };
        Ok(match (always(both.left()), always(both.right())) {
            (true, _) => Some(Arc::clone(both.right())),
            (_, true) => Some(Arc::clone(both.left())),
            _ => None,
        })
    }

    /// The expression over the file for a path; `None` if the path leads through a list.
    fn path(
        &self,
        column: &Column,
        keys: &[&str],
        get_field: Option<&ScalarFunctionExpr>,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let name = column.name();
        let is_place = PLACE.contains(&name) && self.shape.is_placed();
        if (name == OVERFLOW || is_place) && keys.is_empty() {
            return Ok(Some(match self.physical_column(name) {
                Some((column, _)) => column,
                None if is_place => null(&DataType::Int64)?,
                None => null(&DataType::Utf8View)?,
            }));
        }
        let Some(part) = self.shape.resolve(name, keys.iter().copied()) else {
            // A column that the table does not have is a bug of the planner. A path through a list is not; it is
            // rewritten at its column.
            if keys.is_empty() {
                return internal_err!("the table has no column `{name}`");
            }
            return Ok(None);
        };
        let mut pointer = String::new();
        let steps = || std::iter::once(&name).chain(keys);
        let steps = match part {
            PathTarget::Value(_) => steps().take(keys.len() + 1),
            // The pointer of the record; that of the event is empty.
            PathTarget::Presence(_) | PathTarget::Rest(_) | PathTarget::Unlike => steps().take(keys.len()),
        };
        steps.for_each(|key| push_pointer(&mut pointer, key));
        let (logical, reading, spills) = match part {
            PathTarget::Value(kind) => {
                let spills = kind.reads_overflow() || self.sparse.has_at_or_below(&pointer);
                // The table may show fewer fields; see `narrowed`.
                let logical = self.logical_type(name, keys).unwrap_or_else(|| kind.logical_type());
                (logical, PathRead::Value(kind.clone()), spills)
            }
            PathTarget::Presence(fields) => (DataType::Boolean, PathRead::Presence, fields.rest),
            PathTarget::Rest(fields) => (DataType::Utf8View, PathRead::Rest(fields.clone()), true),
            PathTarget::Unlike => (DataType::Utf8View, PathRead::Unlike, true),
        };
        let source = match part {
            PathTarget::Value(_) | PathTarget::Presence(_) => self.physical_path(name, keys, get_field)?,
            PathTarget::Rest(_) | PathTarget::Unlike => None,
        };
        // A field that has a column now may have had none at the time of writing.
        let spills = spills || (source.is_none() && self.shape.has_rest_above(name, keys));
        let overflow = if spills { self.physical_column(OVERFLOW) } else { None };
        Ok(Some(match (source, overflow) {
            (None, None) => null(&logical)?,
            (Some((source, physical)), None) if physical == logical => source,
            (Some((source, DataType::Int64)), None) if logical == DataType::Float64 => {
                Arc::new(CastExpr::new(source, logical, None))
            }
            // Whole numbers of a tenant, beside fractions of others.
            (Some((source, DataType::Float64)), None) if logical == DataType::Int64 => {
                Arc::new(TryCastExpr::new(source, logical))
            }
            (source, overflow) => {
                let has_source = source.is_some();
                let children = source.into_iter().chain(overflow).map(|(expr, _)| expr).collect();
                let target = match keys {
                    [] => self.logical.field_with_name(name)?.clone().into(),
                    _ => field(keys.last().copied().unwrap_or(name), logical),
                };
                let cache = Arc::clone(&self.cache);
                Arc::new(AdaptedPath { children, has_source, reading: Arc::new(reading), pointer, target, cache })
            }
        }))
    }

    /// The type that the table shows at a path.
    fn logical_type(&self, name: &str, keys: &[&str]) -> Option<DataType> {
        type_below(self.logical.field_with_name(name).ok()?.data_type(), keys).cloned()
    }

    fn physical_column(&self, name: &str) -> Option<(Arc<dyn PhysicalExpr>, DataType)> {
        let (index, field) = self.physical.column_with_name(name)?;
        Some((Arc::new(Column::new(name, index)), field.data_type().clone()))
    }

    /// The same path on the columns of the file, with its type there. Records on the way are structs in the file,
    /// because they are in the table: where the file has a list, the table has one too.
    fn physical_path(
        &self,
        name: &str,
        keys: &[&str],
        get_field: Option<&ScalarFunctionExpr>,
    ) -> Result<Option<(Arc<dyn PhysicalExpr>, DataType)>> {
        let Some((column, record)) = self.physical_column(name) else { return Ok(None) };
        let Some(data_type) = type_below(&record, keys).cloned() else { return Ok(None) };
        let Some(get_field) = get_field else { return Ok(Some((column, data_type))) };
        let keys = keys
            .iter()
            .map(|key| Arc::new(Literal::new(ScalarValue::Utf8(Some((*key).to_owned())))) as Arc<dyn PhysicalExpr>);
        let call = ScalarFunctionExpr::try_new(
            Arc::new(get_field.fun().clone()),
            std::iter::once(column).chain(keys).collect(),
            &self.physical,
            Arc::new(get_field.config_options().clone()),
        )?;
        Ok(Some((Arc::new(call), data_type)))
    }
}

fn null(data_type: &DataType) -> Result<Arc<dyn PhysicalExpr>> {
    Ok(Arc::new(Literal::new(ScalarValue::try_new_null(data_type)?)))
}
