//! Conditions on texts that repeat: each text of a batch is looked at once.
//!
//! "How many requests have `/rest` in their path, how many `/auth`" searches each path once for each count, and most paths
//! stand in a batch many times. The rows of a batch with the same text are found once for all conditions on it
//! ([`RowNumbers`]); each condition is computed of the texts, and its results are handed to their rows. Where most texts
//! differ, it is computed of the rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use tidegate_functions::RowNumbers;

/// Batches with fewer rows are not worth it.
const FEW: usize = 64;

/// The texts of a column of the batch at hand, which the conditions of one operator share.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<Vec<KnownTexts>>);

/// The texts of one column.
#[derive(Debug, Clone)]
struct KnownTexts {
    column: usize,
    rows: ArrayRef,
    /// The texts that differ, and for each row the number of its text; `None` if most of them differ.
    repeated: Option<(ArrayRef, UInt32Array)>,
}

impl Texts {
    /// The texts of a column, which are found once for each batch.
    fn of(&self, column: usize, rows: &ArrayRef) -> Result<Option<(ArrayRef, UInt32Array)>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(texts) = known.iter().find(|texts| texts.column == column && Arc::ptr_eq(&texts.rows, rows)) {
            return Ok(texts.repeated.clone());
        }
        let mut numbers = RowNumbers::new();
        let repeated = match numbers.of(std::slice::from_ref(rows)) {
            Some((firsts, numbers)) => {
                let texts = take(rows, &UInt32Array::from_iter_values(firsts.iter().copied()), None)?;
                Some((texts, UInt32Array::from_iter_values(numbers.iter().copied())))
            }
            None => None,
        };
        known.retain(|texts| texts.column != column);
        known.push(KnownTexts { column, rows: Arc::clone(rows), repeated: repeated.clone() });
        Ok(repeated)
    }

    /// Lets go of the batch.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The expression with each LIKE of a column and a constant computed once for each text.
pub(super) fn once_for_each_text(
    expr: Arc<dyn PhysicalExpr>,
    columns: &Schema,
    texts: &Arc<Texts>,
) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_down(|expr| {
        let Some(like) = expr.downcast_ref::<LikeExpr>() else { return Ok(Transformed::no(expr)) };
        let Some(column) = like.expr().downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let is_text =
            columns.fields().get(column.index()).is_some_and(|field| *field.data_type() == DataType::Utf8View);
        if !is_text || like.pattern().downcast_ref::<Literal>().is_none() {
            return Ok(Transformed::no(expr));
        }
        let text = Arc::new(Column::new(TEXT, 0));
        let of_text = LikeExpr::new(like.negated(), like.case_insensitive(), text, Arc::clone(like.pattern()));
        let schema = Arc::new(Schema::new(vec![Field::new(TEXT, DataType::Utf8View, true)]));
        let condition = TextCondition {
            column: column.clone(),
            condition: Arc::new(of_text),
            schema,
            whole: Arc::clone(&expr),
            texts: Arc::clone(texts),
        };
        Ok(Transformed::new(Arc::new(condition), true, TreeNodeRecursion::Jump))
    })
    .data()
}

const TEXT: &str = "text";

/// A condition on the texts of a column.
#[derive(Debug)]
struct TextCondition {
    column: Column,
    /// The condition over a batch of the texts alone, and the schema of such a batch.
    condition: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The condition over the rows.
    whole: Arc<dyn PhysicalExpr>,
    texts: Arc<Texts>,
}

impl PartialEq for TextCondition {
    fn eq(&self, other: &Self) -> bool {
        self.whole.eq(&other.whole)
    }
}

impl Eq for TextCondition {}

impl Hash for TextCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.whole.hash(state);
    }
}

impl fmt::Display for TextCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt(f)
    }
}

impl PhysicalExpr for TextCondition {
    fn data_type(&self, input_schema: &Schema) -> Result<DataType> {
        self.whole.data_type(input_schema)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.whole.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.columns().get(self.column.index()).filter(|rows| rows.len() >= FEW);
        let repeated = match rows {
            Some(rows) => self.texts.of(self.column.index(), rows)?,
            None => None,
        };
        let Some((texts, numbers)) = repeated else { return self.whole.evaluate(batch) };
        let count = texts.len();
        let results = self.condition.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), vec![texts])?)?;
        Ok(ColumnarValue::Array(take(&results.into_array(count)?, &numbers, None)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a condition on texts has no inputs") }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.whole.fmt_sql(f)
    }
}
