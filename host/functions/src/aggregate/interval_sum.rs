//! SUM and AVG of INTERVAL. Months, days and nanoseconds are summed apart, in 128 bits.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::{STATE, first};
use crate::context::value_error;
use crate::time::divided;

/// SUM of INTERVAL, or AVG.
pub fn interval_sum(average: bool) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(IntervalSum { average, signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct IntervalSum {
    average: bool,
    signature: Signature,
}

impl IntervalSum {
    /// Whether it is AVG.
    pub(crate) fn is_average(&self) -> bool {
        self.average
    }
}

impl AggregateUDFImpl for IntervalSum {
    fn name(&self) -> &'static str {
        if self.average { "interval_average" } else { "interval_sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Parts { average: self.average, parts: [0; 4] }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let part = |name: &str| Arc::new(Field::new(format!("{}[{name}]", arguments.name), STATE, true));
        Ok(["months", "days", "nanos", "rows"].into_iter().map(part).collect())
    }
}

/// Months, days, nanoseconds and rows.
#[derive(Debug)]
struct Parts {
    average: bool,
    parts: [i128; 4],
}

impl Parts {
    fn add(&mut self, parts: [i128; 4], sign: i128) {
        for (sum, part) in self.parts.iter_mut().zip(parts) {
            *sum = sum.saturating_add(sign * part);
        }
    }

    fn add_rows(&mut self, values: &[ArrayRef], sign: i128) -> Result<()> {
        for value in first(values)?.as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            self.add([value.months.into(), value.days.into(), value.nanoseconds.into(), 1], sign);
        }
        Ok(())
    }
}

impl Accumulator for Parts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_rows(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add_rows(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for (sum, states) in self.parts.iter_mut().zip(states) {
            for part in states.as_primitive::<Decimal128Type>().iter().flatten() {
                *sum = sum.saturating_add(part);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.parts.iter().map(|part| ScalarValue::Decimal128(Some(*part), 38, 0)).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let [months, days, nanos, rows] = self.parts;
        if rows == 0 {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        }
        let (months, days, nanos) =
            if self.average { divided((months, days, nanos), rows) } else { (months, days, nanos) };
        let too_large = || value_error("the sum of the INTERVALs is too large; it has at most 10000 years");
        // Of each part as many as 10,000 years have.
        let within = |part: i128, most: i128| part.abs() <= most;
        if !within(months, 120_000) || !within(days, 3_660_000) || !within(nanos, 87_840_000 * 3_600 * 1_000_000_000) {
            return Err(too_large());
        }
        let small = |part: i128| i32::try_from(part).map_err(|_| too_large());
        let nanos = i64::try_from(nanos).map_err(|_| too_large())?;
        Ok(ScalarValue::new_interval_mdn(small(months)?, small(days)?, nanos))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
