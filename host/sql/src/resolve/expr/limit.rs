//! LIMIT and OFFSET.

use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Expr as Ast, LimitClause};
use tidegate_model::Code;

use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::piece_names::PieceNames;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::types::Type;
use crate::typing::Conversion;

/// LIMIT and OFFSET, as numbers of rows.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::resolve) struct Limit {
    pub(in crate::resolve) rows: Option<usize>,
    pub(in crate::resolve) skip: usize,
}

impl Limit {
    /// The plan with no more rows than the limit.
    ///
    /// # Errors
    /// If the engine does not take it, which is a bug.
    pub(in crate::resolve) fn applied_to(self, builder: LogicalPlanBuilder) -> Result<LogicalPlan> {
        let builder =
            if self.rows.is_some() || self.skip > 0 { builder.limit(self.skip, self.rows).planned()? } else { builder };
        builder.build().planned()
    }
}

impl Resolver<'_> {
    /// LIMIT and OFFSET take constants: numbers or parameters.
    pub(in crate::resolve) fn limit(
        &mut self,
        clause: Option<&LimitClause>,
        environment: &Environment<'_>,
    ) -> Result<Limit> {
        let (limit, offset) = match clause {
            None => return Ok(Limit::default()),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                return Err(unsupported("LIMIT offset, count", Some("write LIMIT count OFFSET offset"), None));
            }
            Some(LimitClause::LimitOffset { .. }) => return Err(unsupported("LIMIT BY", None, None)),
        };
        let scope = Scope::default();
        let mut count = |ast: &Ast, clause: Clause| -> Result<Option<usize>> {
            let at = place(ast);
            let value = self.expr(ast, &mut Context::new(&scope, environment, clause))?;
            if value.ty == Type::Null {
                // A parameter that was not sent limits nothing.
                return match PieceNames::within(ast).parameters.is_empty() {
                    true => Err(invalid(format!("{clause} must be a number, not NULL"), at)),
                    false => Ok(None),
                };
            }
            match value.convert(&Type::Int64, Conversion::implicit(at))?.literal() {
                Some(ScalarValue::Int64(Some(count))) => usize::try_from(*count)
                    .map(Some)
                    .map_err(|_| fail(Code::InvalidQuery, format!("{clause} must not be negative"), at)),
                _ => Err(invalid(format!("{clause} must be a number"), at)),
            }
        };
        Ok(Limit {
            rows: limit.map(|limit| count(limit, Clause::Limit)).transpose()?.flatten(),
            skip: offset.map(|offset| count(offset, Clause::Offset)).transpose()?.flatten().unwrap_or(0),
        })
    }
}
