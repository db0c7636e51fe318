//! A subquery over the arrays of its row, as a function of the row.
//!
//! `EXISTS (SELECT 1 FROM UNNEST(r.tags) AS tag WHERE tag = 'x')` has to be answered for every row from the row alone.
//! The engine can only answer it by a join, and a join needs a key, which log records do not have. So the subquery
//! becomes a function: its arguments are the values that the subquery uses of the row; it unnests whole batches of rows
//! at once, filters, sorts and aggregates the elements, and returns one value for each row.

mod chosen;
mod compiled;
mod shared_lists;
mod unnested;

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, TypeSignature, Volatility,
};

use crate::context;

use self::compiled::{Compiled, joined};

/// How many rows are unnested at once, unless they have too many elements.
const ROWS_AT_ONCE: usize = 1024;

/// The subquery: expressions over what it uses of the row and over its own columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArraySubquery {
    /// The lists to unnest; each may use the elements of those before it.
    pub steps: Vec<Step>,
    /// The condition on elements.
    pub filter: Option<Expr>,
    /// With aggregates, all elements of a row are one group.
    pub aggregates: Vec<(String, Expr)>,
    /// The order of the elements.
    pub sorts: Vec<SortExpr>,
    /// Whether equal values of a row come once.
    pub distinct: bool,
    /// OFFSET.
    pub skip: usize,
    /// LIMIT.
    pub limit: Option<usize>,
    /// Over the elements or, with aggregates, over the groups.
    pub value: Expr,
    /// What becomes of the values of a row.
    pub finish: Finish,
}

/// One UNNEST.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    /// The list to unnest.
    pub array: Expr,
    /// Whether a row without elements stays, with NULL for one.
    pub keep: bool,
    /// The name of the column that the element becomes.
    pub element: String,
    /// The column of the position, if it is wanted.
    pub offset: Option<String>,
}

/// What becomes of the rows of the subquery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// Whether there are any.
    Exists,
    /// The value of the only one, NULL without one.
    Scalar,
    /// Their values as a list.
    Array,
}

impl ArraySubquery {
    /// The subquery as an expression over the row. Its parts that do not depend on the elements become arguments.
    ///
    /// # Errors
    /// If the engine cannot walk the expressions.
    pub fn into_expr(mut self) -> Result<Expr> {
        let mut own: Vec<String> = self.aggregates.iter().map(|(name, _)| name.clone()).collect();
        own.extend(self.steps.iter().flat_map(|step| std::iter::once(&step.element).chain(&step.offset)).cloned());
        let mut arguments: Vec<Expr> = Vec::new();
        let mut capture = |expr: &Expr| -> Result<Expr> { captured(expr, &own, &mut arguments) };
        for step in &mut self.steps {
            step.array = capture(&step.array)?;
        }
        self.filter = self.filter.as_ref().map(&mut capture).transpose()?;
        for (_, call) in &mut self.aggregates {
            *call = capture(call)?;
        }
        for sort in &mut self.sorts {
            sort.expr = capture(&sort.expr)?;
        }
        self.value = capture(&self.value)?;
        Ok(ScalarUDF::from(Function::new(self)).call(arguments))
    }
}

/// The name of an argument within the subquery.
fn argument(i: usize) -> String {
    format!("row_{i}")
}

/// The expression, of which each largest part that does not depend on the elements is replaced by an argument.
fn captured(expr: &Expr, own: &[String], arguments: &mut Vec<Expr>) -> Result<Expr> {
    let transformed = expr.clone().transform_down(|part| {
        // An aggregate stays where it is; its arguments are looked at.
        let whole = matches!(part, Expr::Literal(..) | Expr::AggregateFunction(_))
            || part.exists(|inner| {
                Ok(matches!(inner, Expr::Column(column) if own.contains(&column.name))
                    || matches!(inner, Expr::AggregateFunction(_)))
            })?;
        let reads = part.exists(|inner| Ok(matches!(inner, Expr::Column(_) | Expr::OuterReferenceColumn(..))))?;
        if whole || !reads {
            return Ok(Transformed::no(part));
        }
        let place = arguments.iter().position(|known| *known == part).unwrap_or_else(|| {
            arguments.push(part);
            arguments.len() - 1
        });
        let column = Expr::Column(Column::new_unqualified(argument(place)));
        Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
    })?;
    Ok(transformed.data)
}

/// The subquery as the engine sees it.
#[derive(Debug)]
pub(crate) struct Function {
    query: ArraySubquery,
    signature: Signature,
    /// What it was compiled to, for the types of its arguments.
    compiled: Mutex<Option<(Vec<DataType>, Arc<Compiled>)>>,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.query == other.query
    }
}

impl Eq for Function {}

impl std::hash::Hash for Function {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.query.hash(state);
    }
}

impl Function {
    /// The function of a subquery whose arguments were captured.
    pub(crate) fn new(query: ArraySubquery) -> Self {
        // One that reads nothing of the row has no arguments.
        let signatures = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let signature = Signature::one_of(signatures, Volatility::Immutable);
        Self { query, signature, compiled: Mutex::new(None) }
    }

    pub(crate) fn query(&self) -> &ArraySubquery {
        &self.query
    }

    fn compiled(&self, types: &[DataType]) -> Result<Arc<Compiled>> {
        let mut known = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, compiled)) = known.as_ref()
            && of == types
        {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Compiled::new(&self.query, types)?);
        *known = Some((types.to_vec(), Arc::clone(&compiled)));
        Ok(compiled)
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &'static str {
        "array_subquery"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.compiled(arguments)?.returns())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = call.args.iter().map(|value| value.to_array(call.number_rows)).collect::<Result<Vec<_>>>()?;
        let types: Vec<DataType> = arrays.iter().map(|array| array.data_type().clone()).collect();
        let compiled = self.compiled(&types)?;
        let mut parts = Vec::new();
        let mut start = 0;
        let mut rows = ROWS_AT_ONCE;
        while start < call.number_rows {
            context::check()?;
            rows = rows.min(call.number_rows - start);
            let arrays = arrays.iter().map(|array| array.slice(start, rows)).collect();
            match compiled.run(arrays, rows)? {
                Some(part) => {
                    parts.push(part);
                    start += rows;
                }
                // Fewer rows at once: the memory stays small, and the stop sign is checked more often.
                None => rows = rows.div_ceil(4),
            }
        }
        joined(parts, &compiled.returns()).map(ColumnarValue::Array)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, ListArray};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::{Field, Int64Type};
    use datafusion::config::ConfigOptions;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::functions_nested::expr_fn::array_has;
    use datafusion::logical_expr::{col, lit};

    use super::*;
    use crate::context::{ExecutionContext, Patterns, StatementMemory};
    use crate::table::kernel_function;

    /// `SELECT COUNT(*) FROM UNNEST(a) AS x WHERE condition`, over rows with lists of the numbers from 0 on.
    fn counted(condition: Expr, lengths: &[usize], bytes: usize) -> (Result<Vec<i64>>, usize) {
        let step = Step { array: col("a"), keep: false, element: "x".to_owned(), offset: None };
        let query = ArraySubquery {
            steps: vec![step],
            filter: Some(condition),
            aggregates: vec![("n".to_owned(), count(lit(1_i64)))],
            sorts: Vec::new(),
            distinct: false,
            skip: 0,
            limit: None,
            value: col("n"),
            finish: Finish::Scalar,
        };
        let Expr::ScalarFunction(call) = query.into_expr().unwrap() else { unreachable!() };
        let values = Int64Array::from_iter_values(lengths.iter().flat_map(|length| 0..i64::try_from(*length).unwrap()));
        let item = Arc::new(Field::new_list_field(DataType::Int64, true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let lists: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(values), None));
        let sevens: ArrayRef = Arc::new(Int64Array::from(vec![7; lengths.len()]));
        let array = |of: &Expr| if *of == col("a") { Arc::clone(&lists) } else { Arc::clone(&sevens) };
        let arguments = ScalarFunctionArgs {
            args: call.args.iter().map(|of| ColumnarValue::Array(array(of))).collect(),
            arg_fields: Vec::new(),
            number_rows: lengths.len(),
            return_field: Arc::new(Field::new("n", DataType::Int64, true)),
            config_options: Arc::new(ConfigOptions::new()),
        };
        let all: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let memory = Arc::new(StatementMemory::new(Arc::clone(&all), bytes));
        let patterns = Arc::new(Patterns::new(&all));
        let result = ExecutionContext::of_run(Arc::clone(&memory), patterns).enter(|| {
            let array = call.func.invoke_with_args(arguments)?.into_array(lengths.len())?;
            Ok(array.as_primitive::<Int64Type>().values().to_vec())
        });
        (result, memory.peak())
    }

    #[test]
    fn lists_are_not_copied_for_each_element_where_nothing_reads_them() {
        let (result, peak) = counted(col("x").eq(col("seven")), &[15_000, 3, 20_000], 4 << 20);
        assert_eq!(result.unwrap(), [1, 0, 1]);
        assert!(peak < 4 << 20, "{peak}");
    }

    #[test]
    fn lists_that_are_read_for_each_element_are_copied_in_parts_that_count() {
        // The copies of the longest together have 72 MB.
        let (result, peak) = counted(array_has(col("a"), col("x")), &[3_000, 0, 50, 2_000], 12 << 20);
        assert_eq!(result.unwrap(), [3_000, 0, 50, 2_000]);
        assert!((6 << 20..12 << 20).contains(&peak), "{peak}");
    }

    #[test]
    fn lists_that_are_looked_up_in_are_not_copied() {
        let included = kernel_function("value_in_array", false, false).unwrap();
        let looked_up = |list: Expr| included.call(vec![col("x"), list]);
        let (result, peak) = counted(looked_up(col("a")), &[60_000, 0, 50, 20_000], 16 << 20);
        assert_eq!(result.unwrap(), [60_000, 0, 50, 20_000]);
        assert!(peak < 16 << 20, "{peak}");
        // A list that is read otherwise, too, is copied for that.
        let also_read = looked_up(col("a")).and(array_has(col("a"), col("x") + lit(1_i64)));
        let (result, _) = counted(also_read, &[3_000, 0, 2, 50], 12 << 20);
        assert_eq!(result.unwrap(), [2_999, 0, 1, 49]);
    }

    #[test]
    fn one_copy_that_is_too_large_is_refused() {
        let (result, peak) = counted(array_has(col("a"), col("x")), &[200_000], 1 << 20);
        let error = result.unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        assert!(peak < 1 << 20, "{peak}");
    }
}
