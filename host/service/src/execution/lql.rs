//! Ad-hoc queries in LQL: the text becomes a statement over one granted table, with what its
//! columns are.

use chrono::DateTime;
use sqlparser::ast::Query;
use tidegate_lql::{ErrorKind, FieldType, LqlError, Mode, Schema, all_columns, parse_at, quoted, steps, to_sql};
use tidegate_model::{Code, Failure, Position};
use tidegate_sql::{Field, Plan, Type};

/// A query in LQL over one of `tables` as a statement. `plan` is asked for the columns of the chosen
/// table: what a value means depends on the column that it is compared with. Relative times count from
/// `now`, in microseconds.
pub(super) fn translate(
    lql: &str,
    tables: &[String],
    now: i64,
    plan: impl Fn(&Query) -> Result<Plan, Failure>,
) -> Result<Query, Failure> {
    let now = DateTime::from_timestamp_micros(now).unwrap_or_default().naive_utc();
    let query = parse_at(lql, Mode::Sandbox, None, tables, now).map_err(refused)?;
    let table = query.from.as_ref().or(tables.first());
    let table = table.ok_or_else(|| Failure::new(Code::UnknownTable, "the endpoint grants no tables to query"))?;
    let columns = known_columns(&query, plan(&all_columns(table))?.columns());
    Ok(to_sql(&query, table, Some(&columns)).map_err(refused)?.statement)
}

fn refused(error: LqlError) -> Failure {
    let code = match error.kind {
        ErrorKind::UnknownCte | ErrorKind::FromRequired | ErrorKind::NoCte => Code::UnknownTable,
        ErrorKind::FieldNotFound => Code::UnknownColumn,
        ErrorKind::DuplicateColumn | ErrorKind::InvalidPath => Code::InvalidQuery,
        ErrorKind::TypeDatetime => Code::InvalidValue,
        _ => Code::Syntax,
    };
    let at = Position { line: error.position.line as u64, column: error.position.column as u64 };
    Failure::new(code, error.message).at(Some(at))
}

/// The table's columns, and of the fields within them those that the query names: a record of logs
/// may have thousands.
fn known_columns(query: &tidegate_lql::Query, columns: &[(String, Type)]) -> Schema {
    let mut known = Schema::new();
    for (name, ty) in columns {
        insert(&mut known, &quoted(name), ty);
    }
    for path in query.paths() {
        let mut names = steps(&path);
        let (first, mut above) = names.next().unwrap_or_default();
        let mut ty = by_name(columns.iter().map(|(name, ty)| (name, ty)), first);
        for (name, so_far) in names {
            let Some(fields) = ty.and_then(fields_of) else { break };
            ty = by_name(fields.iter().map(|field| (&field.name, &field.ty)), name);
            match ty {
                Some(ty) => insert(&mut known, so_far, ty),
                // Of a name with dots, the path may have been written without backticks.
                None => {
                    let rest = path.get(above.len() + 1..).unwrap_or_default();
                    let is_rest = |field: &&Field| field.name.contains('.') && field.name.eq_ignore_ascii_case(rest);
                    if let Some(field) = fields.iter().find(is_rest) {
                        insert(&mut known, &format!("{above}.{}", quoted(&field.name)), &field.ty);
                    }
                }
            }
            above = so_far;
        }
    }
    known.set_whole();
    known
}

/// A column or field by name as SQL finds it: exactly, else without case.
fn by_name<'t>(named: impl Iterator<Item = (&'t String, &'t Type)> + Clone, wanted: &str) -> Option<&'t Type> {
    let mut exact = named.clone().filter(|(name, _)| *name == wanted);
    let mut any_case = named.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
    exact.next().or_else(|| any_case.next()).map(|(_, ty)| ty)
}

/// The fields of the records that a column holds.
fn fields_of(ty: &Type) -> Option<&[Field]> {
    match ty {
        Type::Record(fields) => Some(fields),
        Type::Array(item) => match item.as_ref() {
            Type::Struct { fields, .. } => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

fn insert(known: &mut Schema, path: &str, ty: &Type) {
    match ty {
        Type::Array(item) => known.insert_list(path, field_type(item)),
        // Of a field that no record ever had, nothing is known.
        Type::Null if steps(path).nth(1).is_some() => {}
        ty => known.insert(path, field_type(ty)),
    }
}

fn field_type(ty: &Type) -> FieldType {
    match ty {
        Type::Bool => FieldType::Boolean,
        Type::Int64 => FieldType::Integer,
        Type::Float64 | Type::Numeric | Type::BigNumeric => FieldType::Float,
        Type::String => FieldType::String,
        Type::Timestamp | Type::Datetime => FieldType::Datetime,
        Type::Record(_) | Type::Struct { .. } => FieldType::Record,
        Type::Null
        | Type::Bytes
        | Type::Date
        | Type::Time
        | Type::Interval
        | Type::Range(_)
        | Type::Json
        | Type::Array(_) => FieldType::Other,
    }
}
