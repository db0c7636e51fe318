"""Random statements without tables of the store: each carries its rows, and follows from a seed and its number.

They have one answer. Nothing in them depends on the order of rows that are equal in it, no sum of floats on the order
of its rows, and no function fails for some row: what of a failing row is computed is no rule of the language.
"""

import random

COLUMNS = {
    "id": "INT64",
    "k": "INT64",
    "s": "STRING",
    "f": "FLOAT64",
    "n": "NUMERIC",
    "b": "BOOL",
    "d": "DATE",
    "z": "TIMESTAMP",
    "a": "ARRAY<INT64>",
    "r": "STRUCT<x INT64, y STRING>",
}
PLAIN = ["INT64", "STRING", "FLOAT64", "NUMERIC", "BOOL", "DATE", "TIMESTAMP"]
TEXTS = ["''", "'a'", "'B'", "'ab'", "'b a'", "'ä'", "'7'", "'-2.5'", "'true'"]
DATES = ["DATE '2024-02-29'", "DATE '2023-12-31'", "DATE '2024-03-01'", "DATE '1969-07-20'"]
TIMES = [
    "TIMESTAMP '2024-02-29 23:59:59.5+00'",
    "TIMESTAMP '1969-12-31 23:00:00+00'",
    "TIMESTAMP '2024-03-01 00:00:00.000001+00'",
]
FLOATS = ["0.25", "-1.5", "3.0", "1e3", "CAST('nan' AS FLOAT64)", "CAST('inf' AS FLOAT64)", "CAST('-inf' AS FLOAT64)"]
NUMERICS = ["NUMERIC '0.1'", "NUMERIC '-2.675'", "NUMERIC '3'", "NUMERIC '0.000000001'", "NUMERIC '99.5'"]


class Statement:
    """One statement: `text`, and whether its rows have an order."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed}/{number}")
        self.names = 0
        tables = ", ".join(f"{name} AS ({self.rows()})" for name in ("t", "u", "v"))
        text, columns = self.pipes() if self.chance(4) else self.query(2)
        self.is_ordered = False
        keys = [f"{i + 1}" for i, (_, kind) in enumerate(columns) if kind in PLAIN]
        if len(keys) == len(columns) and self.chance(2):
            self.is_ordered = True
            keys = [key + self.pick(["", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"]) for key in keys]
            text = f"SELECT * FROM ({text}) ORDER BY {', '.join(keys)}{self.pick(['', ' LIMIT 3', ' LIMIT 2 OFFSET 1'])}"
        self.text = f"WITH {tables} {text}" if not text.startswith("FROM") else f"WITH {tables} SELECT * FROM ({text})"

    def chance(self, of):
        return self.random.randrange(of) == 0

    def pick(self, these):
        return self.random.choice(these)

    def name(self):
        self.names += 1
        return f"c{self.names}"

    # Rows

    def rows(self):
        count = self.pick([1, 3, 5, 5, 8, 8]) if not self.chance(12) else 0
        kinds = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        rows = ", ".join(f"({self.row(i)})" for i in range(count))
        return f"SELECT * FROM UNNEST(ARRAY<STRUCT<{kinds}>>[{rows}])"

    def row(self, i):
        array = f"[{', '.join(str(self.random.randrange(4)) for _ in range(self.random.randrange(4)))}]"
        values = [
            str(i),
            self.or_null(str(self.random.randrange(-1, 3))),
            self.or_null(self.pick(TEXTS)),
            self.or_null(self.pick(FLOATS)),
            self.or_null(self.pick(NUMERICS)),
            self.or_null(self.pick(["TRUE", "FALSE"])),
            self.or_null(self.pick(DATES)),
            self.or_null(self.pick(TIMES)),
            array,
            self.or_null(f"STRUCT({self.random.randrange(3)}, {self.or_null(self.pick(TEXTS))})"),
        ]
        return ", ".join(values)

    def or_null(self, value):
        return "NULL" if self.chance(5) else value

    # Expressions: `columns` are pairs of a name and a type; `tables` says whether subqueries may stand in them.

    def value(self, kind, columns, depth):
        fitting = [name for name, of in columns if of == kind]
        if depth <= 0 or (fitting and self.chance(3)):
            return self.pick(fitting) if fitting and not self.chance(4) else self.literal(kind)
        return self.pick(FORMS[kind])(lambda of: self.value(of, columns, depth - 1), self, columns)

    def literal(self, kind):
        if self.chance(12):
            return f"CAST(NULL AS {kind})"
        if kind == "INT64":
            return str(self.random.randrange(-3, 10))
        if kind == "ARRAY<INT64>":
            return self.pick(["[1, 2]", "[3]", "[0, 0, 1]"])
        if kind == "BOOL":
            return self.pick(["TRUE", "FALSE"])
        return self.pick({"STRING": TEXTS, "FLOAT64": FLOATS, "NUMERIC": NUMERICS, "DATE": DATES, "TIMESTAMP": TIMES}[kind])

    def plain(self):
        return self.pick(PLAIN)

    # Queries: each gives its text and its columns.

    def query(self, depth):
        if depth and self.chance(6):
            return self.union(depth)
        source, columns = self.source(depth)
        where = f" WHERE {self.value('BOOL', columns, 2)}" if self.chance(3) else ""
        make = self.pick([self.select, self.select, self.grouped, self.grouped, self.windows])
        items, tail = make(columns)
        named = [(self.name(), text, kind) for text, kind in items]
        listed = ", ".join(f"{text} AS {name}" for name, text, _ in named)
        distinct = "DISTINCT " if make == self.select and self.chance(4) else ""
        return f"SELECT {distinct}{listed} FROM {source}{where}{tail}", [(name, kind) for name, _, kind in named]

    def source(self, depth):
        text, columns = self.table(depth)
        for _ in range(self.pick([0, 0, 1, 1, 2])):
            if self.chance(4):
                alias, place = self.name(), self.name()
                arrays = [name for name, kind in columns if kind == "ARRAY<INT64>"]
                array = self.pick(arrays) if arrays else "[1, 2]"
                text += f" {self.pick(['CROSS', 'LEFT'])} JOIN UNNEST({array}) AS {alias} WITH OFFSET AS {place}"
                columns = columns + [(alias, "INT64"), (place, "INT64")]
                continue
            other, more = self.table(depth)
            both = columns + more
            kind = self.pick(["", "LEFT ", "RIGHT ", "FULL ", "CROSS "])
            text += f" {kind}JOIN {other}"
            if kind != "CROSS ":
                text += f" ON {self.condition(columns, more)}"
            columns = both
        return text, columns

    def condition(self, left, right):
        kind = self.pick(["INT64", "STRING", "FLOAT64", "NUMERIC", "DATE"])
        sides = [[name for name, of in side if of == kind] for side in (left, right)]
        conditions = [f"{self.pick(sides[0])} = {self.pick(sides[1])}"] if all(sides) and not self.chance(5) else []
        if not conditions or self.chance(3):
            # A subquery in the condition of an outer join may read one side only.
            of_both = compared(lambda kind: self.value(kind, left + right, 0), self)
            conditions.append(self.pick([of_both, self.value("BOOL", left, 1), self.value("BOOL", right, 1)]))
        return " AND ".join(f"({condition})" for condition in conditions)

    def table(self, depth):
        alias = self.name()
        if depth and self.chance(4):
            text, columns = self.query(depth - 1)
            return f"({text}) AS {alias}", [(f"{alias}.{name}", kind) for name, kind in columns]
        columns = [(f"{alias}.{name}", kind) for name, kind in COLUMNS.items()]
        return f"{self.pick(['t', 'u', 'v'])} AS {alias}", columns + [(f"{alias}.r.x", "INT64"), (f"{alias}.r.y", "STRING")]

    def select(self, columns):
        kinds = [self.plain() for _ in range(self.pick([1, 2, 4]))]
        return [(self.value(kind, columns, 3), kind) for kind in kinds], ""

    def grouped(self, columns):
        kinds = [self.plain() for _ in range(self.pick([0, 1, 1, 2]))]
        keys = [self.value(kind, columns, 1) for kind in kinds]
        keys = [key if any(name in key for name, _ in columns) else None for key in keys]
        pairs = [(key, kind) for key, kind in zip(keys, kinds) if key]
        aggregates = [self.aggregate(columns) for _ in range(self.pick([1, 2, 3]))]
        places = [str(i + 1) for i in range(len(pairs))]
        if not places:
            return aggregates, ""
        form = self.pick(["{}", "{}", "ROLLUP({})", "CUBE({})", "GROUPING SETS({}, ())"])
        having = f" HAVING {self.pick(['COUNT(*) > 1', 'COUNT(*) >= 1', 'MIN(1) = 1'])}" if self.chance(4) else ""
        if form == "{}":
            return pairs + aggregates, f" GROUP BY {', '.join(places)}{having}"
        # A set that has no key gives NULL for it; keys are named by the places of their items.
        return pairs + aggregates, f" GROUP BY {form.format(', '.join(places))}{having}"

    def aggregate(self, columns):
        kind = self.plain()
        value = self.value(kind, columns, 1)
        number = self.pick(["INT64", "NUMERIC", "FLOAT64"])
        summed = self.value(number, columns, 1)
        # Of several infinities the evaluator's AVG is NaN.
        averaged, average = self.pick([("INT64", "FLOAT64"), ("NUMERIC", "NUMERIC")])
        condition = self.value("BOOL", columns, 1)
        text, number_key = self.value("STRING", columns, 1), self.value("INT64", columns, 1)
        return self.pick([
            ("COUNT(*)", "INT64"),
            (f"COUNT({value})", "INT64"),
            (f"COUNT(DISTINCT {value})", "INT64"),
            (f"COUNTIF({condition})", "INT64"),
            (f"SUM({summed})", number),
            (f"SUM(DISTINCT {summed})", number),
            (f"AVG({self.value(averaged, columns, 1)})", average),
            (f"MIN({value})", kind),
            (f"MAX({value})", kind),
            (f"LOGICAL_AND({condition})", "BOOL"),
            (f"LOGICAL_OR({condition})", "BOOL"),
            (f"BIT_XOR({self.value('INT64', columns, 1)})", "INT64"),
            (f"VAR_POP({self.value('INT64', columns, 1)})", "FLOAT64"),
            (f"STRING_AGG(DISTINCT {text}, '|' ORDER BY {text})", "STRING"),
            (f"ARRAY_LENGTH(ARRAY_AGG({value}))", "INT64"),
            (f"TO_JSON_STRING(ARRAY_AGG({text} IGNORE NULLS ORDER BY {text} DESC LIMIT 3))", "STRING"),
            (f"TO_JSON_STRING(ARRAY_AGG(DISTINCT {number_key} IGNORE NULLS ORDER BY {number_key}))", "STRING"),
        ])

    def windows(self, columns):
        ids = [name for name, _ in columns if name.endswith(".id")] or [name for name, kind in columns if kind in PLAIN]
        # Where the keys of the order may be equal, only frames that have all equal rows or none have one answer.
        is_unique = len({name.split(".")[0] for name, _ in columns}) == 1 and bool(columns[0][0].endswith(".id"))
        items = []
        for _ in range(self.pick([1, 2])):
            kind = self.plain()
            key = self.pick([kind for kind in PLAIN if kind != "FLOAT64"])
            by = self.pick(["", f"PARTITION BY {self.value(key, columns, 1)} "])
            order = "ORDER BY " + ", ".join(f"{name}{self.pick(['', ' DESC'])}" for name in ids)
            value, number = self.value(kind, columns, 1), self.value("INT64", columns, 1)
            rows = [
                " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
            ]
            frame = self.pick(["", " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"] + rows * is_unique)
            items.append(self.pick([
                (f"RANK() OVER ({by}{order})", "INT64"),
                (f"DENSE_RANK() OVER ({by}{order})", "INT64"),
                (f"PERCENT_RANK() OVER ({by}{order})", "FLOAT64"),
                (f"CUME_DIST() OVER ({by}{order})", "FLOAT64"),
                (f"SUM({number}) OVER ({by}{order}{frame})", "INT64"),
                (f"COUNT({value}) OVER ({by}{order}{frame})", "INT64"),
                (f"COUNT(DISTINCT {value}) OVER ({by.strip()})", "INT64"),
                (f"MIN({value}) OVER ({by}{order}{frame})", kind),
                (f"MAX({value}) OVER ({by}{order}{frame})", kind),
                (f"AVG({number}) OVER ({by.strip()})", "FLOAT64"),
            ]))
        return items + [(name, "INT64" if name.endswith(".id") else dict(columns)[name]) for name in ids[:1]], ""

    def union(self, depth):
        kinds = [self.plain() for _ in range(self.pick([1, 2]))]
        names = [self.name() for _ in kinds]
        sides = []
        for _ in range(2):
            source, columns = self.source(depth - 1)
            items = ", ".join(f"{self.value(kind, columns, 2)} AS {name}" for name, kind in zip(names, kinds))
            sides.append(f"SELECT {items} FROM {source}")
        form = self.pick(["UNION ALL", "UNION DISTINCT", "INTERSECT DISTINCT", "EXCEPT DISTINCT"])
        return f"({sides[0]}) {form} ({sides[1]})", list(zip(names, kinds))

    def pipes(self):
        alias = self.name()
        text = f"FROM {self.pick(['t', 'u', 'v'])} AS {alias}"
        columns = [(f"{alias}.{name}", kind) for name, kind in COLUMNS.items()]
        for _ in range(self.pick([1, 2, 3])):
            step = self.pick(["where", "extend", "join", "select", "aggregate", "distinct"])
            if step == "where":
                text += f" |> WHERE {self.value('BOOL', columns, 2)}"
            elif step == "extend":
                name, kind = self.name(), self.plain()
                text += f" |> EXTEND {self.value(kind, columns, 2)} AS {name}"
                columns = columns + [(name, kind)]
            elif step == "join":
                other, more = self.table(0)
                more = [(name, kind) for name, kind in more if name.count(".") == 1]
                text += f" |> {self.pick(['', 'LEFT ', 'FULL '])}JOIN {other} ON {self.condition(columns, more)}"
                columns = columns + more
            else:
                kinds = [self.plain() for _ in range(self.pick([1, 2]))]
                keys = [(self.name(), self.value(kind, columns, 1), kind) for kind in kinds]
                listed = ", ".join(f"{value} AS {name}" for name, value, _ in keys)
                named = [(name, kind) for name, _, kind in keys]
                if step == "aggregate":
                    aggregate, kind = self.aggregate(columns)
                    name = self.name()
                    text += f" |> AGGREGATE {aggregate} AS {name} GROUP BY {listed}"
                    columns = named + [(name, kind)]
                else:
                    text += f" |> SELECT {listed}{' |> DISTINCT' if step == 'distinct' else ''}"
                    columns = named
        kept = [(self.name(), name, kind) for name, kind in columns if kind in PLAIN][:5]
        text += " |> SELECT " + ", ".join(f"{name} AS {new}" for new, name, _ in kept)
        return text, [(new, kind) for new, _, kind in kept]


def compared(of, statement):
    kind = statement.plain()
    operator = statement.pick(["=", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    return f"({of(kind)} {operator} {of(kind)})"


def mixed(of, statement):
    left, right = statement.pick([("INT64", "FLOAT64"), ("NUMERIC", "FLOAT64"), ("FLOAT64", "INT64")])
    return f"({of(left)} {statement.pick(['+', '-', '*'])} {of(right)})"


def subquery(of, statement, columns, form):
    """One over the rows of another table, which may read the enclosing row."""
    alias = statement.name()
    inner = [(f"{alias}.{name}", kind) for name, kind in COLUMNS.items()]
    both = inner + [(name, kind) for name, kind in columns if kind in PLAIN]
    source = f"FROM {statement.pick(['t', 'u', 'v'])} AS {alias}"
    where = f" WHERE {statement.condition(inner, both)}" if not statement.chance(3) else ""
    return form.format(alias=alias, source=source, where=where, value=of("INT64"))


# How a value of a type is made: functions of what makes a value of another type, the statement, and its columns.
FORMS = {
    "INT64": [
        lambda of, st, _: f"({of('INT64')} {st.pick(['+', '-', '*', '&', '|', '^'])} {of('INT64')})",
        lambda of, st, _: f"MOD({of('INT64')}, {st.pick(['2', '3', '-4'])})",
        lambda of, st, _: f"DIV({of('INT64')}, {st.pick(['2', '-3'])})",
        lambda of, st, _: f"{st.pick(['ABS', 'SIGN'])}({of('INT64')})",
        lambda of, st, _: f"{st.pick(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({of('INT64')}, {of('INT64')})",
        lambda of, st, _: f"{st.pick(['LENGTH', 'BYTE_LENGTH'])}({of('STRING')})",
        lambda of, st, _: f"STRPOS({of('STRING')}, {of('STRING')})",
        lambda of, st, _: f"SAFE_CAST({of('STRING')} AS INT64)",
        lambda of, st, _: f"CAST({of('BOOL')} AS INT64)",
        lambda of, st, _: f"EXTRACT({st.pick(['DAY', 'YEAR', 'DAYOFWEEK', 'ISOWEEK', 'QUARTER'])} FROM {of('DATE')})",
        lambda of, st, _: f"DATE_DIFF({of('DATE')}, {of('DATE')}, {st.pick(['DAY', 'WEEK', 'MONTH', 'ISOYEAR'])})",
        lambda of, st, _: f"TIMESTAMP_DIFF({of('TIMESTAMP')}, {of('TIMESTAMP')}, {st.pick(['SECOND', 'HOUR', 'DAY'])})",
        lambda of, st, _: f"ARRAY_LENGTH({of('ARRAY<INT64>')})",
        lambda of, st, _: f"{of('ARRAY<INT64>')}[SAFE_OFFSET({st.random.randrange(3)})]",
        lambda of, st, columns: f"(SELECT SUM(x) FROM UNNEST({of('ARRAY<INT64>')}) AS x WHERE x > {st.value('INT64', columns, 0)})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('INT64')}, {of('INT64')})",
        lambda of, st, _: f"CASE {of('STRING')} WHEN {of('STRING')} THEN {of('INT64')} WHEN 'a' THEN 1 END",
        lambda of, st, columns: subquery(of, st, columns, "(SELECT COUNT(*) {source}{where})"),
        lambda of, st, columns: subquery(of, st, columns, "(SELECT MAX({alias}.k) {source}{where})"),
    ],
    "FLOAT64": [
        lambda of, st, _: mixed(of, st),
        lambda of, st, _: f"SAFE_DIVIDE({of('FLOAT64')}, {of('INT64')})",
        lambda of, st, _: f"IEEE_DIVIDE({of('INT64')}, {of('INT64')})",
        lambda of, st, _: f"{st.pick(['ABS', 'FLOOR', 'CEIL', 'ROUND', 'TRUNC', 'SIGN'])}({of('FLOAT64')})",
        lambda of, st, _: f"ROUND({of('FLOAT64')}, {st.pick(['1', '-1', '0'])})",
        lambda of, st, _: f"CAST({of(st.pick(['INT64', 'NUMERIC']))} AS FLOAT64)",
        lambda of, st, _: f"SAFE_CAST({of('STRING')} AS FLOAT64)",
        lambda of, st, _: f"{st.pick(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({of('FLOAT64')}, {of('FLOAT64')})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('FLOAT64')}, {of('INT64')})",
    ],
    "NUMERIC": [
        lambda of, st, _: f"({of('NUMERIC')} {st.pick(['+', '-', '*'])} {of(st.pick(['NUMERIC', 'INT64']))})",
        lambda of, st, _: f"SAFE_DIVIDE({of('NUMERIC')}, {of('NUMERIC')})",
        lambda of, st, _: f"{st.pick(['ROUND', 'TRUNC'])}({of('NUMERIC')}, {st.pick(['0', '1', '2', '-1'])})",
        lambda of, st, _: f"{st.pick(['ABS', 'FLOOR', 'CEIL', 'SIGN'])}({of('NUMERIC')})",
        lambda of, st, _: f"CAST({of('INT64')} AS NUMERIC)",
        lambda of, st, _: f"SAFE_CAST({of(st.pick(['STRING', 'FLOAT64']))} AS NUMERIC)",
        lambda of, st, _: f"{st.pick(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({of('NUMERIC')}, {of('NUMERIC')})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('NUMERIC')}, {of('INT64')})",
    ],
    "STRING": [
        lambda of, st, _: f"({of('STRING')} || {of('STRING')})",
        lambda of, st, _: f"{st.pick(['UPPER', 'LOWER', 'TRIM', 'REVERSE', 'INITCAP'])}({of('STRING')})",
        lambda of, st, _: f"SUBSTR({of('STRING')}, {st.pick(['0', '1', '2', '-1', '9'])}, {st.pick(['1', '2', '0'])})",
        lambda of, st, _: f"REPLACE({of('STRING')}, {of('STRING')}, {of('STRING')})",
        lambda of, st, _: f"{st.pick(['LPAD', 'RPAD'])}({of('STRING')}, {st.pick(['0', '1', '4'])}, 'xy')",
        lambda of, st, _: f"{st.pick(['LEFT', 'RIGHT', 'REPEAT'])}({of('STRING')}, {st.pick(['0', '1', '3'])})",
        lambda of, st, _: f"CAST({of(st.pick(['INT64', 'NUMERIC', 'BOOL', 'DATE', 'FLOAT64']))} AS STRING)",
        lambda of, st, _: f"TO_JSON_STRING({of(st.plain())})",
        lambda of, st, _: f"FORMAT('%t %T', {of(st.plain())}, {of(st.plain())})",
        lambda of, st, _: f"SPLIT({of('STRING')}, {st.pick([repr(' '), repr('a')])})[SAFE_OFFSET({st.random.randrange(2)})]",
        lambda of, st, _: f"REGEXP_REPLACE({of('STRING')}, r'[ab]+', 'z')",
        lambda of, st, _: f"REGEXP_EXTRACT({of('STRING')}, r'[a-z]')",
        lambda of, st, _: f"FORMAT_DATE('%Y-%j %a', {of('DATE')})",
        lambda of, st, _: f"{st.pick(['COALESCE', 'NULLIF', 'GREATEST'])}({of('STRING')}, {of('STRING')})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('STRING')}, {of('STRING')})",
    ],
    "BOOL": [
        lambda of, st, _: compared(of, st),
        lambda of, st, _: compared(of, st),
        lambda of, st, _: f"({of('BOOL')} {st.pick(['AND', 'OR', '=', '!='])} {of('BOOL')})",
        lambda of, st, _: f"(NOT {of('BOOL')})",
        lambda of, st, _: f"({of(st.plain())} IS {st.pick(['NULL', 'NOT NULL'])})",
        lambda of, st, _: f"({of('BOOL')} IS {st.pick(['TRUE', 'NOT TRUE', 'FALSE', 'NOT FALSE'])})",
        lambda of, st, _: f"({of('INT64')} {st.pick(['IN', 'NOT IN'])} ({of('INT64')}, {of('INT64')}, 1))",
        lambda of, st, _: f"({of('STRING')} {st.pick(['IN', 'NOT IN'])} ({of('STRING')}, 'a'))",
        lambda of, st, _: f"({of('FLOAT64')} BETWEEN {of('INT64')} AND {of('FLOAT64')})",
        lambda of, st, _: f"({of('INT64')} IN UNNEST({of('ARRAY<INT64>')}))",
        lambda of, st, _: f"({of('STRING')} LIKE {st.pick([repr('%a%'), repr('_'), repr('B%')])})",
        lambda of, st, _: f"{st.pick(['STARTS_WITH', 'ENDS_WITH'])}({of('STRING')}, 'a')",
        lambda of, st, _: f"{st.pick(['IS_NAN', 'IS_INF'])}({of('FLOAT64')})",
        lambda of, st, columns: subquery(of, st, columns, "EXISTS(SELECT 1 {source}{where})"),
        lambda of, st, columns: subquery(of, st, columns, "({value} IN (SELECT {alias}.k {source}{where}))"),
        lambda of, st, columns: subquery(of, st, columns, "({value} NOT IN (SELECT {alias}.k {source}{where}))"),
    ],
    "DATE": [
        lambda of, st, _: f"DATE_ADD({of('DATE')}, INTERVAL {st.random.randrange(-40, 40)} {st.pick(['DAY', 'MONTH', 'YEAR'])})",
        lambda of, st, _: f"DATE_TRUNC({of('DATE')}, {st.pick(['MONTH', 'WEEK', 'ISOWEEK', 'QUARTER', 'ISOYEAR'])})",
        lambda of, st, _: f"LAST_DAY({of('DATE')})",
        lambda of, st, _: f"DATE({of('TIMESTAMP')})",
        lambda of, st, _: f"SAFE_CAST({of('STRING')} AS DATE)",
        lambda of, st, _: f"{st.pick(['GREATEST', 'LEAST', 'COALESCE', 'NULLIF'])}({of('DATE')}, {of('DATE')})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('DATE')}, {of('DATE')})",
    ],
    "TIMESTAMP": [
        lambda of, st, _: f"TIMESTAMP_ADD({of('TIMESTAMP')}, INTERVAL {st.random.randrange(-99, 99)} {st.pick(['SECOND', 'HOUR'])})",
        lambda of, st, _: f"TIMESTAMP_TRUNC({of('TIMESTAMP')}, {st.pick(['SECOND', 'HOUR', 'DAY', 'MONTH'])})",
        lambda of, st, _: f"TIMESTAMP({of('DATE')})",
        lambda of, st, _: f"{st.pick(['GREATEST', 'LEAST', 'COALESCE'])}({of('TIMESTAMP')}, {of('TIMESTAMP')})",
        lambda of, st, _: f"IF({of('BOOL')}, {of('TIMESTAMP')}, {of('TIMESTAMP')})",
    ],
    "ARRAY<INT64>": [
        lambda of, st, _: f"ARRAY(SELECT x FROM UNNEST({of('ARRAY<INT64>')}) AS x WHERE x > {st.random.randrange(3)} ORDER BY x DESC)",
        lambda of, st, _: f"ARRAY_REVERSE({of('ARRAY<INT64>')})",
        lambda of, st, _: f"ARRAY_CONCAT({of('ARRAY<INT64>')}, {of('ARRAY<INT64>')})",
        lambda of, st, _: f"GENERATE_ARRAY(1, {st.random.randrange(4)})",
    ],
}
