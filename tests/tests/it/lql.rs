//! LQL over the granted tables, end to end: which rows a clause keeps, on fields that are values,
//! records, lists, missing, or of mixed types; and what the columns of the answer are.

use serde_json::{Value, json};
use tidegate_tests::{Answer, Server};

/// Five records, `a` to `e`, one second apart.
fn server() -> Server {
    let server = Server::start();
    let event = |id: &str, message: &str, metadata: Value| {
        let second = id.bytes().next().map_or(0, |letter| letter - b'a');
        json!({"id": id, "timestamp": format!("2031-02-03T04:05:0{second}Z"), "project": "p1", "event_message": message, "metadata": metadata})
    };
    let mut bare = event("d", "nothing here", Value::Null);
    bare.as_object_mut().unwrap().remove("metadata");
    server.send(
        "postgres.logs",
        &json!([
            event("a", "fetched /a in 12 ms", json!({
                "level": "info", "status": 200, "ratio": 0.5, "cached": true, "zip": "01234", "mixed": 5, "k": "short",
                "tags": ["red", "blue"], "codes": [1, 2], "items": [{"sku": "x", "count": 1}, {"sku": "y", "count": 2}],
                "request": {"path": "/a", "headers": {"host": "one"}},
            })),
            event("b", "it's \"half\", 50% of C:\\dir", json!({
                "level": "error", "status": 500, "ratio": 2, "cached": false, "zip": "1234", "mixed": "five",
                "tags": ["blue"], "codes": [3], "items": [{"sku": "x", "count": 5}],
                "request": {"path": "/b"},
            })),
            event("c", "gone", json!({"level": "critical", "status": 404, "mixed": 10, "tags": []})),
            bare,
            event("e", "GONE", json!({"unlike": "the others"})),
        ]),
    );
    server
}

fn ask(server: &Server, lql: &str) -> Answer {
    server.query("logs.all", &[("project", "p1"), ("lql", lql)])
}

/// The ids of the rows that the clauses keep, oldest first.
fn kept(server: &Server, clauses: &str) -> String {
    let mut ids = ask(server, &format!("f:postgres_logs s:id {clauses}")).ids();
    ids.sort();
    ids.concat()
}

fn check(server: &Server, cases: &[(&str, &str)]) {
    for (clauses, wanted) in cases {
        assert_eq!(kept(server, clauses), *wanted, "{clauses}");
    }
}

#[test]
fn operators_on_columns_and_on_nested_fields() {
    let server = server();
    check(
        &server,
        &[
            ("", "abcde"),
            ("id:a", "a"),
            ("-id:a", "bcde"),
            ("id:>=b -id:>c", "bc"),
            ("id:NULL", ""),
            ("-id:NULL", "abcde"),
            ("id:~\"[ab]\"", "ab"),
            ("id:@>a", "a"),
            ("m.status:200", "a"),
            ("m.status:>200", "bc"),
            ("m.status:>=404", "bc"),
            ("m.status:<404", "a"),
            ("m.status:<=404", "ac"),
            ("m.status:200..404", "ac"),
            ("m.status:404..200", ""),
            ("m.level:error", "b"),
            ("m.level:~\"^(err|crit)\"", "bc"),
            ("m.ratio:0.5", "a"),
            ("m.ratio:2", "b"),
            ("m.cached:true", "a"),
            ("m.cached:\"false\"", "b"),
            ("m.request.path:\"/b\"", "b"),
            ("m.request.path:(/a)", "a"),
            ("m.request.headers.host:one", "a"),
            ("m.request.path:~\"^/\"", "ab"),
            // Several clauses must all hold, of any record.
            ("m.status:>=200 m.status:<500 m.tags:@>red", "a"),
        ],
    );
}

#[test]
fn a_negated_clause_keeps_the_rows_that_lack_the_field() {
    let server = server();
    check(
        &server,
        &[
            ("-m.status:200", "bcde"),
            ("-m.status:>=404", "ade"),
            ("-m.status:200..404", "bde"),
            ("-m.level:~\"^err\"", "acde"),
            ("-m.cached:true", "bcde"),
            ("-m.request.path:\"/a\"", "bcde"),
            ("-m.request.headers.host:one", "bcde"),
            ("-m.status:>NULL", "abcde"),
            ("-id:>NULL", "abcde"),
            ("-gone", "abde"),
            ("-~\"(?i)gone\"", "abd"),
            // A field that no record ever had.
            ("m.nowhere:1", ""),
            ("-m.nowhere:1", "abcde"),
            ("m.nowhere:~x", ""),
            ("-m.nowhere.deep:x", "abcde"),
            ("m.nowhere:@>x", ""),
            ("-m.nowhere:@>x", "abcde"),
            ("m.nowhere:1..2", ""),
        ],
    );
}

#[test]
fn null_is_a_field_without_a_value() {
    let server = server();
    check(
        &server,
        &[
            ("m.zip:NULL", "cde"),
            ("-m.zip:NULL", "ab"),
            ("m.zip:\"NULL\"", ""),
            ("m.request.path:NULL", "cde"),
            ("-m.request.path:NULL", "ab"),
            ("m.request:NULL", "cde"),
            ("-m.request:NULL", "ab"),
            ("metadata:NULL", "d"),
            ("-metadata:NULL", "abce"),
            ("m.nowhere:NULL", "abcde"),
            ("-m.no.where:NULL", ""),
            ("m.k:NULL", "bcde"),
            ("-m.k:NULL", "a"),
            ("m.k:short", "a"),
            ("-m.items:NULL", "ab"),
        ],
    );
}

#[test]
fn levels_are_any_of_a_range() {
    let server = server();
    check(
        &server,
        &[
            ("metadata.level:info..error", "ab"),
            ("metadata.level:error..info", "ab"),
            ("metadata.level:error..emergency", "bc"),
            ("-metadata.level:error..emergency", "ade"),
            ("metadata.level:debug..debug", ""),
        ],
    );
}

#[test]
fn values_mean_what_the_field_holds() {
    let server = server();
    check(
        &server,
        &[
            // Text that looks like a number stays text, but is ordered as the number that it looks like.
            ("m.zip:01234", "a"),
            ("m.zip:1234", "b"),
            ("-m.zip:1234", "acde"),
            ("m.zip:>1233", "ab"),
            ("m.zip:1234..9999", "ab"),
            // Numbers in one record and text in another.
            ("m.mixed:5", "a"),
            ("m.mixed:five", "b"),
            ("m.mixed:>4", "ac"),
            ("-m.mixed:>4", "bde"),
            // A value that does not look like the field does not match, and is no error.
            ("m.status:abc", ""),
            ("-m.status:abc", "abcde"),
            ("m.status:true", ""),
            ("m.status:499.5", ""),
            ("m.status:>499.5", "b"),
            ("m.status:\"200\"", "a"),
            ("m.status:99999999999999999999", ""),
            ("m.cached:1", ""),
            ("m.cached:maybe", ""),
            ("m.status:~\"^4\"", "c"),
            // One value is a list of one.
            ("m.status:@>200", "a"),
            ("m.level:@>~\"^err\"", "b"),
        ],
    );
}

#[test]
fn lists_match_by_any_element() {
    let server = server();
    check(
        &server,
        &[
            ("m.tags:@>blue", "ab"),
            ("m.tags:blue", "ab"),
            ("-m.tags:@>red", "bcde"),
            ("-m.tags:red", "bcde"),
            ("m.codes:@>2", "a"),
            ("m.codes:@>\"2\"", "a"),
            ("m.codes:@>x", ""),
            ("-m.codes:@>x", "abcde"),
            ("m.codes:@>2.5", ""),
            ("m.codes:true", ""),
        ],
    );
}

#[test]
fn elements_of_lists_are_compared_one_by_one() {
    let server = server();
    check(
        &server,
        &[
            ("m.tags:@>~\"^r\"", "a"),
            ("-m.tags:@>~\"^r\"", "bcde"),
            ("m.tags:~\"e$\"", "ab"),
            ("m.codes:>1", "ab"),
            ("m.codes:@>~3", "b"),
            ("-m.codes:2..3", "cde"),
            ("m.items.sku:x", "ab"),
            ("-m.items.sku:x", "cde"),
            ("m.items.sku:x m.items.sku:y", "a"),
            ("m.items.count:>=2", "ab"),
            ("m.items.sku:NULL", "cde"),
            ("-m.items.sku:NULL", "ab"),
        ],
    );
    let answer = ask(&server, "f:postgres_logs s:id s:m.items.sku -m.items.sku:NULL");
    let wanted =
        [json!({"id": "b", "metadata_items_sku": ["x"]}), json!({"id": "a", "metadata_items_sku": ["x", "y"]})];
    assert_eq!(answer.rows(), wanted, "a row is one row, however many elements fit");
}

#[test]
fn words_quotes_and_escapes() {
    let server = server();
    check(
        &server,
        &[
            ("gone", "c"),
            ("fetched ms", "a"),
            ("12", "a"),
            ("\"it's \\\"half\\\"\"", "b"),
            ("\"50% of\"", "b"),
            ("50%", "b"),
            ("\"0_ of\"", ""),
            ("\"C:\\\\dir\"", "b"),
            ("\"C:\\dir\"", "b"),
            ("~gon.", "c"),
            ("~\"(?i)^gone$\"", "ce"),
            ("\"\"", "abcde"),
            ("event_message:gone", "c"),
            ("event_message:gon", ""),
        ],
    );
}

#[test]
fn times() {
    let server = server();
    check(
        &server,
        &[
            ("t:2031-02-03T04:05:01", "b"),
            ("t:2031-02-03T05:05:01+01:00", "b"),
            ("t:1927857901", "b"),
            ("t:1927857901000000", "b"),
            ("t:>2031-02-03T04:05:02Z", "de"),
            ("timestamp:<=2031-02-03T04:05:00.000000", "a"),
            ("t:2031-02-03T04:05:01..2031-02-03T04:05:02", "bc"),
            ("t:2031-02-03T04:05:{01..03}", "bcd"),
            ("-t:2031-02-03T04:05:{01..03}", "ae"),
            ("t:2031-02-03", ""),
            ("t:2031-02-03..2031-02-04", "abcde"),
            ("-t:2031-02-03..2031-02-04", ""),
        ],
    );
    // Relative times, around now.
    let now = chrono::Utc::now();
    server.send(
        "gotrue.logs.prod",
        &json!([
            {"id": "f", "project": "p1", "event_message": "fresh", "timestamp": (now - chrono::TimeDelta::seconds(5)).to_rfc3339()},
            {"id": "o", "project": "p1", "event_message": "old", "timestamp": (now - chrono::TimeDelta::days(400)).to_rfc3339()},
        ]),
    );
    for (clauses, wanted) in [
        ("t:last@2minutes", vec!["f"]),
        ("t:last@1h", vec!["f"]),
        ("t:last@2years", vec!["f", "o"]),
        ("-t:last@1d", vec!["o"]),
        ("t:now", vec![]),
        ("t:<now", vec!["f", "o"]),
        ("t:today..x", vec![]),
    ] {
        let answer = ask(&server, &format!("f:auth_logs s:id {clauses}"));
        assert_eq!(answer.ids(), wanted, "{clauses}");
    }
}

#[test]
fn charts_count_by_buckets() {
    let server = server();
    let day = 1_927_843_200_000_000_i64;
    let chart = |clauses: &str| ask(&server, &format!("f:postgres_logs {clauses}")).rows().to_vec();
    for (clauses, value) in [
        ("c:count(*)", json!(5)),
        ("c:count(m.status)", json!(3)),
        ("c:sum(m.status)", json!(1104)),
        ("c:avg(m.status)", json!(368.0)),
        ("c:max(m.status)", json!(500)),
        ("c:max(*)", json!(1_927_857_904_000_000_i64)),
        ("c:p50(m.status)", json!(404)),
        ("c:p95(m.status)", json!(500)),
        ("c:p99(m.ratio)", json!(2.0)),
        ("c:countd(m.level)", json!(3)),
        // Every element of a list counts.
        ("c:sum(m.codes)", json!(6)),
        ("c:countd(m.tags)", json!(2)),
        ("c:sum(m.items.count)", json!(8)),
        ("c:sum(m.nowhere)", Value::Null),
        // Selects do not matter; the later clause wins.
        ("s:id c:count(m.status) c:sum(m.status) m.level:info", json!(200)),
    ] {
        let wanted = json!({"timestamp": day, "count": value});
        assert_eq!(chart(&format!("{clauses} c:group_by(t::day)")), [wanted], "{clauses}");
    }
    for (period, first, count) in [
        ("s", 1_927_857_900, 5),
        ("second", 1_927_857_900, 5),
        ("m", 1_927_857_900, 1),
        ("hour", 1_927_857_600, 1),
        ("d", 1_927_843_200, 1),
    ] {
        let rows = chart(&format!("c:group_by(t::{period})"));
        let times: Vec<i64> = rows.iter().map(|row| row["timestamp"].as_i64().unwrap()).collect();
        assert_eq!((times.len(), times.first()), (count, Some(&(first * 1_000_000))), "{period}");
        assert!(times.is_sorted(), "{period}");
    }
    ask(&server, "f:postgres_logs c:p90(m.status)").refused(400, "unknown_column", &["c:count(*)", "column 17"]);
}

#[test]
fn columns_of_the_answer() {
    let server = server();
    let columns = |lql: &str| -> Vec<String> {
        let answer = ask(&server, &format!("f:postgres_logs id:b {lql}"));
        assert_eq!(answer.rows().len(), 1, "{lql}");
        answer.rows()[0].as_object().unwrap().keys().cloned().collect()
    };
    for (lql, wanted) in [
        ("", vec!["id"]),
        ("m.level:error id:~b", vec!["id", "metadata_level"]),
        ("-m.request.path:x", vec!["id", "metadata_request_path"]),
        ("s:*", vec!["id"]),
        ("s:m.level s:*", vec!["id"]),
        ("s:m.request.path s:m.level@l", vec!["metadata_request_path", "l"]),
        ("s:m.level s:m.level@again", vec!["metadata_level"]),
        ("s:m.k", vec!["metadata_k"]),
    ] {
        assert_eq!(columns(lql), wanted, "{lql}");
    }
    let all = ask(&server, "f:postgres_logs");
    assert_eq!(all.rows().len(), 5);
    assert_eq!(all.rows()[0], json!({"timestamp": 1_927_857_904_000_000_i64}));
    ask(&server, "f:postgres_logs s:m.k s:metadata.k@METADATA_K").refused(
        400,
        "invalid_query",
        &["METADATA_K", "s:path@name"],
    );
}

#[test]
fn the_table_is_chosen_among_the_granted_ones() {
    let server = server();
    ask(&server, "gone").refused(400, "unknown_table", &["f:name", "`edge_logs`", "`pgbouncer_logs`"]);
    ask(&server, "f:postgres_log x").refused(400, "unknown_table", &["did you mean `postgres_logs`", "`auth_logs`"]);
    ask(&server, "f:Postgres_logs").refused(400, "unknown_table", &["`postgres_logs`"]);
    ask(&server, "f:postgres_logs f:auth_logs").refused(400, "syntax_error", &["column 17"]);
    let save = |name: &str, query: &str| {
        let body = json!({"name": name, "query": query, "sandboxable": true});
        assert_eq!(server.manage("POST", "/api/endpoints", &body).status, 201, "{query}");
    };
    save("one.table", "with only_one as (select id, timestamp from `postgres.logs`) select 1 as x from only_one");
    save("no.table", "select 1 as x");
    assert_eq!(server.query("one.table", &[("lql", "id:b")]).ids(), ["b"]);
    server.query("one.table", &[("lql", "f:postgres_logs")]).refused(400, "unknown_table", &["`only_one`"]);
    server.query("no.table", &[("lql", "id:b")]).refused(400, "unknown_table", &["WITH"]);
    // SQL beside it wins.
    let both = [("lql", "id:b"), ("sql", "select id from only_one where id = 'c'")];
    assert_eq!(server.query("one.table", &both).ids(), ["c"]);
}

#[test]
fn mistakes_are_told_with_their_place() {
    let server = server();
    let refused = |clauses: &str, code: &str, words: &[&str]| {
        ask(&server, &format!("f:postgres_logs {clauses}")).refused(400, code, words);
    };
    refused("gone \"left", "syntax_error", &["not closed", "column 22"]);
    refused("m.path:/a", "syntax_error", &["in quotes", "column 24"]);
    refused("nowhere:1", "unknown_column", &["`nowhere`", "`event_message`", "column 17"]);
    refused("gone s:event_mesage", "unknown_column", &["did you mean `event_message`?", "column 22"]);
    refused("m.status.deep:1", "unknown_column", &["`metadata.status`", "column 17"]);
    refused("m.request:x", "unknown_column", &["a record", "column 17"]);
    refused("timestamp:soon", "syntax_error", &["column 27"]);
    refused("~\"(\"", "invalid_query", &["regular expression"]);
    refused("a..b:1", "invalid_query", &["dots", "column 17"]);
}

#[test]
fn what_looks_like_sql_stays_a_value() {
    let server = server();
    for hostile in [
        "x' OR '1'='1",
        "x') OR 1=1 --",
        "\\' OR 1=1 --",
        "`; DROP TABLE postgres_logs; --",
        "x'; SELECT * FROM `gotrue.logs.prod`; --",
        "'''",
        "%' /* */",
        "@project",
        "${project}",
        "\u{0}\u{1}",
    ] {
        let quoted = hostile.replace('\\', "\\\\").replace('"', "\\\"");
        for clause in ["id:", "-id:", "m.level:", "m.tags:@>", "id:>", "", "m.nowhere:"] {
            let text = format!("f:postgres_logs s:id {clause}\"{quoted}\"");
            let answer = ask(&server, &text);
            assert_eq!(answer.status, 200, "{text}: {}", answer.body);
            let wanted = match clause {
                "-id:" => 5,
                "id:>" if hostile.as_bytes()[0] < b'a' => 5,
                _ => 0,
            };
            assert_eq!(answer.rows().len(), wanted, "{text}");
        }
        server.send("gotrue.logs.prod", &json!([{"id": hostile, "project": "p1", "event_message": hostile}]));
        let found = ask(&server, &format!("f:auth_logs s:id id:\"{quoted}\" \"{quoted}\""));
        assert_eq!(found.ids(), [hostile], "the value itself is found");
    }
    // Parameters of the endpoint are no way in either.
    let answer = server.query("logs.all", &[("project", "p1' OR '1'='1"), ("lql", "f:postgres_logs")]);
    assert_eq!(answer.rows().len(), 0);
}

const DOCUMENT: &str = include_str!("../../../docs/lql.md");

/// Every line of the tables in the document: its clauses, and what it says that comes of them.
#[test]
fn the_document_says_what_happens() {
    let server = Server::start();
    let logs = DOCUMENT.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    server.send("postgres.logs", &serde_json::from_str(logs).unwrap());
    let query = "WITH logs AS (SELECT id, timestamp, event_message, metadata FROM `postgres.logs`) SELECT id FROM logs";
    let body = json!({"name": "document", "query": query, "sandboxable": true});
    server.save(&body);
    let ask = |lql: &str| server.query("document", &[("lql", lql)]);
    let (mut kind, mut lines, mut wrong) = ("", 0, Vec::new());
    for line in DOCUMENT.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|--")) {
        // A bar inside of a cell is written with a backslash.
        let cells: Vec<String> =
            line.replace("\\|", "\u{0}").split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect();
        let [_, clause, wanted, ..] = cells.as_slice() else { panic!("{line}") };
        if clause == "Clause" {
            kind = ["Keeps", "Answer", "Refused with"].into_iter().find(|kind| kind == wanted).unwrap();
            continue;
        }
        let code = |cell: &str| cell.trim_matches('`').trim().to_owned();
        let (clause, told) = (code(clause), code(wanted));
        lines += 1;
        let (answer, holds) = match kind {
            "Keeps" => {
                let answer = ask(&format!("s:id {clause}"));
                let mut ids = if answer.status == 200 { answer.ids() } else { vec!["refused".to_owned()] };
                ids.sort();
                let holds = ids.join(", ") == told;
                (answer, holds)
            }
            "Answer" => {
                let answer = ask(&clause);
                let row: Value = serde_json::from_str(&told).unwrap();
                let holds = answer.status == 200 && answer.rows() == [row];
                (answer, holds)
            }
            _ => {
                let answer = ask(&clause);
                let holds = answer.status == 400 && answer.body.to_string().contains(&told);
                (answer, holds)
            }
        };
        if !holds {
            wrong.push(format!("{clause}: not {told}, but {} {}", answer.status, answer.body));
        }
    }
    assert!(wrong.is_empty(), "docs/lql.md:\n{}", wrong.join("\n"));
    assert!(lines > 50, "{lines} lines");
}
