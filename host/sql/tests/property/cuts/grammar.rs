//! Statements whose answers are determined, as far as [`Compare`] says.

mod conditions;
mod correlated;
mod pipes;

use super::super::tape::Tape;

/// What two answers have in common if both are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compare {
    /// The same rows in the same order.
    Rows,
    /// The same rows, in an order of which only the first columns are determined.
    Keys(usize),
    /// Only the first columns of the rows, in their order: a limit cuts among equal ones. The rows
    /// are among those of the other statement, which has no limit.
    Cut(usize, String),
    /// The same rows in any order.
    Bag,
}

#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) sql: String,
    /// The saved query over whose grants it runs.
    pub(super) grant: Option<&'static str>,
    pub(super) compare: Compare,
    /// A text with the same answer, to compare with. The engine plans it in another way.
    pub(super) same: Option<String>,
}

const GRANTS: [&str; 3] = [
    "WITH t AS (SELECT * FROM t) SELECT id FROM t",
    "WITH t AS (SELECT id, timestamp, event_message, project, n, z, late, metadata FROM t WHERE project = 'p1') SELECT id FROM t",
    "WITH t AS (SELECT * FROM t WHERE REGEXP_CONTAINS(event_message, r'^[A-Zr]') ORDER BY timestamp DESC) SELECT id FROM t",
];

/// How the values of a relation are called.
#[derive(Debug, Clone, Copy)]
struct Names {
    id: &'static str,
    ts: &'static str,
    p: &'static str,
    k: &'static str,
    n: &'static str,
    s: &'static str,
    l: &'static str,
    /// A text in a record: in most rows it is in its column.
    u: Option<&'static str>,
    /// An id in a record, likewise.
    t: Option<&'static str>,
    /// A text of few values in a record, likewise: by it rows may lie together.
    m: Option<&'static str>,
    /// A list of integers.
    g: Option<&'static str>,
}

const STORED: Names = Names {
    id: "id",
    ts: "timestamp",
    p: "project",
    k: "event_message",
    n: "n",
    s: "metadata[0].status",
    l: "late",
    u: Some("metadata[0].web[0].url"),
    t: Some("metadata[0].trace"),
    m: Some("metadata[0].team"),
    g: Some("metadata[0].tags"),
};
/// With the records as `m`, and those in them as `w`.
const JOINED: Names = Names { u: Some("w.url"), t: Some("m.trace"), m: Some("m.team"), g: Some("m.tags"), ..STORED };
const NAMED: Names =
    Names { id: "id", ts: "ts", p: "p", k: "k", n: "n", s: "s", l: "l", u: None, t: None, m: None, g: None };

/// A SELECT of the columns `id, ts, p, k, n, s, l`.
struct Relation {
    sql: String,
    /// Ids are there once each.
    unique: bool,
}

/// What the world says of its rows.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) unique_times: bool,
    pub(super) seconds: usize,
    pub(super) rows: usize,
}

pub(super) fn statement(tape: &mut Tape<'_>, facts: Facts) -> Statement {
    let grant = (tape.below(4) == 3).then(|| tape.pick(&GRANTS));
    let mut make = Make { tape, facts };
    let mut same = None;
    let (sql, compare) = match make.tape.below(23) {
        0..=4 => make.rows(),
        5 => make.distinct(),
        6 | 7 => make.groups(),
        8 | 9 => make.windows(),
        10 => make.join(),
        11 => make.repeated(),
        12 => make.subquery(),
        13 => make.counts(),
        14 | 15 => make.filtered(),
        16 | 17 => {
            let (sql, compare, other) = make.nulls_added();
            same = Some(other);
            (sql, compare)
        }
        18 | 19 => {
            let (sql, compare, other) = make.piped();
            same = Some(other);
            (sql, compare)
        }
        20 | 21 => {
            let (sql, compare, other) = make.correlated();
            same = other;
            (sql, compare)
        }
        _ => make.arrays(),
    };
    Statement { sql, grant, compare, same }
}

struct Make<'m, 't> {
    tape: &'m mut Tape<'t>,
    facts: Facts,
}

impl Make<'_, '_> {
    fn below(&mut self, n: usize) -> usize {
        self.tape.below(n)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        self.tape.pick(of)
    }

    fn filter(&mut self, at: Names) -> String {
        match (self.below(5), at.u) {
            (0 | 1, _) => String::new(),
            // What the scan's index of texts in records is asked for, and no more.
            (2 | 3, Some("w.url")) => format!(" WHERE {}", self.text_condition("w.url")),
            _ => format!(" WHERE {}", self.condition(at, 2)),
        }
    }

    fn limit(&mut self) -> Option<String> {
        if self.below(3) == 0 {
            return None;
        }
        let rows = self.pick(&[1, 3, 10, 10, 50, 100]);
        let offset = self.pick(&[0, 0, 0, 2, 25]);
        Some(if offset == 0 { format!(" LIMIT {rows}") } else { format!(" LIMIT {rows} OFFSET {offset}") })
    }

    fn direction(&mut self) -> &'static str {
        self.pick(&[" DESC", " DESC", "", " ASC", " DESC NULLS FIRST", " ASC NULLS LAST"])
    }

    /// Keys for an order, newest first more often than others; and whether they order wholly.
    fn keys(&mut self, at: Names, unique: bool) -> (Vec<String>, bool) {
        let time = format!("{}{}", at.ts, self.direction());
        let wholly = unique && self.facts.unique_times;
        match self.below(10) {
            0..=3 => (vec![time], wholly),
            4 | 5 => (vec![time, format!("{}{}", at.id, self.direction())], unique),
            6 => (vec![format!("{}{}", at.p, self.direction()), time, at.id.to_owned()], unique),
            7 => (
                vec![format!("{}{}", self.pick(&[at.n, at.s, at.l, at.k]), self.direction()), at.id.to_owned()],
                unique,
            ),
            8 => (vec![format!("{}{}", at.id, self.direction())], unique),
            _ => (vec![time, format!("{}{}", at.n, self.direction())], wholly),
        }
    }

    /// An order that leaves equal only rows that are the same.
    fn whole_order(&mut self, at: Names, unique: bool) -> String {
        let (mut keys, wholly) = self.keys(at, unique);
        if !wholly {
            let rest = if unique { vec![at.id] } else { vec![at.id, at.ts, at.p, at.k, at.n, at.s, at.l] };
            keys.extend(rest.into_iter().map(str::to_owned));
        }
        format!(" ORDER BY {}", keys.join(", "))
    }

    /// Rows of the table or of other relations, with or without an order and a limit of their own.
    fn relation(&mut self, depth: usize) -> Relation {
        let (mut relation, at) = match self.below(if depth == 0 { 4 } else { 8 }) {
            0..=2 => {
                let columns =
                    "id, timestamp AS ts, project AS p, event_message AS k, n, metadata[0].status AS s, late AS l";
                (Relation { sql: format!("SELECT {columns} FROM t{}", self.filter(STORED)), unique: true }, STORED)
            }
            3 => {
                let join = self.pick(&[
                    "LEFT JOIN UNNEST(t.metadata) AS m ON TRUE LEFT JOIN UNNEST(m.web) AS w ON TRUE",
                    "CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.web) AS w",
                ]);
                let columns = "id, timestamp AS ts, project AS p, event_message AS k, n, m.status AS s, late AS l";
                let sql = format!("SELECT {columns} FROM t {join}{}", self.filter(JOINED));
                (Relation { sql, unique: true }, JOINED)
            }
            4..=6 => {
                let inner = self.relation(depth - 1);
                let columns = self.pick(&["*", "id, ts, p, k, n, s, l", "id, ts, p, UPPER(k) AS k, n + 1 AS n, s, l"]);
                let sql = format!("SELECT {columns} FROM ({}) AS r{}", inner.sql, self.filter(NAMED));
                // The names of a select list count in ORDER BY.
                return self.cut(Relation { sql, unique: inner.unique }, NAMED);
            }
            _ => {
                let (one, other) = (self.relation(depth - 1), self.relation(depth - 1));
                let sql = format!("SELECT * FROM (({}) UNION ALL ({})) AS u{}", one.sql, other.sql, self.filter(NAMED));
                (Relation { sql, unique: false }, NAMED)
            }
        };
        if relation.unique && self.below(3) == 0 {
            // Names of the select list or of the table.
            let at = if self.tape.yes() { at } else { NAMED };
            relation = self.cut(relation, at);
        } else if !relation.unique {
            relation = self.cut(relation, NAMED);
        }
        relation
    }

    fn cut(&mut self, mut relation: Relation, at: Names) -> Relation {
        if self.below(2) == 0
            && let Some(limit) = self.limit()
        {
            let order = self.whole_order(at, relation.unique);
            relation.sql.push_str(&order);
            relation.sql.push_str(&limit);
        }
        relation
    }

    /// What a log viewer asks, and the same over other relations.
    fn rows(&mut self) -> (String, Compare) {
        let (from, at, unique, with) = match self.below(7) {
            0..=2 => ("t".to_owned(), STORED, true, String::new()),
            3 | 4 => {
                let from = "t CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.web) AS w";
                (from.to_owned(), JOINED, true, String::new())
            }
            5 => {
                let relation = self.relation(2);
                (format!("({}) AS r", relation.sql), NAMED, relation.unique, String::new())
            }
            _ => {
                let relation = self.relation(2);
                ("w".to_owned(), NAMED, relation.unique, format!("WITH w AS ({}) ", relation.sql))
            }
        };
        let (keys, wholly) = self.keys(at, unique);
        let mut columns: Vec<String> =
            keys.iter().map(|key| key.split(' ').next().unwrap_or_default().to_owned()).collect();
        let shown = [
            at.id.to_owned(),
            at.k.to_owned(),
            at.s.to_owned(),
            format!("UPPER({})", at.k),
            format!("STRUCT({}, {})", at.id, at.ts),
            format!("CONCAT({}, '!')", at.p),
            at.ts.to_owned(),
            at.n.to_owned(),
            "1".to_owned(),
        ];
        columns.extend((0..self.below(5)).map(|_| shown[self.below(shown.len())].clone()));
        let list: Vec<String> = columns.iter().enumerate().map(|(i, column)| format!("{column} AS c{i}")).collect();
        let body = format!("{with}SELECT {} FROM {from}{}", list.join(", "), self.filter(at));
        if self.below(6) == 5 {
            return (body, Compare::Bag);
        }
        let ordered = format!("{body} ORDER BY {}", keys.join(", "));
        match self.limit() {
            None if wholly => (ordered, Compare::Rows),
            None => (ordered, Compare::Keys(keys.len())),
            Some(limit) if wholly => (format!("{ordered}{limit}"), Compare::Rows),
            Some(limit) => (format!("{ordered}{limit}"), Compare::Cut(keys.len(), body)),
        }
    }

    /// Rows of the table without an order, which a reader may also follow.
    fn filtered(&mut self) -> (String, Compare) {
        let (from, at) = match self.below(3) {
            0 => ("t CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.web) AS w", JOINED),
            _ => ("t", STORED),
        };
        let shown = format!("{}, {} AS s, UPPER({}) AS k, {}, {}", at.id, at.s, at.k, at.n, at.l);
        let columns =
            self.pick(&["*", shown.as_str()]).replace('*', if at.u == JOINED.u { "t.*, m.status" } else { "*" });
        (format!("SELECT {columns} FROM {from}{}", self.filter(at)), Compare::Bag)
    }

    fn distinct(&mut self) -> (String, Compare) {
        let relation = self.relation(2);
        let columns =
            self.pick(&[&["p"][..], &["ts"], &["n", "p"], &["k"], &["ts", "p"], &["s"], &["id"], &["p", "l", "s"]]);
        let list = columns.join(", ");
        let body = match self.below(3) {
            0 => format!("SELECT {list} FROM ({}) AS r GROUP BY {list}", relation.sql),
            _ => format!("SELECT DISTINCT {list} FROM ({}) AS r{}", relation.sql, self.filter(NAMED)),
        };
        let keys: Vec<String> = columns.iter().map(|column| format!("{column}{}", self.direction())).collect();
        self.finished(body, &keys)
    }

    /// An order over all of the columns, and a limit.
    fn finished(&mut self, body: String, keys: &[String]) -> (String, Compare) {
        if self.below(6) == 5 {
            return (body, Compare::Bag);
        }
        let limit = self.limit().unwrap_or_default();
        (format!("{body} ORDER BY {}{limit}", keys.join(", ")), Compare::Rows)
    }

    fn groups(&mut self) -> (String, Compare) {
        let (from, at) = if self.tape.yes() {
            ("t".to_owned(), STORED)
        } else {
            let relation = self.relation(2);
            (format!("({}) AS r", relation.sql), NAMED)
        };
        let key = match self.below(12) {
            0 => at.p.to_owned(),
            1 => at.s.to_owned(),
            2 => format!("TIMESTAMP_TRUNC({}, MINUTE)", at.ts),
            3 => at.ts.to_owned(),
            4 => format!("CONCAT({}, {})", at.p, at.k),
            5 => at.l.to_owned(),
            6 => at.k.to_owned(),
            7 => format!("{} * 1000000000000", at.n),
            8 => format!("{} > 20", at.n),
            9 => format!("{} / NUMERIC '3'", at.n),
            10 => format!("RANGE(TIMESTAMP_TRUNC({}, MINUTE), NULL)", at.ts),
            _ => at.n.to_owned(),
        };
        let second = self.pick(&["", "", at.p, at.l, at.n]);
        let values = [
            "COUNT(*)".to_owned(),
            format!("COUNT({})", at.n),
            format!("SUM({})", at.n),
            format!("MIN({})", at.ts),
            format!("MAX({})", at.ts),
            format!("MAX(RANGE(NULL, {}))", at.ts),
            format!("MAX({})", at.id),
            format!("MIN({})", at.n),
            // Of whole numbers, which floats hold exactly.
            format!("AVG({})", at.n),
            // Decimals are exact in any order of the rows.
            format!("SUM(NUMERIC '0.1' * {})", at.n),
            format!("AVG(CAST({} AS BIGNUMERIC) / 3)", at.n),
            format!("VAR_POP(CAST({} AS NUMERIC))", at.n),
            format!("COUNT(DISTINCT CAST({} AS NUMERIC))", at.n),
            format!("COUNT(DISTINCT {})", at.p),
            format!("COUNT(DISTINCT {})", at.l),
            format!("COUNT(DISTINCT {})", at.k),
            format!("COUNT(DISTINCT {})", at.id),
            format!("COUNTIF({} = 'p1')", at.p),
            format!("STRING_AGG(DISTINCT {} ORDER BY {})", at.p, at.p),
        ];
        let (one, other) = (&values[self.below(values.len())], &values[self.below(values.len())]);
        let filter = self.filter(at);
        if self.below(5) == 0 {
            return (format!("SELECT {one} AS a, {other} AS b FROM {from}{filter}"), Compare::Rows);
        }
        let having = self.pick(&["", "", " HAVING COUNT(*) > 2"]);
        let (column, keys) =
            if second.is_empty() { (String::new(), "1") } else { (format!("{second} AS h, "), "1, 2") };
        let body =
            format!("SELECT {key} AS g, {column}{one} AS a, {other} AS b FROM {from}{filter} GROUP BY {keys}{having}");
        let mut keys = match self.below(4) {
            0 => vec![format!("g{}", self.direction())],
            1 => vec![format!("a{}", self.direction()), "g".to_owned()],
            2 => vec![format!("b{}", self.direction()), "a".to_owned(), "g DESC".to_owned()],
            _ => return (body, Compare::Bag),
        };
        if !second.is_empty() {
            keys.push("h".to_owned());
        }
        self.finished(body, &keys)
    }

    fn windows(&mut self) -> (String, Compare) {
        let (from, at, unique) = if self.tape.yes() {
            ("t".to_owned(), STORED, true)
        } else {
            let relation = self.relation(1);
            (format!("({}) AS r", relation.sql), NAMED, relation.unique)
        };
        if !unique {
            let body = format!(
                "SELECT {p} AS p, {ts} AS ts, RANK() OVER (PARTITION BY {p} ORDER BY {ts}{}) AS r, COUNT(*) OVER (PARTITION BY {p}) AS c FROM {from}",
                self.direction(),
                p = at.p,
                ts = at.ts
            );
            return (body, Compare::Bag);
        }
        let partition = match self.below(4) {
            0 | 1 => String::new(),
            2 => format!("PARTITION BY {} ", at.p),
            _ => format!("PARTITION BY {}, {} ", at.s, at.p),
        };
        let order = self.whole_order(at, true);
        let order = order.trim_start();
        let call = match self.below(8) {
            0 | 1 => "ROW_NUMBER()".to_owned(),
            2 => format!("SUM({})", at.n),
            3 => format!("LAG({})", at.id),
            4 => format!("LEAD({})", at.id),
            5 => format!("FIRST_VALUE({})", at.id),
            6 => "RANK()".to_owned(),
            _ => "COUNT(*)".to_owned(),
        };
        let more = match self.below(4) {
            0 => format!(", MAX({}) OVER (PARTITION BY {}) AS more", at.ts, at.p),
            1 => format!(", COUNT(*) OVER (ORDER BY {}) AS more", at.ts),
            _ => String::new(),
        };
        let mut body = format!(
            "SELECT {} AS id, {} AS ts, {call} OVER ({partition}{order}) AS w{more} FROM {from}{}",
            at.id,
            at.ts,
            self.filter(at)
        );
        if self.below(4) == 0 {
            let order = self.whole_order(at, true);
            body = format!("{body} QUALIFY ROW_NUMBER() OVER (PARTITION BY {}{order}) <= {}", at.p, 1 + self.below(3));
        }
        let keys = match self.below(4) {
            0 => vec![format!("ts{}", self.direction()), "id".to_owned()],
            1 => vec![format!("w{}", self.direction()), "id".to_owned()],
            2 => vec![format!("id{}", self.direction())],
            _ => return (body, Compare::Bag),
        };
        self.finished(body, &keys)
    }

    fn join(&mut self) -> (String, Compare) {
        if self.below(3) == 0 {
            return self.floats();
        }
        let (one, other) = (self.relation(1), self.relation(1));
        let on = match self.below(4) {
            0 | 1 => "a.id = b.id".to_owned(),
            2 => "a.ts = b.ts AND a.p = b.p".to_owned(),
            _ => format!("a.id = b.id AND a.{} <= b.ts", "ts"),
        };
        let kind = self.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
        let columns = "a.id AS i, a.ts AS t, b.id AS j, b.k AS k, b.n AS n, a.s AS s";
        let from = format!("FROM ({}) AS a {kind} ({}) AS b ON {on}", one.sql, other.sql);
        if self.below(3) == 0 {
            return (format!("SELECT COUNT(*) AS c, MIN(a.ts) AS x, MAX(b.id) AS y {from}"), Compare::Rows);
        }
        let time = format!("t{}", self.direction());
        let keys = [time, "i".to_owned(), "j DESC".to_owned(), "k".to_owned(), "n".to_owned(), "s".to_owned()];
        self.finished(format!("SELECT {columns} {from}"), &keys)
    }

    /// What compares numbers of which two are zeros.
    /// A column that a filter makes constant, above an outer join or grouping sets that add NULLs to it; and the same with
    /// a filter of which the engine does not see that.
    fn nulls_added(&mut self) -> (String, Compare, String) {
        let (name, constant, hidden) = self.pick(&[
            ("p", "p = 'p1'", "CONCAT(p, '') = 'p1'"),
            ("n", "n = 20", "n * 2 = 40"),
            ("s", "s = 404", "s * 2 = 808"),
            ("l", "l = 'b'", "CONCAT(l, '') = 'b'"),
            ("k", "k = 'GET 3'", "CONCAT(k, '') = 'GET 3'"),
        ]);
        let (key, direction) = (format!("b.{name}"), self.direction());
        let filtered = format!("(SELECT * FROM ({}) AS r WHERE CONDITION) AS b", self.relation(0).sql);
        let (sql, compare) = if self.below(3) == 0 {
            let sets = self.pick(&[
                "ROLLUP(KEY, b.id)",
                "CUBE(KEY, b.ts)",
                "GROUPING SETS ((KEY), (b.id), ())",
                "ROLLUP(KEY)",
            ]);
            let body = format!(
                "SELECT {key} AS x, COUNT(*) AS c, MIN(b.id) AS i, RANK() OVER (ORDER BY {key}{direction}) AS r \
                 FROM {filtered} GROUP BY {}",
                sets.replace("KEY", &key)
            );
            self.finished(body, &[format!("x{direction}"), "c".to_owned(), "i".to_owned(), "r".to_owned()])
        } else {
            let other = format!("({}) AS a", self.relation(0).sql);
            let kind = self.pick(&["LEFT", "RIGHT", "FULL"]);
            let (left, right) = if self.tape.yes() { (other, filtered) } else { (filtered, other) };
            let from = format!("{left} {kind} JOIN {right} ON a.id = b.id");
            match self.below(3) {
                0 => {
                    let body = format!("SELECT {key} AS x, a.id AS i, b.id AS j FROM {from}");
                    self.finished(body, &[format!("{key}{direction}"), "a.id".to_owned(), "b.id".to_owned()])
                }
                1 => {
                    let windows = format!(
                        "RANK() OVER (ORDER BY {key}{direction}) AS r, \
                         LAG(a.id) OVER (ORDER BY {key}{direction}, a.id, b.id) AS g, \
                         COUNT(*) OVER (PARTITION BY {key} ORDER BY a.id, b.id) AS c"
                    );
                    (format!("SELECT a.id AS i, b.id AS j, {windows} FROM {from}"), Compare::Bag)
                }
                _ => {
                    let group = self.pick(&["ROLLUP(KEY)", "KEY", "CUBE(KEY, a.p)"]).replace("KEY", &key);
                    let body = format!("SELECT {key} AS x, COUNT(*) AS c, MAX(a.id) AS i FROM {from} GROUP BY {group}");
                    self.finished(body, &[format!("x{direction}"), "c".to_owned(), "i".to_owned()])
                }
            }
        };
        (sql.replace("CONDITION", constant), compare, sql.replace("CONDITION", hidden))
    }

    fn floats(&mut self) -> (String, Compare) {
        let all = |filter: String| format!("SELECT id, z, n AS x FROM t{filter}");
        let (one, other) = (all(self.filter(STORED)), all(self.filter(STORED)));
        let keys = match self.below(4) {
            0 => format!("SELECT MIN(z) AS z FROM ({other}) AS r"),
            1 => format!("SELECT MAX(z) AS z FROM ({other}) AS r GROUP BY x"),
            2 => format!("SELECT DISTINCT z FROM ({other}) AS r WHERE x = 21"),
            _ => format!("SELECT z FROM ({other}) AS r"),
        };
        let sql = match self.below(5) {
            0 | 1 => {
                let kind = self.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
                format!(
                    "SELECT COUNT(*) AS c, MIN(a.id) AS i, COUNT(b.z) AS n FROM ({one}) AS a {kind} ({keys}) AS b ON a.z = b.z"
                )
            }
            2 => {
                let negated = self.pick(&["", "NOT "]);
                format!("SELECT COUNT(*) AS c, MAX(id) AS i FROM ({one}) AS a WHERE z {negated}IN ({keys})")
            }
            3 => format!(
                "SELECT z, COUNT(*) AS c, MIN(id) AS i FROM ({one}) AS a GROUP BY z ORDER BY z{}",
                self.direction()
            ),
            _ => {
                let limit = self.limit().unwrap_or_default();
                format!("SELECT id, x FROM ({one}) AS a ORDER BY z{}, id, x{limit}", self.direction())
            }
        };
        (sql, Compare::Rows)
    }

    /// Rows that are there several times, and each of them once.
    fn repeated(&mut self) -> (String, Compare) {
        let relation = self.relation(1);
        let column = self.pick(&["ts", "p", "n", "id"]);
        let (inner, outer) = (self.direction(), self.direction());
        let times = 2 + self.below(2);
        let parts = vec![format!("SELECT {column} AS x FROM s"); times].join(" UNION ALL ");
        let limit = self.limit().unwrap_or_default();
        let cut = if self.tape.yes() { " LIMIT 3" } else { " LIMIT 40" };
        let distinct = match self.below(3) {
            0 => "SELECT x FROM u GROUP BY x",
            1 => "SELECT DISTINCT x FROM u",
            _ => "SELECT x, COUNT(*) AS c FROM u GROUP BY x",
        };
        let sql = format!(
            "WITH s AS (SELECT DISTINCT {column} FROM ({}) AS r ORDER BY {column}{inner}{cut}), u AS ({parts}) \
             {distinct} ORDER BY x{outer}{limit}",
            relation.sql
        );
        (sql, Compare::Rows)
    }

    /// Rows that are counted by one column: a scan may count them without making rows.
    fn counts(&mut self) -> (String, Compare) {
        let of_record = "t CROSS JOIN UNNEST(metadata) AS m";
        let of_inner = "t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.o) AS o";
        let (key, from) = self.pick(&[
            ("project", "t"),
            ("n", "t"),
            ("event_message", "t"),
            ("late", "t"),
            ("metadata[0].status", "t"),
            ("m.status", of_record),
            ("m.trace", of_record),
            ("o.x", of_inner),
        ]);
        let counts = self.pick(&["", ", COUNT(*) AS c", ", COUNT(*) AS c, COUNT(1) AS d"]);
        // A condition on the value itself is applied to the counted values.
        let of_value = match self.below(4) {
            0 => format!("{key} IS NOT NULL"),
            1 => format!("CAST({key} AS STRING) LIKE '%{}%'", self.below(4)),
            2 => format!("CAST({key} AS STRING) > '{}'", self.below(5)),
            _ => format!("{key} IS NULL OR CAST({key} AS STRING) <> '1'"),
        };
        let filter = match self.below(6) {
            0 | 1 => String::new(),
            2 => " WHERE project = 'p1'".to_owned(),
            3 => format!(" WHERE {of_value}"),
            4 => format!(" WHERE ({of_value}) AND {}", self.condition(STORED, 1)),
            _ => self.filter(STORED),
        };
        if self.below(3) == 0 {
            return (format!("SELECT COUNT(*) AS c FROM {from}{filter}"), Compare::Rows);
        }
        (format!("SELECT {key} AS g{counts} FROM {from}{filter} GROUP BY {key}"), Compare::Bag)
    }

    fn subquery(&mut self) -> (String, Compare) {
        let inner = self.relation(1);
        let condition = match self.below(5) {
            0 | 1 => format!("id {}IN (SELECT id FROM ({}) AS q)", self.pick(&["", "NOT "]), inner.sql),
            2 => format!("timestamp {} (SELECT MAX(ts) FROM ({}) AS q)", self.pick(&["<", ">=", "="]), inner.sql),
            3 => format!("EXISTS (SELECT 1 FROM ({}) AS q WHERE q.id = t.id)", inner.sql),
            _ => format!("timestamp IN (SELECT ts FROM ({}) AS q)", inner.sql),
        };
        let and = if self.tape.yes() { format!(" AND {}", self.condition(STORED, 1)) } else { String::new() };
        let (keys, wholly) = self.keys(STORED, true);
        let body = format!("SELECT id, timestamp, project, n FROM t WHERE {condition}{and}");
        let id = if wholly { "" } else { ", id" };
        let limit = self.limit().unwrap_or_default();
        (format!("{body} ORDER BY {}{id}{limit}", keys.join(", ")), Compare::Rows)
    }

    fn arrays(&mut self) -> (String, Compare) {
        match self.below(3) {
            0 => {
                let relation = self.relation(1);
                let order = self.whole_order(NAMED, relation.unique);
                let limit = self.pick(&["", " LIMIT 1", " LIMIT 4"]);
                let sql =
                    format!("SELECT p AS g, ARRAY_AGG(id{order}{limit}) AS a FROM ({}) AS r GROUP BY p", relation.sql);
                (sql, Compare::Bag)
            }
            1 => {
                let body = "SELECT id, tag, at FROM t CROSS JOIN UNNEST(metadata[0].tags) AS tag WITH OFFSET AS at";
                let body = format!("{body}{}", self.filter(STORED));
                let keys = [format!("timestamp{}", self.direction()), "id".to_owned(), "at".to_owned()];
                self.finished(body, &keys)
            }
            _ => {
                let sql = format!(
                    "SELECT o.x AS x, COUNT(*) AS c, MAX(timestamp) AS m FROM t CROSS JOIN UNNEST(metadata) AS m \
                     CROSS JOIN UNNEST(m.o) AS o{} GROUP BY x",
                    self.filter(STORED)
                );
                self.finished(sql, &["c DESC".to_owned(), "x".to_owned()])
            }
        }
    }
}
