//! Lists of the row in which elements are looked up (`x IN UNNEST(list)`): copied for each element, two long lists would
//! take the memory and the time of all pairs. They come as dictionaries instead, of which the number of the row is copied.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, DictionaryArray, UInt32Array};
use datafusion::arrow::datatypes::{DataType, UInt32Type};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;

use super::unnested::to_u32;
use super::{ArraySubquery, argument};
use crate::array_membership::VALUE_IN_ARRAY;
use crate::arrays::arity;

/// The name of the column of a list.
pub(super) fn name(list: usize) -> String {
    format!("list_{list}")
}

/// The subquery with such lists as columns of their own, and the arguments of which these are made.
pub(super) fn with_shared_lists(query: &ArraySubquery, types: &[DataType]) -> Result<(ArraySubquery, Vec<usize>)> {
    let mut query = query.clone();
    let mut lists = Vec::new();
    let mut changed = |expr: &mut Expr| -> Result<()> {
        *expr = std::mem::take(expr).transform_up(|part| Ok(looked_up(part, types, &mut lists)))?.data;
        Ok(())
    };
    query.filter.iter_mut().try_for_each(&mut changed)?;
    query.aggregates.iter_mut().map(|(_, call)| call).try_for_each(&mut changed)?;
    query.sorts.iter_mut().map(|sort| &mut sort.expr).try_for_each(&mut changed)?;
    changed(&mut query.value)?;
    Ok((query, lists))
}

/// A call that looks up in an argument, as one that looks up in its column.
fn looked_up(part: Expr, types: &[DataType], lists: &mut Vec<usize>) -> Transformed<Expr> {
    let list = match &part {
        Expr::ScalarFunction(call) if call.func.name() == VALUE_IN_ARRAY => match call.args.as_slice() {
            [_, Expr::Column(column)] => types
                .iter()
                .enumerate()
                .find(|(at, ty)| argument(*at) == column.name && matches!(ty, DataType::List(_))),
            _ => None,
        },
        _ => None,
    };
    match (part, list) {
        (Expr::ScalarFunction(ScalarFunction { func, mut args }), Some((of, _))) => {
            let place = lists.iter().position(|known| *known == of).unwrap_or_else(|| {
                lists.push(of);
                lists.len() - 1
            });
            args.truncate(1);
            args.push(Expr::Column(Column::new_unqualified(name(place))));
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
        }
        (part, _) => Transformed::no(part),
    }
}

/// The type of the column of a list.
pub(super) fn shared_type(list: &DataType) -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(list.clone()))
}

/// The column of a list: for each row its own.
pub(super) fn shared(arrays: &[ArrayRef], list: usize) -> Result<ArrayRef> {
    let lists = arrays.get(list).ok_or_else(arity)?;
    let rows = UInt32Array::from_iter_values(0..to_u32(lists.len())?);
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(rows, Arc::clone(lists))?))
}
