//! Texts and statements that would read, plan, compute or grow without end: each ends, in time and memory, and
//! others are served meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{MEMORY, ask, attack, bounded, healthy, none, server};

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn listed(count: usize, by: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(by)
}

/// Texts that are long, deep or unfold: reading and planning them must end.
fn texts() -> Vec<String> {
    let mut all = Vec::new();
    for (open, close) in [
        ("(", ")"),
        ("- ", ""),
        ("not ", ""),
        ("not (", ")"),
        ("cast(", " as int64)"),
        ("[", "]"),
        ("struct(", ")"),
        ("abs(", ")"),
        ("coalesce(1, ", ")"),
        ("if(true, ", ", 1)"),
        ("case when true then ", " end"),
        ("case when ", " = 1 then true end"),
        ("(select ", ")"),
        ("array(select ", ")"),
        ("(select max(x) from (select ", " as x))"),
        ("1 in (select ", ")"),
        ("1 in (", ")"),
        ("interval ", " day"),
        ("concat('a', ", ")"),
        ("exists(select 1 from logs where ", " = 1)"),
    ] {
        for depth in [7, 20, 60, 5_000] {
            all.push(format!("select {} as x", nested(open, "1", close, depth)));
            // A mistake at the bottom, where the parser may try again at each level.
            all.push(format!("select {} as x", nested(open, "1 1 from", close, depth.min(40))));
        }
    }
    all.push(format!("select * from {}", nested("(select * from ", "logs", ")", 60)));
    all.push(format!("select * from {}", nested("(", "logs join other on true", ")", 50)));
    all.push(nested("(", "select 1 as x", ")", 60));
    all.push(nested("(", "select 1 as x", ")", 20_000));
    all.push(nested("with a as (", "select 1 as x", ") select * from a", 30));
    for op in ["+", "||", "*", "=", "<", ".", "::int64::", " is null is ", " and ", " or ", " union all select ", ", "]
    {
        for count in [400, 5_000, 20_000] {
            all.push(format!("select {}", vec!["1"; count].join(op)));
        }
    }
    all.push(format!("select id from logs where {}", listed(5_000, " and ", |i| format!("id != 'x{i}'"))));
    all.push(format!("select id from logs where {}", listed(5_000, " or ", |i| format!("id = 'x{i}'"))));
    all.push(format!(
        "select id from logs where {}",
        listed(4_000, " or ", |i| format!("event_message like '%y{i}%'"))
    ));
    all.push(format!("select id from logs where id in ({})", listed(10_000, ",", |i| format!("'x{i}'"))));
    all.push(format!("select id from logs where id not in ({})", listed(10_000, ",", |i| i.to_string())));
    all.push(listed(900, " union all ", |_| "select id from logs".to_owned()));
    all.push(listed(900, " union distinct ", |i| format!("select {i} as x")));
    all.push(listed(500, " except distinct ", |i| format!("select {i} as x")));
    let ctes = |count: usize, of: &dyn Fn(usize) -> String| {
        let chain = listed(count, ", ", |i| format!("a{} as ({})", i + 1, of(i)));
        format!("with a0 as (select id, event_message as m from logs), {chain} select * from a{count}")
    };
    all.push(ctes(30, &|i| format!("select l.id, l.m from a{i} l cross join a{i} r")));
    all.push(ctes(30, &|i| format!("select * from a{i} union all select * from a{i}")));
    all.push(ctes(30, &|i| format!("select id, m from a{i} where id in (select id from a{i})")));
    all.push(ctes(1_500, &|i| format!("select id, m from a{i}")));
    all.push(ctes(60, &|i| format!("select id, m, 1 as c{i} from a{i} where id != '{i}'")));
    all.push(format!(
        "select count(*) as c from logs t0 {}",
        listed(300, " ", |i| format!("join logs t{} using (id)", i + 1))
    ));
    all.push(format!(
        "select count(*) as c from logs t0 {}",
        listed(50, " ", |i| format!("join logs t{} on t0.id = t{}.id", i + 1, i + 1))
    ));
    all.push(format!("select {} from logs", listed(3_000, ", ", |i| format!("id as c{i}"))));
    all.push(format!(
        "select {} from logs",
        listed(300, ", ", |i| format!("count(distinct concat(id, '{i}')) as c{i}"))
    ));
    all.push(format!(
        "select case {} end as x from logs",
        listed(3_000, " ", |i| format!("when id = 'x{i}' then {i}"))
    ));
    all.push(format!("select '{}' as x from logs", "a".repeat(255 << 10)));
    all.push(format!("select '{}' as x from logs", "a".repeat(300 << 10)));
    all.push(format!("select 1 as x --{}", " ".repeat(255 << 10)));
    all.push(format!("select 1 as x /*{}*/", "/*".repeat(100_000)));
    all.push(format!("select {} as x", "9".repeat(100_000)));
    all.push(format!("select 1e{} as x", "9".repeat(1_000)));
    all.push(format!("select `{}` from logs", "a".repeat(100_000)));
    all.push(format!("select id as `{}` from logs", "é".repeat(50_000)));
    all.push(format!("select {}1", "\n".repeat(100_000)));
    all
}

/// Statements that compute or grow without end.
fn bombs() -> Vec<String> {
    let pattern =
        |pattern: &str| format!("select count(*) as c from logs where regexp_contains(event_message, r'{pattern}')");
    let mut all: Vec<String> = [
        "select length(replace(replace(event_message, 'a', event_message), 'a', event_message)) as x from logs",
        "select length(repeat(repeat(repeat('a', 1000), 1000), 1000)) as x",
        "select length(repeat(event_message, 5000)) as x from logs",
        "select count(*) as c from unnest(generate_array(1, 100000)) a cross join unnest(generate_array(1, 100000)) b",
        "select count(*) as c from logs a join logs b on a.id < b.id join logs c on b.id < c.id",
        "select exists(select exists(select 1 from logs)) as x",
        "select count(*) as c from logs a cross join logs b cross join logs c cross join logs d",
        "select a.id from logs a cross join logs b cross join logs c",
        "select count(*) as c from logs a cross join logs b where concat(a.event_message, b.event_message) like '%zzz%y%'",
        "select count(*) as c from logs a join logs b on a.event_message like concat('%', b.id, '%', b.id) join logs c on true",
        "select count(*) as c from logs a join logs b on a.id != b.id join logs c on a.id = c.id and b.event_message like '%x%y%'",
        "select a.id from logs a cross join logs b order by concat(a.event_message, b.event_message)",
        "select concat(a.event_message, b.id) as k, count(*) as c from logs a cross join logs b group by k",
        "select distinct concat(a.event_message, b.event_message) as k from logs a cross join logs b order by k",
        "select count(distinct concat(a.event_message, b.id)) as c from logs a cross join logs b",
        "select array_agg(a.event_message) as x from logs a cross join logs b",
        "select string_agg(a.event_message) as x from logs a cross join logs b",
        "select array(select a.event_message from logs a cross join logs b) as x",
        "select a.id, array_agg(b.event_message) as x from logs a cross join logs b group by a.id",
        "select approx_quantiles(concat(a.id, b.id), 1000) as x from logs a cross join logs b",
        "select generate_array(1, 1000000000) as x",
        "select generate_array(-9223372036854775808, 9223372036854775807) as x",
        "select generate_array(1, 10, 0) as x",
        "select repeat('a', 1000000000) as x",
        "select lpad('a', 1000000000) as x",
        "select rpad('a', 1000000000, 'b') as x from logs",
        "select repeat('a', 9223372036854775807) as x",
        "select repeat('', 9223372036854775807) as x",
        "select id from logs limit 9223372036854775807 offset 9223372036854775807",
        "select id from logs limit 99999999999999999999999",
        "select id from logs limit -1",
        "select id from logs limit 1000000000",
        "select id from logs order by id limit 1000000000 offset 1",
        "select 9223372036854775807 + 1 as x",
        "select -9223372036854775808 - id as x from logs",
        "select 1 / 0 as x",
        "select div(1, 0) as x from logs",
        "select mod(-9223372036854775808, -1) as x",
        "select div(-9223372036854775808, -1) as x",
        "select pow(10, 1000000) as x",
        "select cast(event_message as int64) as x from logs",
        "select substr(event_message, -9223372036854775808, 9223372036854775807) as x from logs",
        "select timestamp_add(timestamp '9999-12-31', interval 9223372036854775807 day) as x",
        "select date_add(date '9999-12-31', interval 1000000 year) as x",
        "select timestamp_micros(9223372036854775807) as x",
        "select format_timestamp(repeat('%Y', 4000), timestamp) as x from logs",
        "select json_value(event_message, '$.a.b.c') as x from logs",
    ]
    .map(str::to_owned)
    .to_vec();
    for regex in [
        "(a+)+$",
        "(a*)*b",
        "(a|a)*$",
        "a{1000}{1000}",
        "((a{100}){100}){100}",
        "(.*)(.*)(.*)(.*)(.*)x",
        "[",
        "(?P<n>a)\\1",
    ] {
        all.push(pattern(regex));
    }
    all.push(pattern(&listed(2_000, "|", |i| format!("x{i}y"))));
    all.push(pattern(&"(".repeat(10_000)));
    all.push(pattern(&nested("(", "a", ")*", 1_000)));
    all.push(format!("select json_value('{}', '$.a') as x", "[".repeat(100_000)));
    all.push(format!(
        "select json_value(event_message, '$.{}') as x from logs",
        listed(10_000, ".", |_| "a".to_owned())
    ));
    let doubled = listed(31, ", ", |i| format!("a{} as (select concat(x, x) as x from a{i})", i + 1));
    all.push(format!("with a0 as (select id as x from logs), {doubled} select length(x) as n from a31"));
    // Each column by itself is within its bound.
    let columns = |column: &dyn Fn(usize) -> String| listed(200, ", ", |i| format!("{} as c{i}", column(i)));
    for column in [
        &(|i| format!("repeat(event_message, 100 + {i})")) as &dyn Fn(usize) -> String,
        &|i| format!("cast(repeat(event_message, 100 + {i}) as bytes)"),
        &|i| format!("generate_array(metadata.n - metadata.n, 3000 + {i})"),
        &|i| format!("if(id = 'e{i}', [], generate_array(length(id) - length(id), 3000))"),
    ] {
        let from = "logs cross join unnest(metadata) as metadata";
        all.push(format!("select {} from {from}", columns(column)));
        all.push(format!(
            "select * from (select {} from {from}) where c0 is not null and c1 is not null",
            columns(column)
        ));
    }
    all.push(format!("select [{}] as x from logs", listed(20_000, ", ", |_| "id".to_owned())));
    // Patterns that are computed, or that are large.
    for condition in [
        r"regexp_contains(a.event_message, concat(r'(\pL{20,60})+', b.id))",
        "regexp_contains(a.event_message, concat(b.id, '|', a.id, '|x{500}'))",
        r"regexp_contains(concat(a.event_message, b.event_message), r'\pL{50,100}\d+x')",
        "a.event_message like concat('%', a.id, '%_%', b.id)",
        "a.event_message not ilike concat('%', b.id, '%_%')",
        "regexp_replace(a.event_message, concat('a*', b.id), 'x') = 'y'",
    ] {
        all.push(format!("select count(*) as c from logs a cross join logs b where {condition}"));
    }
    all
}

#[test]
fn long_and_deep_texts_end() {
    let server = server();
    let mut wrong = Vec::new();
    for sql in texts() {
        wrong.extend(attack(&server, &sql, |_| true));
        healthy(&server, &sql);
    }
    none(wrong);
    assert!(server.peak_memory() < MEMORY, "{} MiB", server.peak_memory());
}

#[test]
fn bombs_end() {
    let server = server();
    let mut wrong = Vec::new();
    for sql in bombs() {
        wrong.extend(attack(&server, &sql, |_| true));
        healthy(&server, &sql);
    }
    none(wrong);
    assert!(server.peak_memory() < MEMORY, "{} MiB", server.peak_memory());
}

/// Tells the attackers to stop when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn others_are_served_while_eight_attack() {
    let server = server();
    let done = AtomicBool::new(false);
    let hostile = [
        "select count(*) as c from logs a cross join logs b cross join logs c cross join logs d",
        "select a.id from logs a cross join logs b order by concat(a.event_message, b.event_message)",
        "select concat(a.event_message, b.id) as k, count(*) as c from logs a cross join logs b group by k",
        "select count(*) as c from logs a cross join logs b where concat(a.event_message, b.event_message) like '%zzz%y%'",
        "select array_agg(a.event_message) as x from logs a cross join logs b",
        "select distinct concat(a.event_message, b.event_message) as k from logs a cross join logs b order by k",
        "select count(*) as c from logs where regexp_contains(event_message, r'(a+)+$')",
        "select count(*) as c from logs a join logs b on a.event_message like concat('%', b.id, '%', b.id) join logs c on true",
    ];
    std::thread::scope(|scope| {
        // Also when something below fails: the attackers would go on for ever.
        let _ends = Ends(&done);
        for sql in hostile {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    bounded(sql, &ask(server, "attack", sql));
                }
            });
        }
        let (mut took, mut health, mut late) = (Vec::new(), Duration::ZERO, 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(200));
            let asked = Instant::now();
            server.call("GET", "/health", &[], b"").is(200);
            health = health.max(asked.elapsed());
            let asked = Instant::now();
            let answer = ask(&server, "attack", "select id from logs where id = 'e7'");
            took.push(asked.elapsed());
            // On a machine that is busy with other things too, one may need more than the attackers' time.
            match answer.status {
                504 => late += 1,
                _ => assert_eq!(answer.ids(), ["e7"]),
            }
        }
        took.sort();
        let (median, slowest) = (took[took.len() / 2], took[took.len() - 1]);
        println!(
            "{} queries, {late} late, median {median:?}, slowest {slowest:?}, slowest /health {health:?}, {} MiB",
            took.len(),
            server.peak_memory()
        );
        assert!(late * 10 <= took.len(), "{late} of {} queries were late", took.len());
        assert!(median < Duration::from_secs(1), "{median:?}");
        assert!(health < Duration::from_secs(1), "{health:?}");
    });
    assert!(server.peak_memory() < MEMORY, "{} MiB", server.peak_memory());
}
