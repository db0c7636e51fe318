//! Constructors of nodes of the SQL syntax tree. Everything that a caller wrote enters the tree here, as a quoted
//! identifier or a literal value, and never as text to be parsed.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    AccessExpr, BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByExpr,
    OrderByKind, OrderByOptions, Query, Select, SelectFlavor, SelectItem, SetExpr, Subscript, TableAlias, TableFactor,
    TableWithJoins, UnaryOperator, Value,
};

pub(crate) fn name(text: &str) -> Ident {
    Ident::with_quote('`', text)
}

pub(crate) fn text(value: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(value.into()))
}

pub(crate) fn boolean(value: bool) -> Expr {
    Expr::value(Value::Boolean(value))
}

pub(crate) fn integer(value: i64) -> Expr {
    signed(value < 0, value.unsigned_abs().to_string())
}

pub(crate) fn float(value: f64) -> Expr {
    signed(value.is_sign_negative(), format!("{:?}", value.abs()))
}

pub(crate) fn null() -> Expr {
    Expr::value(Value::Null)
}

fn signed(negative: bool, digits: String) -> Expr {
    let number = Expr::value(Value::Number(digits, false));
    if negative { Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) } } else { number }
}

/// A column of a table or element alias.
pub(crate) fn member(alias: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::new(alias), name(column)])
}

/// An unquoted word: a keyword such as `MINUTE`, or an alias of this crate.
pub(crate) fn word(text: &str) -> Expr {
    Expr::Identifier(Ident::new(text))
}

pub(crate) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(crate) fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
}

/// The conjunction of all, as a balanced tree, so that a hundred conditions are seven levels deep.
pub(crate) fn all(mut conditions: Vec<Expr>) -> Option<Expr> {
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut left = conditions.into_iter();
        while let Some(first) = left.next() {
            pairs.push(match left.next() {
                Some(second) => binary(first, BinaryOperator::And, second),
                None => first,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

pub(crate) fn call(function: &str, args: Vec<Expr>) -> Expr {
    call_with(function, None, args)
}

pub(crate) fn call_distinct(function: &str, arg: Expr) -> Expr {
    call_with(function, Some(DuplicateTreatment::Distinct), vec![arg])
}

fn call_with(function: &str, duplicates: Option<DuplicateTreatment>, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)));
    let list = FunctionArgumentList { duplicate_treatment: duplicates, args: args.collect(), clauses: Vec::new() };
    function_of(function, FunctionArguments::List(list))
}

/// `ARRAY(query)`
pub(crate) fn array(query: Query) -> Expr {
    function_of("ARRAY", FunctionArguments::Subquery(Box::new(query)))
}

fn function_of(function: &str, args: FunctionArguments) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(Ident::new(function)),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `root[index]`
pub(crate) fn subscript(root: Expr, index: Expr) -> Expr {
    Expr::CompoundFieldAccess {
        root: Box::new(root),
        access_chain: vec![AccessExpr::Subscript(Subscript::Index { index })],
    }
}

pub(crate) fn column(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: name(alias) }
}

fn alias(text: &str) -> Option<TableAlias> {
    Some(TableAlias { explicit: true, name: Ident::new(text), columns: Vec::new(), at: None })
}

pub(crate) fn table(table: &str, as_name: &str) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(name(table)),
        alias: alias(as_name),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

pub(crate) fn unnest(array: Expr, as_name: &str) -> TableFactor {
    TableFactor::UNNEST {
        alias: alias(as_name),
        array_exprs: vec![array],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    }
}

/// `LEFT JOIN relation ON TRUE`
pub(crate) fn left_join(relation: TableFactor) -> Join {
    Join { relation, global: false, join_operator: JoinOperator::Left(JoinConstraint::On(boolean(true))) }
}

pub(crate) fn relation(relation: TableFactor, joins: Vec<Join>) -> TableWithJoins {
    TableWithJoins { relation, joins }
}

pub(crate) fn select(projection: Vec<SelectItem>, from: Vec<TableWithJoins>, selection: Option<Expr>) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

pub(crate) fn query(select: Select) -> Query {
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// The same select, grouped and ordered by its first column.
pub(crate) fn grouped(mut select: Select) -> Query {
    select.group_by = GroupByExpr::Expressions(vec![integer(1)], Vec::new());
    let order = OrderByExpr {
        expr: integer(1),
        options: OrderByOptions { asc: Some(true), nulls_first: None },
        with_fill: None,
    };
    let mut query = query(select);
    query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(vec![order]), interpolate: None });
    query
}
