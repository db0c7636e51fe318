//! Whether a stage can be sent, and is the same plan where it is received.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::leaf_rows;
use crate::batch_bytes::is_sendable;
use crate::decoder::decode;
use crate::encoder::encode_pending;
use crate::held_segments::held_segments;
use crate::local_leaves::LocalLeaves;

/// Encodes a stage, decodes it, and has the engine check it. What the stage below has in common (an order, columns that are
/// equal or constant) is not in the messages.
///
/// # Errors
/// Why it stays.
pub(super) fn checked(stage: &Arc<dyn ExecutionPlan>, context: &TaskContext) -> std::result::Result<(), String> {
    if let Some(field) = stage.schema().fields().iter().find(|field| !is_sendable(field)) {
        return Err(format!("rows with a {} are not sent", field.data_type()));
    }
    let mut leaves = LocalLeaves::default();
    let encoded = encode_pending(stage, context.session_config().options(), &mut leaves);
    let encoded = encoded.map_err(|error| error.to_string())?;
    let leaves = leaf_rows::without_rows(&leaves).map_err(|error| error.strip_backtrace())?;
    let decoded = decode(&encoded.bytes, &held_segments(stage), context, &leaves).map_err(|error| error.to_string())?;
    is_sane(decoded, context).map_err(|error| error.strip_backtrace())
}

/// What the engine checks of each plan at last: that every operator has the order and the partitions that it needs.
///
/// # Errors
/// What is missing.
pub(super) fn is_sane(plan: Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<()> {
    SanityCheckPlan::new().optimize(plan, context.session_config().options()).map(|_| ())
}
