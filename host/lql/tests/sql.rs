//! The statements that rules become: printed, and the same as what the parser makes of the print.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test stops where its premise does not hold")]

use sqlparser::dialect::BigQueryDialect;
use sqlparser::parser::Parser;
use tidegate_lql::{ErrorKind, FieldType, LqlError, Mode, Schema, Translation, parse, to_sql};

fn translate(lql: &str, columns: Option<&Schema>) -> Result<Translation, LqlError> {
    let query = parse(lql, Mode::Sandbox, None, &["hits".to_owned()])?;
    let table = query.from.clone().unwrap_or_default();
    to_sql(&query, &table, columns)
}

fn sql(lql: &str) -> String {
    let translation = translate(lql, None).unwrap_or_else(|error| panic!("{lql}: {error}"));
    let printed = translation.statement.to_string();
    let statements =
        Parser::parse_sql(&BigQueryDialect {}, &printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
    let wanted = sqlparser::ast::Statement::Query(Box::new(translation.statement));
    // `AND` is balanced in the tree, so only the print is the same for more than two.
    assert_eq!(statements.iter().map(ToString::to_string).collect::<Vec<_>>(), std::slice::from_ref(&printed));
    if lql.split(' ').count() <= 2 {
        assert_eq!(statements, [wanted], "{printed}");
    }
    printed
}

/// What stands behind `WHERE`.
fn condition(lql: &str) -> String {
    let sql = sql(lql);
    sql.split_once(" WHERE ").map(|(_, condition)| condition.to_owned()).unwrap_or(sql)
}

#[test]
fn conditions_on_columns() {
    for (lql, wanted) in [
        ("code:5", "lql_row.`code` = 5"),
        ("code:5.5", "lql_row.`code` = 5.5"),
        ("code:\"5\"", "lql_row.`code` = '5'"),
        ("code:\"-5\" x:>2", "lql_row.`code` = '-5' AND lql_row.`x` > 2"),
        ("code:true", "lql_row.`code` = true"),
        ("code:abc", "lql_row.`code` = 'abc'"),
        ("code:>=5", "lql_row.`code` >= 5"),
        ("code:<5", "lql_row.`code` < 5"),
        ("code:<=5", "lql_row.`code` <= 5"),
        ("-code:5", "(lql_row.`code` IS NULL OR NOT (lql_row.`code` = 5))"),
        ("code:1..5", "lql_row.`code` BETWEEN 1 AND 5"),
        ("-code:1..5", "(lql_row.`code` IS NULL OR NOT (lql_row.`code` BETWEEN 1 AND 5))"),
        ("code:NULL", "lql_row.`code` IS NULL"),
        ("-code:NULL", "lql_row.`code` IS NOT NULL"),
        ("code:~ab", "REGEXP_CONTAINS(lql_row.`code`, 'ab')"),
        ("~12", "REGEXP_CONTAINS(lql_row.`event_message`, '12')"),
        ("true", "STRPOS(lql_row.`event_message`, 'true') > 0"),
        ("-x", "(lql_row.`event_message` IS NULL OR NOT (STRPOS(lql_row.`event_message`, 'x') > 0))"),
        ("tags:@>x", "'x' IN UNNEST(lql_row.`tags`)"),
        // An element may be NULL, and then this is NULL too.
        ("-tags:@>x", "('x' IN UNNEST(lql_row.`tags`)) IS NOT TRUE"),
        ("-code:>NULL", "(lql_row.`code` > NULL) IS NOT TRUE"),
        ("tags:@>~x", "EXISTS (SELECT 1 FROM UNNEST(lql_row.`tags`) AS lql_item WHERE REGEXP_CONTAINS(lql_item, 'x'))"),
        ("t:>2031-02-03", "lql_row.`timestamp` > '2031-02-03'"),
        ("t:1000000000000456", "lql_row.`timestamp` = '2001-09-09T01:46:40.000456'"),
        ("t:2031-02-{03..05}", "lql_row.`timestamp` BETWEEN '2031-02-03' AND '2031-02-05'"),
    ] {
        assert_eq!(condition(lql), wanted, "{lql}");
    }
}

#[test]
fn conditions_on_nested_fields_ask_for_any_element() {
    for (lql, wanted) in [
        ("m.code:5", "EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`code` = 5)"),
        ("-m.code:5", "NOT EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`code` = 5)"),
        (
            "m.req.code:>5",
            "EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0, UNNEST(lql_0.`req`) AS lql_1 WHERE lql_1.`code` > 5)",
        ),
        (
            "m.code:NULL",
            "NOT EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`code` IS NOT NULL)",
        ),
        ("-m.code:NULL", "EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`code` IS NOT NULL)"),
        (
            "m.tags:@>~x",
            "EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0, UNNEST(lql_0.`tags`) AS lql_item WHERE REGEXP_CONTAINS(lql_item, 'x'))",
        ),
        (
            "-m.tags:@>x",
            "NOT EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE 'x' IN UNNEST(lql_0.`tags`))",
        ),
        (
            "metadata.level:error..critical",
            "EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`level` IN ('error', 'critical'))",
        ),
        (
            "-metadata.level:error..critical",
            "NOT EXISTS (SELECT 1 FROM UNNEST(lql_row.`metadata`) AS lql_0 WHERE lql_0.`level` IN ('error', 'critical'))",
        ),
    ] {
        assert_eq!(condition(lql), wanted, "{lql}");
    }
}

#[test]
fn columns_of_the_result() {
    for (lql, wanted) in [
        ("", "SELECT lql_row.`timestamp` AS `timestamp` FROM `hits` AS lql_row"),
        ("s:*", "SELECT lql_row.`timestamp` AS `timestamp` FROM `hits` AS lql_row"),
        ("s:a s:b@c", "SELECT lql_row.`a` AS `a`, lql_row.`b` AS `c` FROM `hits` AS lql_row"),
        (
            "a:1 a:2 b:3",
            "SELECT lql_row.`a` AS `a`, lql_row.`b` AS `b` FROM `hits` AS lql_row WHERE lql_row.`a` = 1 AND lql_row.`a` = 2 AND lql_row.`b` = 3",
        ),
        (
            "s:m.req.path s:m.req.host@h",
            "SELECT lql_join_1.`path` AS `metadata_req_path`, lql_join_1.`host` AS `h` FROM `hits` AS lql_row LEFT JOIN UNNEST(lql_row.`metadata`) AS lql_join_0 ON true LEFT JOIN UNNEST(lql_join_0.`req`) AS lql_join_1 ON true",
        ),
    ] {
        assert_eq!(sql(lql), wanted, "{lql}");
    }
    let columns = translate("s:m.code s:x@y", None).unwrap().columns;
    assert_eq!(columns, ["metadata_code", "y"]);
}

#[test]
fn charts() {
    let bucket = |unit: &str, value: &str| {
        format!(
            "SELECT TIMESTAMP_TRUNC(lql_row.`timestamp`, {unit}) AS `timestamp`, {value} AS `count` FROM `hits` AS lql_row GROUP BY 1 ORDER BY 1 ASC"
        )
    };
    for (lql, wanted) in [
        ("c:count(*)", bucket("MINUTE", "COUNT(lql_row.`timestamp`)")),
        ("c:avg(a) c:group_by(t::s)", bucket("SECOND", "AVG(lql_row.`a`)")),
        ("c:countd(a) s:b", bucket("MINUTE", "COUNT(DISTINCT lql_row.`a`)")),
        ("c:sum(a)", bucket("MINUTE", "SUM(lql_row.`a`)")),
        ("c:max(a)", bucket("MINUTE", "MAX(lql_row.`a`)")),
        ("c:p99(a) c:group_by(t::h)", bucket("HOUR", "APPROX_QUANTILES(lql_row.`a`, 100)[OFFSET(99)]")),
    ] {
        assert_eq!(sql(lql), wanted, "{lql}");
    }
    assert_eq!(
        sql("c:sum(m.bytes) c:group_by(t::d) x:1"),
        "SELECT TIMESTAMP_TRUNC(lql_row.`timestamp`, DAY) AS `timestamp`, SUM(lql_join_0.`bytes`) AS `count` FROM `hits` AS lql_row LEFT JOIN UNNEST(lql_row.`metadata`) AS lql_join_0 ON true WHERE lql_row.`x` = 1 GROUP BY 1 ORDER BY 1 ASC"
    );
}

#[test]
fn known_columns_decide_the_type_of_a_literal() {
    let mut columns = Schema::new();
    columns.insert("zip", FieldType::String);
    columns.insert("code", FieldType::Integer);
    columns.insert("timestamp", FieldType::Integer);
    columns.insert_list("tags", FieldType::String);
    columns.insert_list("sizes", FieldType::Integer);
    let condition = |lql: &str| {
        let sql = translate(lql, Some(&columns)).unwrap().statement.to_string();
        sql.split_once(" WHERE ").unwrap().1.to_owned()
    };
    assert_eq!(condition("zip:01234"), "lql_row.`zip` = '01234'");
    assert_eq!(condition("code:\"-7\""), "lql_row.`code` = -7");
    assert_eq!(condition("t:>1970-01-02"), "lql_row.`timestamp` > 86400000000");
    assert_eq!(condition("t:>0000000001"), "lql_row.`timestamp` > 1000000");
    for (lql, wanted) in [
        ("tags:7", "'7' IN UNNEST(lql_row.`tags`)"),
        ("-tags:7", "('7' IN UNNEST(lql_row.`tags`)) IS NOT TRUE"),
        ("-tags:>b", "NOT EXISTS (SELECT 1 FROM UNNEST(lql_row.`tags`) AS lql_item WHERE lql_item > 'b')"),
        ("tags:1..2", "EXISTS (SELECT 1 FROM UNNEST(lql_row.`tags`) AS lql_item WHERE lql_item BETWEEN 1 AND 2)"),
        ("sizes:@>7", "7 IN UNNEST(lql_row.`sizes`)"),
        ("sizes:@>big", "NULL IN UNNEST(lql_row.`sizes`)"),
        ("code:@>7", "lql_row.`code` = 7"),
        ("code:@>~7", "REGEXP_CONTAINS(lql_row.`code`, '7')"),
        ("ok:1 code:x", "lql_row.`ok` = 1 AND lql_row.`code` = 'x'"),
    ] {
        assert_eq!(condition(lql), wanted, "{lql}");
    }
    columns.insert("seen", FieldType::Datetime);
    let error = translate("ok:1 seen:x", Some(&columns)).unwrap_err();
    assert_eq!((error.kind, error.position.column), (ErrorKind::TypeDatetime, 6));
}

/// A table as a log source has it.
fn logs() -> Schema {
    let mut columns = Schema::new();
    for (path, kind) in [
        ("timestamp", "datetime"),
        ("event_message", "string"),
        ("metadata", "map"),
        ("metadata.items", "list:map"),
        ("metadata.items.sku", "string"),
        ("metadata.items.tags", "list:string"),
        ("metadata.sizes", "list:integer"),
    ] {
        assert!(columns.insert_named(path, kind));
    }
    columns.set_whole();
    columns
}

#[test]
fn a_list_of_records_multiplies_no_row() {
    let columns = logs();
    let sql = |lql: &str| translate(lql, Some(&columns)).unwrap().statement.to_string();
    let array = |select: &str| {
        format!(
            "SELECT ARRAY({select}) AS `x` FROM `hits` AS lql_row LEFT JOIN UNNEST(lql_row.`metadata`) AS lql_join_0 ON true"
        )
    };
    assert_eq!(sql("s:m.items.sku@x"), array("SELECT lql_0.`sku` FROM UNNEST(lql_join_0.`items`) AS lql_0"));
    assert_eq!(
        sql("s:m.items.tags@x"),
        array("SELECT lql_item FROM UNNEST(lql_join_0.`items`) AS lql_0, UNNEST(lql_0.`tags`) AS lql_item")
    );
    // An aggregate is over every element.
    assert!(sql("c:max(m.sizes)").contains("UNNEST(lql_join_0.`sizes`) AS lql_item ON true"));
    assert!(sql("c:count(m.sizes)").contains("COUNT(lql_join_0.`sizes`)"));
    for lql in ["m.items:x", "-m.items:@>x", "m.items:~x", "metadata:1"] {
        assert_eq!(translate(lql, Some(&columns)).unwrap_err().kind, ErrorKind::FieldNotFound, "{lql}");
    }
}

#[test]
fn columns_that_are_not_there_are_told_with_their_place() {
    let columns = logs();
    for (lql, column) in [("x s:nope", 3), ("nope:1", 1), ("x nope.x:1", 3), ("m.sizes.x:1", 1), ("x c:sum(nope)", 3)] {
        let error = translate(lql, Some(&columns)).err();
        assert!(error.as_ref().is_some_and(|e| e.kind == ErrorKind::FieldNotFound), "{lql}: {error:?}");
        assert_eq!(error.map(|e| e.position.column), Some(column), "{lql}");
    }
    // What no row ever had may still come.
    assert!(translate("m.nope:1 -m.no.pe:1 s:m.nope", Some(&columns)).is_ok());
}

#[test]
fn a_metadata_field_of_one_letter() {
    let columns = logs();
    let translation = translate("-m.x:NULL", Some(&columns)).unwrap();
    assert_eq!(translation.columns, ["metadata_x"]);
    assert!(translation.statement.to_string().contains("UNNEST(lql_row.`metadata`)"));
    assert_eq!(translate("-m.x:NULL", None).unwrap().columns, ["m_x"]);
    let query = parse("m.x:1 s:a c:max(m.yy)", Mode::Schemaless, None, &[]).unwrap();
    assert_eq!(query.paths().collect::<Vec<_>>(), ["m.x", "metadata.x", "a", "metadata.yy"]);
}

#[test]
fn a_text_stays_a_value() {
    use sqlparser::ast::{BinaryOperator, Expr, SetExpr, Value};
    for hostile in ["' OR 1=1 --", "\\' ; DROP TABLE x", "`; --", "\u{0}\n'''"] {
        let quoted = hostile.replace('\\', "\\\\").replace('"', "\\\"");
        let translation = translate(&format!("name:\"{quoted}\""), None).unwrap();
        let SetExpr::Select(select) = *translation.statement.body else { panic!("a select") };
        let Some(Expr::BinaryOp { op: BinaryOperator::Eq, right, .. }) = select.selection else {
            panic!("one comparison");
        };
        assert_eq!(*right, Expr::value(Value::SingleQuotedString(hostile.to_owned())));
    }
}

#[test]
fn paths_that_cannot_be_columns() {
    let deep = vec!["a"; 33].join(".");
    for lql in ["a..b:1", ".a:1", "s:a.", &format!("{deep}:1"), &format!("c:sum({deep})")] {
        assert_eq!(translate(lql, None).unwrap_err().kind, ErrorKind::InvalidPath, "{lql}");
    }
    let many: Vec<_> = (0..100).map(|i| format!("s:a{i}.b.c.d")).collect();
    assert_eq!(translate(&many.join(" "), None).unwrap_err().kind, ErrorKind::InvalidPath);
    for lql in ["s:a.b s:a_b", "s:x@y s:Y"] {
        assert_eq!(translate(lql, None).unwrap_err().kind, ErrorKind::DuplicateColumn, "{lql}");
    }
}
