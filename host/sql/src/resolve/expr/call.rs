//! Function calls: which kind a call is of, and the functions that do not compute all of their arguments.

use sqlparser::ast::{Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments};
use tidegate_model::{Code, Position};

use super::literal::date_part;
use super::{aggregate, plain_argument, window};
use crate::fail::{Result, invalid, place_of, unsupported};
use crate::library::{self, Argument};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::text::{FORMATTED, WITH, marker_name};
use crate::typed::Typed;

impl Resolver<'_> {
    /// A function call, an aggregate, or one of the forms whose arguments are conditional.
    pub(super) fn call(&mut self, call: &Function, at: Option<Position>, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let marker = call.name.0.as_slice().first().and_then(|part| part.as_ident()).and_then(marker_name);
        let name = marker.map_or_else(|| call.name.to_string().replace('`', ""), str::to_owned).to_uppercase();
        let (safe, bare) = match name.strip_prefix("SAFE.") {
            Some(bare) => (true, bare.to_owned()),
            None => (false, name.clone()),
        };
        if let Some(over) = &call.over {
            return self.window(&bare, call, (over, safe), at, cx);
        }
        if window::find(&bare).is_some() {
            let message =
                format!("{bare} is a window function; write {bare}(...) OVER (PARTITION BY ... ORDER BY ...)");
            return Err(invalid(message, at));
        }
        if let Some(function) = aggregate::find(&bare) {
            return self.aggregate(function, call, safe, at, cx);
        }
        let list = match &call.args {
            FunctionArguments::None => &[][..],
            FunctionArguments::List(list) => {
                if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                    return Err(invalid(
                        format!("{bare} is no aggregate function; it takes no DISTINCT or ORDER BY"),
                        at,
                    ));
                }
                list.args.as_slice()
            }
            FunctionArguments::Subquery(query) if bare == "ARRAY" => return self.array_of(query, cx),
            FunctionArguments::Subquery(_) => {
                return Err(unsupported(format!("a subquery as the argument of {bare}"), None, at));
            }
        };
        match marker {
            Some(WITH) => return self.with_expression(list, at, cx),
            Some(FORMATTED) => return self.formatted_cast(list, at, cx),
            _ => {}
        }
        let is_star = |argument: &FunctionArg| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
        if list.iter().any(is_star)
            && let Err(failure) = self.build(&bare, Vec::new(), at, cx)
            && failure.code == Code::UnknownFunction
        {
            return Err(failure);
        }
        if bare == "UNNEST" {
            let message = "UNNEST stands in FROM, such as FROM t CROSS JOIN UNNEST(t.list) AS item, or behind IN";
            return Err(invalid(message, at));
        }
        let (placed, named_last) = placed(&bare, list)?;
        let asts: Vec<&Ast> = placed.iter().copied().flatten().collect();
        match (bare.as_str(), asts.as_slice()) {
            ("IF", [condition, then, otherwise]) => self.if_then(condition, then, otherwise, at, cx),
            ("COALESCE" | "IFNULL", [first, rest @ ..]) if bare == "COALESCE" || rest.len() == 1 => {
                self.coalesce(first, rest, at, cx)
            }
            _ => {
                // A text that begins with a digit is a date and not a part of one.
                let quoted = match asts.first() {
                    Some(Ast::Value(value)) => !value
                        .value
                        .clone()
                        .into_string()
                        .is_some_and(|s| s.trim().starts_with(|c: char| c.is_ascii_digit())),
                    _ => false,
                };
                let part_at = library::part_argument(&bare, quoted);
                let mut arguments = Vec::with_capacity(asts.len());
                for (i, ast) in placed.iter().enumerate() {
                    let Some(ast) = ast else {
                        arguments.push(Argument::Absent);
                        continue;
                    };
                    let part = (part_at == Some(i)).then(|| date_part(ast)).flatten();
                    // An interval is no value of its own here: it may be too long for the function.
                    let before = cx.guarded;
                    cx.guarded |= safe && matches!(ast, Ast::Interval(_));
                    let argument = match part {
                        Some(part) => Ok(Argument::Part(part)),
                        None => self.expr(ast, cx).map(Argument::Value),
                    };
                    cx.guarded = before;
                    arguments.push(argument?);
                }
                // What fails in an argument fails: only what the function itself cannot do is NULL.
                let before = cx.guarded;
                cx.guarded |= safe;
                let result = self.build_named(&bare, arguments, named_last, at, cx);
                cx.guarded = before;
                result
            }
        }
    }
}

/// The arguments of a function in their places, and whether the last one is written with its name.
fn placed<'a>(function: &str, list: &'a [FunctionArg]) -> Result<(Vec<Option<&'a Ast>>, bool)> {
    let known = library::named_arguments(function);
    let mut placed: Vec<Option<&Ast>> = Vec::new();
    let mut named_last = false;
    for argument in list {
        let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(ast), .. } = argument else {
            if named_last {
                let message = format!("arguments with a name stand behind the others of {function}");
                return Err(invalid(message, None));
            }
            placed.push(Some(plain_argument(argument)?));
            continue;
        };
        let at = place_of(name.span);
        let Some((_, place)) = known.iter().find(|(known, _)| name.value.eq_ignore_ascii_case(known)) else {
            if known.is_empty() {
                return plain_argument(argument).map(|_| (Vec::new(), false));
            }
            let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            return Err(invalid(format!("{function} has no argument {name}; those with a name are {names}"), at));
        };
        let place = place.unwrap_or(placed.len());
        placed.resize(placed.len().max(place + 1), None);
        match placed.get_mut(place) {
            Some(free @ None) => *free = Some(ast),
            _ => return Err(invalid(format!("the argument {name} of {function} is given twice"), at)),
        }
        named_last = true;
    }
    Ok((placed, named_last))
}
