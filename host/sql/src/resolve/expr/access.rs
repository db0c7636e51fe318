//! Parts of values: fields, paths, subscripts, and rows as structs.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    AccessExpr, Expr as Ast, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, Subscript,
};
use tidegate_functions::context::planning;
use tidegate_model::{Code, Failure, Position, nearest};

use super::overflow;
use crate::fail::{Planning, Result, fail, invalid, place, place_of, unsupported};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Found, Scope, ScopeColumn, column};
use crate::text::written;
use crate::typed::Typed;
use crate::types::{Field, Type};
use crate::typing::{Conversion, folded, kernel, stored_field};

/// How many parts of an expression are copied for nothing.
const FEW_PARTS: usize = 8;

/// How many parts an expression has.
fn size(expr: &Expr) -> usize {
    let mut parts = 0;
    // The closure never fails, so neither does the walk.
    let _ = expr.apply(|_| {
        parts += 1;
        Ok(TreeNodeRecursion::Continue)
    });
    parts
}

/// The part of a JSON value at a step of a path, as JSON.
fn json_step(value: &Typed, step: String) -> Typed {
    Typed::new(kernel("json_query", true, vec![value.expr.clone(), Typed::text(step).expr]), Type::Json)
}

/// The part of a JSON value under a name or at a place that is computed, as JSON.
fn json_part(kernel_name: &'static str, value: Typed, part: Typed) -> Typed {
    folded(Typed::new(kernel(kernel_name, true, vec![value.expr, part.expr]), Type::Json))
}

/// A table's row as a struct of its columns.
fn row(columns: &[ScopeColumn]) -> Typed {
    let shown: Vec<&ScopeColumn> = columns.iter().filter(|column| !column.hidden).collect();
    let arguments = shown.iter().flat_map(|column| [lit(column.name.as_str()), column.value.expr.clone()]).collect();
    let fields: Arc<[Field]> =
        shown.iter().map(|column| Field { name: column.name.clone(), ty: column.value.ty.clone() }).collect();
    Typed::new(core::named_struct(arguments), Type::Struct { fields, open: false })
}

impl Resolver<'_> {
    /// `value.name`.
    pub(super) fn field(&mut self, value: &Typed, name: &Ident) -> Result<Typed> {
        let at = place_of(name.span);
        match &value.ty {
            Type::Null => Ok(Typed::null()),
            Type::Struct { fields, open } => match Type::field(fields, &name.value) {
                Some((_, field)) => Ok(stored_field(value, &field)),
                None if *open => Ok(match overflow::field_of_rest(&value.expr, fields, &name.value) {
                    Some(kept) => kept,
                    None => {
                        let shown = fields.iter().filter(|field| !field.is_hidden());
                        self.remarks.absent(name, shown.map(|field| field.name.as_str()));
                        Typed::null()
                    }
                }),
                None => {
                    let mut message = format!("there is no field {} in the STRUCT", name.value);
                    if let Some(near) = nearest(&name.value, fields.iter().map(|field| field.name.as_str())) {
                        message.push_str(&format!("; did you mean {near}?"));
                    }
                    Err(fail(Code::UnknownColumn, message, at).about(&name.value))
                }
            },
            ty @ (Type::Record(_) | Type::Array(_)) => Err(fail(
                Code::UnknownColumn,
                format!(
                    "cannot read the field {} of a value of type {ty}; unnest it first, e.g. CROSS JOIN UNNEST(...) AS x, and write x.{}",
                    name.value,
                    written(&name.value)
                ),
                at,
            )
            .about(&name.value)),
            Type::Json if !name.value.contains('"') => Ok(json_step(value, format!("$.\"{}\"", name.value))),
            Type::String if self.is_path(value) => Ok(overflow::field_of_text(value.expr.clone(), &name.value)),
            ty => Err(fail(Code::UnknownColumn, format!("a value of type {ty} has no field {}", name.value), at)
                .about(&name.value)),
        }
    }

    /// `a.b.c`.
    pub(super) fn path(&mut self, parts: &[Ident], scope: &Scope<'_>) -> Result<Typed> {
        let Some((first, mut rest)) = parts.split_first() else {
            return Err(invalid("an empty name", None));
        };
        let found = overflow::found_in(scope, &first.value, scope.find(first, rest.is_empty())?);
        let mut value = match found {
            Found::Value(value) => {
                // What a name stands for is copied, and may name others of its kind.
                let size = if matches!(value.expr, Expr::Column(_)) { 1 } else { size(&value.expr) };
                if size > FEW_PARTS {
                    planning::charge(planning::EXPRESSION.saturating_mul(size / FEW_PARTS));
                    planning::check()?;
                }
                value
            }
            Found::Absent => {
                self.remarks.absent_alone(first, scope);
                Typed::null()
            }
            Found::Row(columns, open) => match rest.split_first() {
                None => row(&columns),
                Some((second, after)) => {
                    rest = after;
                    match column(&columns, &second.value) {
                        Some(column) => column.value.clone(),
                        None if open && let Some(kept) = overflow::field_of_event(&columns, &second.value) => kept,
                        None if open => {
                            let shown = columns.iter().filter(|column| !column.hidden);
                            self.remarks.absent(second, shown.map(|column| column.name.as_str()));
                            Typed::null()
                        }
                        None => {
                            let names = columns.iter().filter(|c| !c.hidden).map(|c| c.name.as_str());
                            let mut message = format!("the table {} has no column {}", first.value, second.value);
                            match nearest(&second.value, names.clone()) {
                                Some(near) => message.push_str(&format!("; did you mean {near}?")),
                                None => message
                                    .push_str(&format!("; it has {}", names.take(20).collect::<Vec<_>>().join(", "))),
                            }
                            return Err(fail(Code::UnknownColumn, message, place_of(second.span)).about(&second.value));
                        }
                    }
                }
            },
        };
        for part in rest {
            value = self.field(&value, part)?;
        }
        Ok(value)
    }

    /// `root[..].x[..]`.
    pub(super) fn chain(&mut self, root: &Ast, chain: &[AccessExpr], cx: &mut Context<'_, '_>) -> Result<Typed> {
        // The parser puts the identifiers after a first subscript into the chain, but `t.a[0]`
        // may come as root `t` and chain `.a[0]`: leading names belong to the path.
        let mut names: Vec<Ident> = match root {
            Ast::Identifier(name) => vec![name.clone()],
            Ast::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        };
        let mut rest = chain;
        let mut value = if names.is_empty() {
            self.expr(root, cx)?
        } else {
            while let Some((AccessExpr::Dot(Ast::Identifier(name)), after)) = rest.split_first() {
                names.push(name.clone());
                rest = after;
            }
            if names.len() == 1 {
                self.expr(&Ast::Identifier(names.swap_remove(0)), cx)?
            } else {
                self.path(&names, cx.scope)?
            }
        };
        for access in rest {
            value = match access {
                AccessExpr::Dot(Ast::Identifier(name)) => self.field(&value, name)?,
                AccessExpr::Dot(other) => {
                    return Err(invalid("only a field name can follow a dot here", place(other)));
                }
                AccessExpr::Subscript(Subscript::Index { index }) => self.subscript(value, index, cx)?,
                AccessExpr::Subscript(Subscript::Slice { .. }) => {
                    let instead = Some("write ARRAY_SLICE(list, 0, 2)");
                    return Err(unsupported("slicing an array with [a:b]", instead, place(root)));
                }
            };
        }
        Ok(value)
    }

    /// `value[index]`, where the index may be OFFSET(n) or ORDINAL(n) or a SAFE_ form of them. An index out of range gives
    /// NULL in all forms, because lists in log records have different lengths.
    fn subscript(&mut self, value: Typed, index: &Ast, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = place(index);
        let (from_one, index) = match index {
            Ast::Function(call) => match (call.name.to_string().to_uppercase().as_str(), &call.args) {
                ("OFFSET" | "SAFE_OFFSET", FunctionArguments::List(list)) => (false, single(list, at)?),
                ("ORDINAL" | "SAFE_ORDINAL", FunctionArguments::List(list)) => (true, single(list, at)?),
                _ => (false, index),
            },
            _ => (false, index),
        };
        let index = self.expr(index, cx)?;
        if let (Type::Struct { .. } | Type::Record(_) | Type::Null, Type::String) = (&value.ty, &index.ty)
            && let Some(name) = index.literal_text()
            && !matches!(value.ty, Type::Record(_))
        {
            return self.field(&value, &Ident::new(name));
        }
        if value.ty == Type::Json {
            return match (index.literal_text(), index.literal(), &index.ty) {
                (Some(name), ..) if !name.contains('"') => self.field(&value, &Ident::new(name)),
                (_, Some(ScalarValue::Int64(Some(n))), _) if *n >= 0 => Ok(json_step(&value, format!("$[{n}]"))),
                (_, _, Type::String) => Ok(json_part("json_member", value, index)),
                (_, _, Type::Int64 | Type::Null) => {
                    let index = index.convert(&Type::Int64, Conversion::implicit(at))?;
                    Ok(json_part("json_element", value, index))
                }
                (_, _, ty) => {
                    Err(invalid(format!("a subscript of JSON is an INT64 or a STRING, not of type {ty}"), at))
                }
            };
        }
        let constant = match index.literal() {
            Some(ScalarValue::Int64(Some(n))) => Some(if from_one { n.saturating_sub(1) } else { *n }),
            _ => None,
        };
        let position = index.convert(&Type::Int64, Conversion::implicit(at))?;
        match &value.ty {
            Type::Null => Ok(Typed::null()),
            Type::Record(fields) => {
                let element = Type::Struct { fields: Arc::clone(fields), open: true };
                match constant {
                    Some(0) => Ok(Typed::new(value.expr, element)),
                    Some(_) => Ok(Typed::null()),
                    None => {
                        let first = position.expr.eq(lit(i64::from(from_one)));
                        let expr = when(first, value.expr).end().planned()?;
                        Ok(Typed::new(expr, element))
                    }
                }
            }
            Type::Array(item) => {
                let ordinal = match constant {
                    Some(n) => match n.checked_add(1).filter(|ordinal| *ordinal > 0) {
                        Some(ordinal) => lit(ordinal),
                        None => return Ok(Typed::new(Expr::Literal(ScalarValue::Null, None), (**item).clone())),
                    },
                    None if from_one => position.expr,
                    None => position.expr + lit(1_i64),
                };
                Ok(Typed::new(nested::array_element(value.expr, ordinal), (**item).clone()))
            }
            // A row is a struct of its columns; a subscript reads it by position.
            Type::Struct { fields, .. } => {
                let field = constant.and_then(|n| usize::try_from(n).ok()).and_then(|n| fields.get(n));
                match field {
                    Some(field) => Ok(stored_field(&value, field)),
                    None => Err(invalid(format!("the row has {} columns, counted from 0", fields.len()), at)),
                }
            }
            ty => Err(no_subscript(ty, at)),
        }
    }
}

fn single(list: &FunctionArgumentList, at: Option<Position>) -> Result<&Ast> {
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(index))] => Ok(index),
        _ => Err(invalid("an array subscript takes one number", at)),
    }
}

fn no_subscript(ty: &Type, at: Option<Position>) -> Failure {
    invalid(format!("a value of type {ty} cannot be subscripted; only arrays can"), at)
}
