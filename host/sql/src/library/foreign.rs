//! Functions of other dialects that people type, each with what to write instead.

/// The name in capitals, and the BigQuery spelling.
const SPELLINGS: &[(&str, &str)] = &[
    // Postgres.
    ("TO_CHAR", "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%S', timestamp)"),
    ("TO_DATE", "PARSE_DATE('%Y-%m-%d', text)"),
    ("TO_NUMBER", "CAST(text AS FLOAT64)"),
    ("AGE", "TIMESTAMP_DIFF(later, earlier, SECOND)"),
    ("CLOCK_TIMESTAMP", "CURRENT_TIMESTAMP()"),
    ("LOCALTIMESTAMP", "CURRENT_DATETIME()"),
    ("GEN_RANDOM_UUID", "GENERATE_UUID()"),
    ("GENERATE_SERIES", "UNNEST(GENERATE_ARRAY(1, 10)) AS n"),
    ("SPLIT_PART", "SPLIT(text, ',')[SAFE_OFFSET(0)]"),
    ("STRING_TO_ARRAY", "SPLIT(text, ',')"),
    ("REGEXP_SPLIT_TO_ARRAY", "SPLIT(text, ',')"),
    ("BTRIM", "TRIM(text)"),
    ("POSITION", "STRPOS(text, part)"),
    ("CONCAT_WS", "ARRAY_TO_STRING([a, b], ',')"),
    ("REGEXP_LIKE", "REGEXP_CONTAINS(text, r'pattern')"),
    ("REGEXP_MATCHES", "REGEXP_CONTAINS(text, r'pattern')"),
    ("REGEXP_MATCH", "REGEXP_CONTAINS(text, r'pattern')"),
    ("REGEXP_COUNT", "ARRAY_LENGTH(REGEXP_EXTRACT_ALL(text, r'pattern'))"),
    ("JSON_EXTRACT_PATH_TEXT", "JSON_VALUE(text, '$.a.b')"),
    ("JSONB_EXTRACT_PATH_TEXT", "JSON_VALUE(text, '$.a.b')"),
    ("JSONB_EXTRACT_PATH", "JSON_QUERY(text, '$.a.b')"),
    ("JSONB_ARRAY_LENGTH", "ARRAY_LENGTH(JSON_QUERY_ARRAY(text, '$.list'))"),
    ("JSON_ARRAY_LENGTH", "ARRAY_LENGTH(JSON_QUERY_ARRAY(text, '$.list'))"),
    ("JSONB_ARRAY_ELEMENTS", "UNNEST(JSON_QUERY_ARRAY(text, '$.list')) AS item"),
    ("JSON_BUILD_OBJECT", "JSON_OBJECT('key', value)"),
    ("JSONB_BUILD_OBJECT", "JSON_OBJECT('key', value)"),
    ("ROW_TO_JSON", "TO_JSON_STRING(t)"),
    ("TO_JSONB", "TO_JSON(value)"),
    ("JSON_AGG", "ARRAY_AGG(value)"),
    ("JSONB_AGG", "ARRAY_AGG(value)"),
    ("CARDINALITY", "ARRAY_LENGTH(list)"),
    ("ARRAY_POSITION", "(SELECT MIN(i) FROM UNNEST(list) AS x WITH OFFSET AS i WHERE x = value)"),
    ("ARRAY_UPPER", "ARRAY_LENGTH(list)"),
    ("ARRAY_APPEND", "ARRAY_CONCAT(list, [value])"),
    ("ARRAY_CAT", "ARRAY_CONCAT(one, other)"),
    ("EVERY", "LOGICAL_AND(condition)"),
    ("ENCODE", "TO_HEX(bytes)"),
    ("DECODE", "FROM_HEX(text)"),
    ("RANDOM", "RAND()"),
    // MySQL, SQL Server, Snowflake, SQLite.
    ("DATE_FORMAT", "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%S', timestamp)"),
    ("STR_TO_DATE", "PARSE_TIMESTAMP('%Y-%m-%d', text)"),
    ("STRFTIME", "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%S', timestamp)"),
    ("UNIX_TIMESTAMP", "UNIX_SECONDS(timestamp)"),
    ("FROM_UNIXTIME", "TIMESTAMP_SECONDS(seconds)"),
    ("CURDATE", "CURRENT_DATE()"),
    ("GETDATE", "CURRENT_TIMESTAMP()"),
    ("SYSDATE", "CURRENT_TIMESTAMP()"),
    ("DATEADD", "TIMESTAMP_ADD(timestamp, INTERVAL 1 HOUR)"),
    ("DATEDIFF", "TIMESTAMP_DIFF(later, earlier, HOUR)"),
    ("TIMESTAMPDIFF", "TIMESTAMP_DIFF(later, earlier, HOUR)"),
    ("TIMESTAMPADD", "TIMESTAMP_ADD(timestamp, INTERVAL 1 HOUR)"),
    ("DATEPART", "EXTRACT(HOUR FROM timestamp)"),
    ("YEAR", "EXTRACT(YEAR FROM timestamp)"),
    ("MONTH", "EXTRACT(MONTH FROM timestamp)"),
    ("DAY", "EXTRACT(DAY FROM timestamp)"),
    ("HOUR", "EXTRACT(HOUR FROM timestamp)"),
    ("MINUTE", "EXTRACT(MINUTE FROM timestamp)"),
    ("SECOND", "EXTRACT(SECOND FROM timestamp)"),
    ("DAYOFWEEK", "EXTRACT(DAYOFWEEK FROM timestamp)"),
    ("CONVERT_TZ", "DATETIME(timestamp, 'Europe/Berlin')"),
    ("ISNULL", "value IS NULL, or IFNULL(value, 0)"),
    ("NVL", "IFNULL(value, 0)"),
    ("ZEROIFNULL", "IFNULL(value, 0)"),
    ("IIF", "IF(condition, a, b)"),
    ("LEN", "LENGTH(text)"),
    ("CHARINDEX", "STRPOS(text, part)"),
    ("LOCATE", "STRPOS(text, part)"),
    ("LCASE", "LOWER(text)"),
    ("UCASE", "UPPER(text)"),
    ("CONTAINS", "STRPOS(text, part) > 0"),
    ("STARTSWITH", "STARTS_WITH(text, start)"),
    ("ENDSWITH", "ENDS_WITH(text, end)"),
    ("SUBSTRING_INDEX", "SPLIT(text, ',')[SAFE_OFFSET(0)]"),
    ("LISTAGG", "STRING_AGG(text, ',')"),
    ("GROUP_CONCAT", "STRING_AGG(text, ',')"),
    ("TRY_CAST", "SAFE_CAST(value AS INT64)"),
    ("TRY_TO_NUMBER", "SAFE_CAST(text AS FLOAT64)"),
    ("GET_JSON_OBJECT", "JSON_VALUE(text, '$.a')"),
    ("JSON_UNQUOTE", "JSON_VALUE(text, '$.a')"),
    ("OBJECT_CONSTRUCT", "JSON_OBJECT('key', value)"),
    ("UUID", "GENERATE_UUID()"),
    ("MEDIAN", "APPROX_QUANTILES(x, 2)[OFFSET(1)]"),
    ("APPROX_PERCENTILE", "APPROX_QUANTILES(x, 100)[OFFSET(95)]"),
    // ClickHouse.
    ("TOSTARTOFMINUTE", "TIMESTAMP_TRUNC(timestamp, MINUTE)"),
    ("TOSTARTOFHOUR", "TIMESTAMP_TRUNC(timestamp, HOUR)"),
    ("TOSTARTOFDAY", "TIMESTAMP_TRUNC(timestamp, DAY)"),
    ("TOSTARTOFWEEK", "TIMESTAMP_TRUNC(timestamp, WEEK)"),
    ("TOSTARTOFMONTH", "TIMESTAMP_TRUNC(timestamp, MONTH)"),
    ("TOSTARTOFFIVEMINUTES", "TIMESTAMP_BUCKET(timestamp, INTERVAL 5 MINUTE)"),
    ("TOSTARTOFTENMINUTES", "TIMESTAMP_BUCKET(timestamp, INTERVAL 10 MINUTE)"),
    ("TOSTARTOFFIFTEENMINUTES", "TIMESTAMP_BUCKET(timestamp, INTERVAL 15 MINUTE)"),
    ("TOSTARTOFINTERVAL", "TIMESTAMP_BUCKET(timestamp, INTERVAL 5 MINUTE)"),
    ("DATE_BIN", "TIMESTAMP_BUCKET(timestamp, INTERVAL 5 MINUTE)"),
    ("TIME_BUCKET", "TIMESTAMP_BUCKET(timestamp, INTERVAL 5 MINUTE)"),
    ("TOUNIXTIMESTAMP", "UNIX_SECONDS(timestamp)"),
    ("TOUNIXTIMESTAMP64MILLI", "UNIX_MILLIS(timestamp)"),
    ("TOUNIXTIMESTAMP64MICRO", "UNIX_MICROS(timestamp)"),
    ("FROMUNIXTIMESTAMP", "TIMESTAMP_SECONDS(seconds)"),
    ("FORMATDATETIME", "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%S', timestamp)"),
    ("PARSEDATETIMEBESTEFFORT", "TIMESTAMP(text)"),
    ("TODATETIME", "DATETIME(timestamp)"),
    ("TODATE", "DATE(timestamp)"),
    ("TOHOUR", "EXTRACT(HOUR FROM timestamp)"),
    ("TOSTRING", "CAST(value AS STRING)"),
    ("TOINT32", "CAST(value AS INT64)"),
    ("TOINT64", "CAST(value AS INT64)"),
    ("TOINT32ORZERO", "IFNULL(SAFE_CAST(text AS INT64), 0)"),
    ("TOINT64ORZERO", "IFNULL(SAFE_CAST(text AS INT64), 0)"),
    ("TOFLOAT64", "CAST(value AS FLOAT64)"),
    ("TOFLOAT64ORZERO", "IFNULL(SAFE_CAST(text AS FLOAT64), 0)"),
    ("JSONEXTRACTSTRING", "JSON_VALUE(text, '$.a.b')"),
    ("JSONEXTRACTINT", "CAST(JSON_VALUE(text, '$.a.b') AS INT64)"),
    ("JSONEXTRACTFLOAT", "CAST(JSON_VALUE(text, '$.a.b') AS FLOAT64)"),
    ("JSONEXTRACTBOOL", "CAST(JSON_VALUE(text, '$.a.b') AS BOOL)"),
    ("JSONEXTRACTRAW", "JSON_QUERY(text, '$.a.b')"),
    ("JSONHAS", "JSON_QUERY(text, '$.a.b') IS NOT NULL"),
    ("MATCH", "REGEXP_CONTAINS(text, r'pattern')"),
    ("EXTRACTALL", "REGEXP_EXTRACT_ALL(text, r'pattern')"),
    ("REPLACEREGEXPALL", "REGEXP_REPLACE(text, r'pattern', '')"),
    ("LOWERUTF8", "LOWER(text)"),
    ("UPPERUTF8", "UPPER(text)"),
    ("SPLITBYCHAR", "SPLIT(text, ',')"),
    ("SPLITBYSTRING", "SPLIT(text, ',')"),
    ("DOMAIN", "NET.HOST(url)"),
    ("HAS", "value IN UNNEST(list)"),
    ("ARRAYJOIN", "CROSS JOIN UNNEST(list) AS item"),
    ("MULTIIF", "CASE WHEN a THEN b ELSE c END"),
    ("UNIQ", "APPROX_COUNT_DISTINCT(x)"),
    ("UNIQEXACT", "COUNT(DISTINCT x)"),
    ("SUMIF", "SUM(IF(condition, x, 0))"),
    ("AVGIF", "AVG(IF(condition, x, NULL))"),
    ("COUNT_IF", "COUNTIF(condition)"),
    ("QUANTILE", "APPROX_QUANTILES(x, 100)[OFFSET(95)]"),
    ("GROUPARRAY", "ARRAY_AGG(x)"),
    ("ARGMAX", "ARRAY_AGG(x ORDER BY y DESC LIMIT 1)[OFFSET(0)]"),
    ("ARGMIN", "ARRAY_AGG(x ORDER BY y LIMIT 1)[OFFSET(0)]"),
];

/// Functions of BigQuery that are not here, and why, or what to write instead.
const REFUSALS: &[(&str, &str)] = &[
    ("IFERROR", "write IFNULL(SAFE_CAST(value AS INT64), 0), or SAFE. before the function that may fail"),
    ("NULLIFERROR", "write SAFE_CAST(value AS INT64), or SAFE. before the function that may fail"),
    ("ISERROR", "write SAFE_CAST(value AS INT64) IS NULL, or SAFE. before the function that may fail"),
    ("SEARCH", r"write CONTAINS_SUBSTR(text, 'word'), or REGEXP_CONTAINS(text, r'(?i)\bword\b')"),
    ("COSINE_DISTANCE", "there are no vectors"),
    ("EUCLIDEAN_DISTANCE", "there are no vectors"),
    ("LAX_BOOL_ARRAY", "write ARRAY(SELECT LAX_BOOL(x) FROM UNNEST(JSON_QUERY_ARRAY(json)) AS x)"),
    ("LAX_INT64_ARRAY", "write ARRAY(SELECT LAX_INT64(x) FROM UNNEST(JSON_QUERY_ARRAY(json)) AS x)"),
    ("LAX_FLOAT64_ARRAY", "write ARRAY(SELECT LAX_FLOAT64(x) FROM UNNEST(JSON_QUERY_ARRAY(json)) AS x)"),
    ("LAX_STRING_ARRAY", "write ARRAY(SELECT LAX_STRING(x) FROM UNNEST(JSON_QUERY_ARRAY(json)) AS x)"),
    ("ARRAY_FILTER", "write ARRAY(SELECT x FROM UNNEST(list) AS x WHERE x > 1)"),
    ("ARRAY_TRANSFORM", "write ARRAY(SELECT x + 1 FROM UNNEST(list) AS x)"),
    ("SESSION_USER", "statements run without a user"),
    ("CURRENT_USER", "statements run without a user"),
    ("COLLATE", "texts compare by their characters; write LOWER(text), or NORMALIZE_AND_CASEFOLD(text)"),
];

/// The same of functions whose names begin alike.
const REFUSED_FAMILIES: &[(&str, &str)] = &[
    ("AEAD.", "there are no keys"),
    ("DETERMINISTIC_", "there are no keys"),
    ("DLP_", "there are no keys"),
    ("KEYS.", "there are no keys"),
    ("AI.", "there are no models"),
    ("ML.", "there are no models"),
    ("S2_", "there are no geographies"),
    ("ST_", "there are no geographies"),
];

/// Why a function of BigQuery is not here.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    let one = REFUSALS.iter().find(|(refused, _)| *refused == name);
    let family = || REFUSED_FAMILIES.iter().find(|(family, _)| name.starts_with(family));
    one.or_else(family).map(|(_, reason)| *reason)
}

/// What to write instead of a function of another dialect.
pub(super) fn spelling(name: &str) -> Option<&'static str> {
    SPELLINGS.iter().find(|(foreign, _)| *foreign == name).map(|(_, ours)| *ours)
}

#[cfg(test)]
mod tests {
    use super::{REFUSALS, SPELLINGS, refusal};

    #[test]
    fn no_foreign_name_is_one_of_ours_or_comes_twice() {
        let ours = crate::functions();
        let names: Vec<&str> = SPELLINGS.iter().chain(REFUSALS).map(|(name, _)| *name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!ours.contains(name), "{name}");
            assert!(names.iter().skip(i + 1).all(|other| other != name), "{name} twice");
        }
        assert!(ours.iter().all(|name| refusal(name).is_none()));
    }
}
