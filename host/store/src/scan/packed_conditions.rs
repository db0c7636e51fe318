//! Conditions on packed UUIDs, over the 16 bytes of each instead of its text.
//!
//! A comparison with a constant UUID then makes no texts, and the filters and bounds that a file has of the column leave out
//! row groups, as for other columns. A test for NULL needs no texts either.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::Schema,
    common::ScalarValue,
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, in_list},
    },
};

use crate::{
    arrays::packed_uuids::{PACKED, packed},
    scan::adapted_path::AdaptedPath,
};

/// The condition over the packed column, if it is one on such a column and a constant; `None` for others. `file` has the
/// column.
///
/// # Errors
/// If the engine does not take the new one, which is a bug.
pub(crate) fn over_packed(condition: &Arc<dyn PhysicalExpr>, file: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if let Some(test) = condition.downcast_ref::<IsNotNullExpr>() {
        let column = packed_column(test.arg(), file)?;
        return Ok(column.map(|column| Arc::new(IsNotNullExpr::new(column)) as _));
    }
    if let Some(test) = condition.downcast_ref::<IsNullExpr>() {
        let column = packed_column(test.arg(), file)?;
        return Ok(column.map(|column| Arc::new(IsNullExpr::new(column)) as _));
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let Some(column) = packed_column(list.expr(), file)? else { return Ok(None) };
        if !list.list().iter().all(is_text) {
            return Ok(None);
        }
        // No value is another text.
        let values: Vec<_> = list.list().iter().filter_map(packed_constant).collect();
        return if values.is_empty() { Ok(None) } else { in_list(column, values, &list.negated(), file).map(Some) };
    }
    let Some(comparison) = condition.downcast_ref::<BinaryExpr>() else { return Ok(None) };
    let (left, op, right) = (comparison.left(), *comparison.op(), comparison.right());
    if !matches!(op, Operator::Eq | Operator::NotEq) {
        return Ok(None);
    }
    for (text, constant) in [(left, right), (right, left)] {
        if let Some(constant) = packed_constant(constant)
            && let Some(column) = packed_column(text, file)?
        {
            return Ok(Some(Arc::new(BinaryExpr::new(column, op, constant))));
        }
    }
    Ok(None)
}

/// The packed column whose texts an expression makes; `None` if it is another one, or also reads the overflow.
fn packed_column(text: &Arc<dyn PhysicalExpr>, file: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(path) = text.downcast_ref::<AdaptedPath>().filter(|path| path.has_source) else { return Ok(None) };
    let [column] = path.children.as_slice() else { return Ok(None) };
    Ok((column.data_type(file)? == PACKED).then(|| Arc::clone(column)))
}

fn text_of(constant: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    constant.downcast_ref::<Literal>()?.value().try_as_str()?
}

fn is_text(constant: &Arc<dyn PhysicalExpr>) -> bool {
    text_of(constant).is_some()
}

/// A constant UUID, packed.
fn packed_constant(constant: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let bytes = packed(text_of(constant)?)?;
    Some(Arc::new(Literal::new(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec())))))
}
