//! Conditions on texts that repeat: each text of a batch is looked at once.
//!
//! "How many requests have `/rest` in their path, how many `/auth`" searches each path once for each count, and most paths
//! stand in a batch many times. The texts of a batch are found once for all conditions on them ([`DistinctTexts`]); each
//! condition is computed of the texts, and its results are handed to their rows. Where most texts differ, it is computed
//! of the rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use tidegate_functions::DistinctTexts;

/// The texts of the columns of the batch at hand, which the conditions of one operator share.
#[derive(Debug, Default)]
pub(super) struct Texts(Mutex<Vec<KnownTexts>>);

/// The texts of one column.
#[derive(Debug)]
struct KnownTexts {
    column: usize,
    rows: ArrayRef,
    /// `None` if most of them differ.
    distinct: Option<DistinctTexts>,
}

impl Texts {
    /// The texts of a column, which are found once for each batch.
    fn of(&self, column: usize, rows: &ArrayRef) -> Option<DistinctTexts> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(texts) = known.iter().find(|texts| texts.column == column && Arc::ptr_eq(&texts.rows, rows)) {
            return texts.distinct.clone();
        }
        let distinct = DistinctTexts::of(rows);
        known.retain(|texts| texts.column != column);
        known.push(KnownTexts { column, rows: Arc::clone(rows), distinct: distinct.clone() });
        distinct
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
        let rows = batch.columns().get(self.column.index());
        let distinct = rows.and_then(|rows| self.texts.of(self.column.index(), rows));
        let Some(distinct) = distinct else { return self.whole.evaluate(batch) };
        let (texts, count) = (Arc::clone(&distinct.texts), distinct.texts.len());
        let results = self.condition.evaluate(&RecordBatch::try_new(Arc::clone(&self.schema), vec![texts])?)?;
        Ok(ColumnarValue::Array(distinct.repeated(&results.into_array(count)?)?))
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{AsArray, StringViewArray};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::BinaryExpr;
    use datafusion::scalar::ScalarValue;

    use super::*;

    fn view(text: &str) -> Arc<dyn PhysicalExpr> {
        Arc::new(Literal::new(ScalarValue::Utf8View(Some(text.to_owned()))))
    }

    fn like(column: &str, place: usize, pattern: &str) -> Arc<dyn PhysicalExpr> {
        Arc::new(LikeExpr::new(false, false, Arc::new(Column::new(column, place)), view(pattern)))
    }

    /// Two conditions on one column find its texts once; where each row has another text, rows are looked at.
    #[test]
    fn a_text_that_repeats_is_looked_at_once() {
        let field = |name: &str| Field::new(name, DataType::Utf8View, true);
        let schema = Arc::new(Schema::new(vec![field("same"), field("other")]));
        let known: StringViewArray = [Some("/rest/v1/a/longer/path"), Some("/auth"), None].into_iter().collect();
        let same = take_texts(&known, (0..900).map(|row| row % 3));
        let other: StringViewArray = (0..900).map(|row| Some(format!("/rest/v1/a/path/of/its/own/{row}"))).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![same, Arc::new(other)]).unwrap();
        let texts = Arc::new(Texts::default());
        let either = |one, another| Arc::new(BinaryExpr::new(one, Operator::Or, another)) as Arc<dyn PhysicalExpr>;
        for (column, place, distinct) in [("same", 0, Some(3)), ("other", 1, None)] {
            let whole = either(like(column, place, "%/v1/%1"), like(column, place, "/auth%"));
            let once = once_for_each_text(Arc::clone(&whole), &schema, &texts).unwrap();
            let values = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch).unwrap().into_array(900).unwrap();
            assert_eq!(values(&once).as_boolean(), values(&whole).as_boolean());
            {
                let known = texts.0.lock().unwrap();
                let found = known.iter().find(|known| known.column == place).unwrap();
                assert_eq!(found.distinct.as_ref().map(|distinct| distinct.texts.len()), distinct);
            }
            assert_eq!(once.to_string(), whole.to_string());
        }
        assert_eq!(texts.0.lock().unwrap().len(), 2);
        texts.clear();
        assert!(texts.0.lock().unwrap().is_empty());
    }

    fn take_texts(of: &StringViewArray, places: impl Iterator<Item = u32>) -> ArrayRef {
        let places = datafusion::arrow::array::UInt32Array::from_iter_values(places);
        datafusion::arrow::compute::take(of, &places, None).unwrap()
    }
}
