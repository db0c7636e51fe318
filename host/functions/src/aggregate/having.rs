//! HAVING MAX and HAVING MIN within an aggregate: it is computed over those rows of its group that have the largest or
//! smallest key.
//!
//! Its last argument is the key. Rows whose key is NULL are left out. With a NaN among the keys no row is left, for nothing
//! equals it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::making::Making;
use crate::arrays::arity;
use crate::context::Transient;
use crate::row_form::row_forms;

/// The aggregate `inner` over the rows with the largest key, or the smallest.
pub fn having(inner: Arc<AggregateUDF>, largest: bool) -> Arc<AggregateUDF> {
    // With the name of the aggregate in its own, because columns of a plan are known by their calls.
    let name = format!("{}_having_{}", inner.name(), if largest { "max" } else { "min" });
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(AggregateUDF::from(Having { name, inner, largest, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Having {
    name: String,
    inner: Arc<AggregateUDF>,
    largest: bool,
    signature: Signature,
}

impl Having {
    pub(crate) fn inner(&self) -> &AggregateUDF {
        &self.inner
    }

    pub(crate) fn is_largest(&self) -> bool {
        self.largest
    }
}

impl AggregateUDFImpl for Having {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments.split_last().ok_or_else(arity)?.1)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments.split_last().ok_or_else(arity)?.1)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let at = arguments.exprs.len().checked_sub(1).ok_or_else(arity)?;
        let key = arguments.expr_fields.get(at).ok_or_else(arity)?.data_type().clone();
        let making = Making::of(&self.inner, &arguments, at);
        Ok(Box::new(Chosen {
            inner: making.make()?,
            making,
            at,
            largest: self.largest,
            rows: RowConverter::new(vec![SortField::new(key.clone())])?,
            key: ScalarValue::try_new_null(&key)?,
            best: None,
            is_nan: false,
        }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let (key, inner) = arguments.input_fields.split_last().ok_or_else(arity)?;
        let key = Field::new(format!("{}[key]", arguments.name), key.data_type().clone(), true);
        let inner = StateFieldsArgs { input_fields: inner, ..arguments };
        Ok(std::iter::once(Arc::new(key)).chain(self.inner.state_fields(inner)?).collect())
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    /// The inner one sorts its rows itself, whatever order they come in.
    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// The aggregate of the rows with the best key so far.
#[derive(Debug)]
struct Chosen {
    making: Making,
    inner: Box<dyn Accumulator>,
    /// Which argument the key is.
    at: usize,
    largest: bool,
    rows: RowConverter,
    /// The best key, as a value and in its row form.
    key: ScalarValue,
    best: Option<Box<[u8]>>,
    is_nan: bool,
}

impl Chosen {
    /// The rows of `keys` that have the best key, if it is as good as the best one before.
    fn chosen(&mut self, keys: &ArrayRef) -> Result<Vec<u32>> {
        if keys.as_primitive_opt::<Float64Type>().is_some_and(|keys| keys.iter().flatten().any(f64::is_nan)) {
            self.is_nan = true;
            self.key = ScalarValue::Float64(Some(f64::NAN));
            self.inner = self.making.make()?;
        }
        if self.is_nan {
            return Ok(Vec::new());
        }
        let mut held = Transient::default();
        let forms = row_forms(&self.rows, &[Arc::clone(keys)], &mut held)?;
        let (mut found, mut new) = (Vec::new(), None);
        for (row, form) in (0_u32..).zip(forms.iter()) {
            if keys.is_null(row as usize) {
                continue;
            }
            let best = new.map(|(_, form)| form).or(self.best.as_deref());
            let order = best.map(|best: &[u8]| form.as_ref().cmp(best));
            match order.map(|order| if self.largest { order.reverse() } else { order }) {
                Some(std::cmp::Ordering::Greater) => continue,
                Some(std::cmp::Ordering::Equal) => {}
                _ => {
                    found.clear();
                    new = Some((row, forms.row(row as usize).data()));
                }
            }
            found.push(row);
        }
        if let Some((row, form)) = new {
            let is_first = self.best.replace(form.into()).is_none();
            self.key = ScalarValue::try_from_array(keys, row as usize)?;
            if !is_first {
                self.inner = self.making.make()?;
            }
        }
        Ok(found)
    }
}

impl Accumulator for Chosen {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let keys = values.get(self.at).ok_or_else(arity)?;
        let rows = self.chosen(keys)?;
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(rows);
        let others = values.iter().enumerate().filter(|(i, _)| *i != self.at);
        let chosen = others.map(|(_, column)| Ok(take(column, &rows, None)?)).collect::<Result<Vec<_>>>()?;
        self.inner.update_batch(&chosen)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (keys, states) = states.split_first().ok_or_else(arity)?;
        let rows = self.chosen(keys)?;
        if rows.is_empty() {
            return Ok(());
        }
        let rows = UInt32Array::from(rows);
        let chosen = states.iter().map(|column| Ok(take(column, &rows, None)?)).collect::<Result<Vec<_>>>()?;
        self.inner.merge_batch(&chosen)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(std::iter::once(self.key.clone()).chain(self.inner.state()?).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.key.size() + self.best.as_ref().map_or(0, |best| best.len())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Float64Array, Int64Array};
    use datafusion::arrow::datatypes::Schema;

    use super::super::whole_sum;
    use super::*;

    fn accumulator(largest: bool) -> Box<dyn Accumulator> {
        let schema =
            Schema::new(vec![Field::new("x", DataType::Int64, true), Field::new("k", DataType::Float64, true)]);
        let exprs = ["x", "k"].map(|name| datafusion::physical_expr::expressions::col(name, &schema).unwrap());
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        having(whole_sum(), largest)
            .accumulator(AccumulatorArgs {
                return_field: Arc::new(Field::new("sum", DataType::Int64, true)),
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: "sum",
                is_distinct: false,
                exprs: &exprs,
                expr_fields: &fields,
            })
            .unwrap()
    }

    fn batch(rows: &[(i64, Option<f64>)]) -> [ArrayRef; 2] {
        let values: Int64Array = rows.iter().map(|(x, _)| Some(*x)).collect();
        let keys: Float64Array = rows.iter().map(|(_, key)| *key).collect();
        [Arc::new(values), Arc::new(keys)]
    }

    /// The sum over rows of which each part is a batch, and as merged states of them.
    fn sums(largest: bool, parts: &[&[(i64, Option<f64>)]]) -> [ScalarValue; 2] {
        let (mut one, mut merged) = (accumulator(largest), accumulator(largest));
        for part in parts {
            one.update_batch(&batch(part)).unwrap();
            let mut half = accumulator(largest);
            half.update_batch(&batch(part)).unwrap();
            let state: Vec<ArrayRef> = half.state().unwrap().iter().map(|part| part.to_array().unwrap()).collect();
            merged.merge_batch(&state).unwrap();
        }
        [one.evaluate().unwrap(), merged.evaluate().unwrap()]
    }

    #[test]
    fn only_rows_with_the_best_key_count() {
        let parts: [&[_]; 3] = [
            &[(1, Some(1.0)), (2, Some(2.0)), (4, None), (8, Some(2.0))],
            &[(16, Some(0.0))],
            &[(32, Some(2.0)), (64, Some(0.0))],
        ];
        let sum = |sum| [ScalarValue::Int64(sum), ScalarValue::Int64(sum)];
        assert_eq!(sums(true, &parts), sum(Some(42)));
        assert_eq!(sums(false, &parts), sum(Some(80)));
        assert_eq!(sums(true, &[&[(1, None)]]), sum(None));
        assert_eq!(sums(true, &[&[(1, Some(1.0))], &[(2, Some(f64::NAN))], &[(4, Some(9.0))]]), sum(None));
    }
}
