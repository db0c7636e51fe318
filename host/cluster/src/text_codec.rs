//! Conditions on texts as messages.

use tidegate_model::TextCondition;

use crate::error::PlanError;
use crate::message::{ContainsMessage, TextKind, TextMessage, TextsMessage};

/// A condition as a message.
pub(crate) fn encoded(condition: &TextCondition) -> TextMessage {
    let all = |conditions: &[TextCondition]| TextsMessage { conditions: conditions.iter().map(encoded).collect() };
    let kind = match condition {
        TextCondition::All(conditions) => TextKind::All(all(conditions)),
        TextCondition::Any(conditions) => TextKind::Any(all(conditions)),
        TextCondition::Contains { column, part } => {
            TextKind::Contains(ContainsMessage { column: column.clone(), part: part.clone() })
        }
    };
    TextMessage { kind: Some(kind) }
}

/// A condition from a message. Its depth is bounded by that of messages.
///
/// # Errors
/// If it is empty.
pub(crate) fn decoded(message: &TextMessage) -> Result<TextCondition, PlanError> {
    let all = |texts: &TextsMessage| texts.conditions.iter().map(decoded).collect::<Result<Vec<_>, _>>();
    Ok(match &message.kind {
        Some(TextKind::All(texts)) => TextCondition::All(all(texts)?),
        Some(TextKind::Any(texts)) => TextCondition::Any(all(texts)?),
        Some(TextKind::Contains(ContainsMessage { column, part })) => {
            TextCondition::Contains { column: column.clone(), part: part.clone() }
        }
        None => return Err(PlanError::Refused("a condition on texts is empty".to_owned())),
    })
}
