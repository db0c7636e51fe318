//! Functions as bytes: those of the engine by name, those of ours by name and parameters. Every function of a plan has
//! such bytes, so none is ever looked up by its name alone.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::logical_plan::LogicalExtensionCodec;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use prost::Message;
use tidegate_functions::aggregate::FloatAggregate;
use tidegate_functions::make::{AggregateFunction, ScalarFunction};

use crate::array_subquery_codec;
use crate::bounds::MAX_KEPT_VALUES;
use crate::engine_functions;
use crate::error::{PlanError, refused, unsendable};
use crate::function_message::{
    AggregateKind, AggregateMessage, ExactPercentileMessage, FirstMessage, FormMessage, PercentileMessage, ScalarKind,
    ScalarMessage, SortMessage, TopMessage, UnitedMessage, WatchedMessage,
};
use crate::{literal_check, type_codec};

/// Encodes and decodes functions, and nothing else: what a plan has besides passes through the encoder and the decoder.
#[derive(Debug)]
pub(crate) struct FunctionCodec;

impl PhysicalExtensionCodec for FunctionCodec {
    fn try_decode(
        &self,
        _: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        _: &TaskContext,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        refused("an operator is not known")
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        _: &mut Vec<u8>,
        _: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        unsendable(format!("the operator {} does not travel", node.name()))
    }

    fn try_decode_udf(&self, _: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        decoded_scalar(buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        encode_scalar(node, buf)
    }

    fn try_decode_udaf(&self, _: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        decoded_aggregate(buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        encode_aggregate(node, buf)
    }

    fn try_decode_udwf(&self, _: &str, buf: &[u8]) -> Result<Arc<WindowUDF>> {
        match std::str::from_utf8(buf).ok().and_then(engine_functions::window) {
            Some(function) => Ok(Arc::clone(function)),
            None => refused("a window function is not known"),
        }
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> Result<()> {
        if engine_functions::window(node.name()).is_none_or(|known| known.as_ref() != node) {
            return unsendable(format!("the window function {} does not travel", node.name()));
        }
        buf.extend_from_slice(node.name().as_bytes());
        Ok(())
    }
}

impl LogicalExtensionCodec for FunctionCodec {
    fn try_decode(&self, _: &[u8], _: &[LogicalPlan], _: &TaskContext) -> Result<Extension> {
        refused("a logical plan is no part of a plan that travels")
    }

    fn try_encode(&self, _: &Extension, _: &mut Vec<u8>) -> Result<()> {
        unsendable("a logical plan does not travel")
    }

    fn try_decode_table_provider(
        &self,
        _: &[u8],
        _: &TableReference,
        _: SchemaRef,
        _: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        refused("a table is no part of a plan that travels")
    }

    fn try_encode_table_provider(&self, _: &TableReference, _: Arc<dyn TableProvider>, _: &mut Vec<u8>) -> Result<()> {
        unsendable("a table does not travel")
    }

    fn try_decode_udf(&self, _: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        decoded_scalar(buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        encode_scalar(node, buf)
    }

    fn try_decode_udaf(&self, _: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        decoded_aggregate(buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        encode_aggregate(node, buf)
    }
}

fn encode_scalar(function: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
    let form = |name: String, first, late| FormMessage { name, first, late };
    let described = ScalarFunction::of(function);
    let again = match &described {
        Some(described) => described.make(),
        None => engine_functions::scalar(function.name()).cloned(),
    };
    if again.is_none_or(|again| again.as_ref() != function) {
        return unsendable(format!("the function {} does not travel", function.name()));
    }
    let kind = match described {
        None => ScalarKind::Engine(function.name().to_owned()),
        Some(ScalarFunction::Kernel { name, safe, late }) => ScalarKind::Kernel(form(name, safe, late)),
        Some(ScalarFunction::Bounded { inner, strict, late }) => ScalarKind::Bounded(form(inner, strict, late)),
        Some(ScalarFunction::ArraySubquery(query)) => {
            ScalarKind::ArraySubquery(array_subquery_codec::encoded(&query, &FunctionCodec)?)
        }
        Some(ScalarFunction::Counted) => ScalarKind::Counted(true),
        Some(ScalarFunction::JsonText(ty)) => ScalarKind::JsonText(type_codec::encoded(&ty)),
        Some(ScalarFunction::PortableJsonText(ty)) => ScalarKind::PortableJsonText(type_codec::encoded(&ty)),
        Some(ScalarFunction::Nullable) => ScalarKind::Nullable(true),
        Some(ScalarFunction::Only) => ScalarKind::Only(true),
        Some(ScalarFunction::Raised(returns)) => ScalarKind::Raised((&returns).try_into()?),
        Some(ScalarFunction::United { from, to }) => {
            let (from, to) = (Some(type_codec::encoded(&from)), Some(type_codec::encoded(&to)));
            ScalarKind::United(UnitedMessage { from, to })
        }
        Some(ScalarFunction::UnnamedField) => ScalarKind::UnnamedField(true),
    };
    buf.extend(ScalarMessage { kind: Some(kind) }.encode_to_vec());
    Ok(())
}

fn decoded_scalar(buf: &[u8]) -> Result<Arc<ScalarUDF>> {
    let Ok(ScalarMessage { kind: Some(kind) }) = ScalarMessage::decode(buf) else {
        return refused("a function cannot be read");
    };
    let ty = |message| type_codec::decoded(message).map_err(PlanError::into_engine);
    let described = match kind {
        ScalarKind::Engine(name) => {
            return match engine_functions::scalar(&name) {
                Some(function) => Ok(Arc::clone(function)),
                None => refused("a function is not known"),
            };
        }
        ScalarKind::Kernel(FormMessage { name, first, late }) => ScalarFunction::Kernel { name, safe: first, late },
        ScalarKind::Bounded(FormMessage { name, first, late }) => {
            ScalarFunction::Bounded { inner: name, strict: first, late }
        }
        ScalarKind::ArraySubquery(message) => {
            ScalarFunction::ArraySubquery(Box::new(array_subquery_codec::decoded(&message, &FunctionCodec)?))
        }
        ScalarKind::Counted(_) => ScalarFunction::Counted,
        ScalarKind::JsonText(message) => ScalarFunction::JsonText(ty(Some(&message))?),
        ScalarKind::PortableJsonText(message) => ScalarFunction::PortableJsonText(ty(Some(&message))?),
        ScalarKind::Nullable(_) => ScalarFunction::Nullable,
        ScalarKind::Only(_) => ScalarFunction::Only,
        ScalarKind::Raised(returns) => {
            literal_check::arrow_type(&returns)?;
            ScalarFunction::Raised(DataType::try_from(&returns)?)
        }
        ScalarKind::United(UnitedMessage { from, to }) => {
            ScalarFunction::United { from: ty(from.as_ref())?, to: ty(to.as_ref())? }
        }
        ScalarKind::UnnamedField(_) => ScalarFunction::UnnamedField,
    };
    described.make().map_or_else(|| refused("a function is not known"), Ok)
}

/// The forms of an aggregate whose rows come in its order, or do not, as the optimizer tells it.
fn ordered_form(function: Arc<AggregateUDF>, ordered: Option<bool>) -> Option<Arc<AggregateUDF>> {
    match ordered {
        None => Some(function),
        Some(ordered) => Arc::unwrap_or_clone(function).with_beneficial_ordering(ordered).ok().flatten().map(Arc::new),
    }
}

fn encode_aggregate(function: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
    let described = AggregateFunction::of(function);
    let is_listed = listed(&described);
    let form = [None, Some(true), Some(false)].into_iter().find(|ordered| {
        let again = described.make().and_then(|made| ordered_form(made, *ordered));
        again.is_some_and(|again| again.as_ref() == function)
    });
    let (true, Some(ordered)) = (is_listed, form) else {
        return unsendable(format!("the aggregate {} does not travel", function.name()));
    };
    buf.extend(AggregateMessage { ordered, ..encoded_aggregate(&described) }.encode_to_vec());
    Ok(())
}

/// Whether an aggregate may stand in a plan.
fn listed(function: &AggregateFunction) -> bool {
    match function {
        AggregateFunction::Engine(name) => engine_functions::aggregate(name).is_some(),
        AggregateFunction::Having { inner, .. }
        | AggregateFunction::Safe(inner)
        | AggregateFunction::Watched { inner, .. } => listed(inner),
        // It holds no more than there are, whatever the number.
        AggregateFunction::First { .. } => true,
        AggregateFunction::Top { number, .. } => *number <= MAX_KEPT_VALUES,
        AggregateFunction::Quantiles(parts) => *parts <= MAX_KEPT_VALUES,
        AggregateFunction::Percentile { part, .. } => (0.0..=1.0).contains(part),
        AggregateFunction::ExactPercentile { part, .. } => *part <= 10_u128.pow(38),
        AggregateFunction::Collect
        | AggregateFunction::CountDistinct
        | AggregateFunction::DecimalMoment(_)
        | AggregateFunction::DecimalSum { .. }
        | AggregateFunction::Floats(_)
        | AggregateFunction::IntervalSum { .. }
        | AggregateFunction::WholeSum => true,
    }
}

fn encoded_aggregate(function: &AggregateFunction) -> AggregateMessage {
    let kind = match function {
        AggregateFunction::Engine(name) => AggregateKind::Engine(name.clone()),
        AggregateFunction::Collect => AggregateKind::Collect(true),
        AggregateFunction::CountDistinct => AggregateKind::CountDistinct(true),
        AggregateFunction::DecimalMoment(which) => AggregateKind::DecimalMoment(which.name().to_owned()),
        AggregateFunction::DecimalSum { average } => AggregateKind::DecimalSum(*average),
        AggregateFunction::First { number, order, ignore_nulls } => AggregateKind::First(FirstMessage {
            number: *number as u64,
            order: order
                .iter()
                .map(|key| SortMessage { expr: Vec::new(), descending: key.descending, nulls_first: key.nulls_first })
                .collect(),
            ignore_nulls: *ignore_nulls,
        }),
        AggregateFunction::Floats(which) => AggregateKind::Floats(which.name().to_owned()),
        AggregateFunction::Having { inner, largest } => {
            AggregateKind::Having(WatchedMessage { inner: Some(Box::new(encoded_aggregate(inner))), whole: *largest })
        }
        AggregateFunction::IntervalSum { average } => AggregateKind::IntervalSum(*average),
        AggregateFunction::Percentile { part, continuous } => {
            AggregateKind::Percentile(PercentileMessage { part: *part, continuous: *continuous })
        }
        AggregateFunction::ExactPercentile { part, continuous } => {
            #[expect(clippy::cast_possible_truncation, reason = "these are its halves")]
            let (high, low) = ((part >> 64) as u64, *part as u64);
            AggregateKind::ExactPercentile(ExactPercentileMessage { high, low, continuous: *continuous })
        }
        AggregateFunction::Quantiles(parts) => AggregateKind::Quantiles(*parts as u64),
        AggregateFunction::Top { number, weighted } => {
            AggregateKind::Top(TopMessage { number: *number as u64, weighted: *weighted })
        }
        AggregateFunction::Safe(inner) => {
            AggregateKind::Safe(WatchedMessage { inner: Some(Box::new(encoded_aggregate(inner))), whole: false })
        }
        AggregateFunction::Watched { inner, whole } => {
            AggregateKind::Watched(WatchedMessage { inner: Some(Box::new(encoded_aggregate(inner))), whole: *whole })
        }
        AggregateFunction::WholeSum => AggregateKind::WholeSum(true),
    };
    AggregateMessage { kind: Some(kind), ordered: None }
}

fn decoded_aggregate(buf: &[u8]) -> Result<Arc<AggregateUDF>> {
    let Ok(message) = AggregateMessage::decode(buf) else { return refused("an aggregate cannot be read") };
    let described = described_aggregate(&message)?;
    if !listed(&described) {
        return refused("an aggregate is not known");
    }
    let made = described.make().and_then(|made| ordered_form(made, message.ordered));
    made.map_or_else(|| refused("an aggregate is not known"), Ok)
}

fn moment_of(name: &str) -> Option<FloatAggregate> {
    FloatAggregate::ALL.into_iter().find(|which| which.name() == name && which.is_moment())
}

fn described_aggregate(message: &AggregateMessage) -> Result<AggregateFunction> {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(match &message.kind {
        None => return refused("an aggregate cannot be read"),
        Some(AggregateKind::Engine(name)) => AggregateFunction::Engine(name.clone()),
        Some(AggregateKind::Collect(_)) => AggregateFunction::Collect,
        Some(AggregateKind::CountDistinct(_)) => AggregateFunction::CountDistinct,
        Some(AggregateKind::DecimalMoment(name)) => match moment_of(name) {
            Some(which) => AggregateFunction::DecimalMoment(which),
            None => return refused("an aggregate is not known"),
        },
        Some(AggregateKind::DecimalSum(average)) => AggregateFunction::DecimalSum { average: *average },
        Some(AggregateKind::First(first)) => AggregateFunction::First {
            number: count(first.number),
            order: first
                .order
                .iter()
                .map(|key| SortOptions { descending: key.descending, nulls_first: key.nulls_first })
                .collect(),
            ignore_nulls: first.ignore_nulls,
        },
        Some(AggregateKind::Floats(name)) => match FloatAggregate::ALL.into_iter().find(|which| which.name() == name) {
            Some(which) => AggregateFunction::Floats(which),
            None => return refused("an aggregate is not known"),
        },
        Some(AggregateKind::Having(having)) => {
            let Some(inner) = &having.inner else { return refused("an aggregate cannot be read") };
            AggregateFunction::Having { inner: Box::new(described_aggregate(inner)?), largest: having.whole }
        }
        Some(AggregateKind::IntervalSum(average)) => AggregateFunction::IntervalSum { average: *average },
        Some(AggregateKind::Percentile(of)) => {
            AggregateFunction::Percentile { part: of.part, continuous: of.continuous }
        }
        Some(AggregateKind::ExactPercentile(of)) => {
            let part = u128::from(of.high) << 64 | u128::from(of.low);
            AggregateFunction::ExactPercentile { part, continuous: of.continuous }
        }
        Some(AggregateKind::Quantiles(parts)) => AggregateFunction::Quantiles(count(*parts)),
        Some(AggregateKind::Top(top)) => AggregateFunction::Top { number: count(top.number), weighted: top.weighted },
        Some(AggregateKind::Safe(safe)) => {
            let Some(inner) = &safe.inner else { return refused("an aggregate cannot be read") };
            AggregateFunction::Safe(Box::new(described_aggregate(inner)?))
        }
        Some(AggregateKind::Watched(watched)) => {
            let Some(inner) = &watched.inner else { return refused("an aggregate cannot be read") };
            AggregateFunction::Watched { inner: Box::new(described_aggregate(inner)?), whole: watched.whole }
        }
        Some(AggregateKind::WholeSum(_)) => AggregateFunction::WholeSum,
    })
}
