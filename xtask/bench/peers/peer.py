"""One of the stores that Tidegate is compared with, as a child of `cargo xtask bench peers`.

    peer.py duckdb|chdb|postgres FOLDER THREADS

Reads requests from standard input and answers each on standard output, a JSON object a line:

    {"do": "load", "table": "edge", "file": "rows.csv"}  {}
    {"do": "finish"}                                      {}
    {"do": "ask", "statements": ["SELECT 1"]}             {"seconds": 0.001, "answers": [[[1]]]}

A failure is {"error": "..."}. The time of a statement is that of executing it and fetching all rows.
"""

import datetime
import decimal
import json
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).parent
TABLES = ("edge", "function_output")


def statements(name):
    """The statements of a file beside this one."""
    lines = (HERE / name).read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    return [statement for statement in map(str.strip, text.split(";")) if statement]


class DuckDB:
    def __init__(self, folder, threads):
        import duckdb

        self.version = f"DuckDB {duckdb.__version__}"
        self.settings = f"{threads} threads; tables sorted by project, timestamp"
        self.staging = folder / "staging.duckdb"
        self.connection = duckdb.connect(str(folder / "bench.duckdb"), config={"threads": threads})
        self.connection.execute(f"ATTACH '{self.staging}' AS staging")
        self.connection.execute("USE staging")
        for statement in statements("duckdb.sql"):
            self.connection.execute(statement)

    def load(self, table, file):
        self.connection.execute(
            f"COPY staging.{table} FROM '{file}' "
            "(FORMAT csv, HEADER false, DELIMITER ',', QUOTE '\"', ESCAPE '\"', NULLSTR '\\N', ALLOW_QUOTED_NULLS false)"
        )

    def finish(self):
        self.connection.execute("USE bench")
        for table in TABLES:
            self.connection.execute(
                f"CREATE TABLE {table} AS SELECT * FROM staging.{table} ORDER BY project, timestamp"
            )
        self.connection.execute("DETACH staging")
        self.staging.unlink()
        self.connection.execute("CHECKPOINT")

    def ask(self, statement):
        return self.connection.execute(statement).fetchall()

    def rows(self, answer):
        return answer


class ChDB:
    def __init__(self, folder, threads):
        import chdb
        from chdb import session

        self.session = session.Session(str(folder / "chdb"))
        self.threads = threads
        self.version = f"chDB {chdb.__version__} (ClickHouse {self.value('SELECT version()')})"
        self.settings = f"max_threads {threads}, no query condition cache; MergeTree by project, timestamp, merged"
        self.session.query("CREATE DATABASE bench ENGINE = Atomic")
        self.session.query("USE bench")
        for statement in (
            f"SET max_threads = {threads}",
            f"SET max_insert_threads = {threads}",
            "SET use_query_cache = 0",
            # It keeps which parts of a table fit a condition: a part of an answer.
            "SET use_query_condition_cache = 0",
            "SET output_format_json_quote_64bit_integers = 0",
        ):
            self.session.query(statement)
        for statement in statements("chdb.sql"):
            self.session.query(statement)

    def value(self, statement):
        return self.session.query(statement, "TSVRaw").bytes().decode().strip()

    def load(self, table, file):
        structure = self.value(
            "SELECT arrayStringConcat(groupArray(name || ' ' || type), ', ') FROM "
            f"(SELECT name, type FROM system.columns WHERE database = 'bench' AND table = '{table}' ORDER BY position)"
        )
        structure = structure.replace("\\", "\\\\").replace("'", "\\'")
        self.session.query(f"INSERT INTO bench.{table} SELECT * FROM file('{file}', 'CSV', '{structure}')")

    def finish(self):
        for table in TABLES:
            self.session.query(f"OPTIMIZE TABLE bench.{table} FINAL")

    def ask(self, statement):
        # Bytes, as an answer over HTTP is: they are read as rows outside of the time.
        return self.session.query(statement, "JSONCompactEachRow").bytes()

    def rows(self, answer):
        return [json.loads(line) for line in answer.splitlines() if line]


class Postgres:
    def __init__(self, folder, threads):
        import psycopg

        # The server is started by who started this, with its socket in the folder.
        self.connection = psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True)
        self.connection.execute("SET timezone = 'UTC'")
        self.connection.execute(f"SET max_parallel_workers_per_gather = {max(threads - 1, 0)}")
        self.connection.execute("SET statement_timeout = '300 s'")
        number = self.connection.execute("SHOW server_version").fetchone()[0].split(" ")[0]
        self.version = f"PostgreSQL {number}"
        self.settings = f"{threads - 1} parallel workers beside the leader, shared_buffers 1 GB, work_mem 64 MB; jsonb"
        for statement in statements("postgres.sql"):
            self.connection.execute(statement)

    def load(self, table, file):
        with self.connection.cursor() as cursor, open(file, "rb") as rows:
            with cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv, NULL '\\N')") as copy:
                while piece := rows.read(1 << 20):
                    copy.write(piece)

    def finish(self):
        for statement in statements("postgres.finish.sql"):
            self.connection.execute(statement)

    def ask(self, statement):
        # Without parameters % is a character like others.
        return self.connection.execute(statement).fetchall()

    def rows(self, answer):
        return answer


def plain(value):
    """What JSON has no type for: times are ISO text in UTC."""
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return value.isoformat(timespec="microseconds")
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def main():
    kind, folder, threads = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    # What libraries print goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    peer = {"duckdb": DuckDB, "chdb": ChDB, "postgres": Postgres}[kind](folder, threads)

    def ask(texts):
        seconds, rows = 0.0, []
        for text in texts:
            began = time.perf_counter()
            answer = peer.ask(text)
            seconds += time.perf_counter() - began
            rows.append(peer.rows(answer))
        return {"seconds": seconds, "answers": rows}

    print(json.dumps({"version": peer.version, "settings": peer.settings}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        try:
            if request["do"] == "load":
                peer.load(request["table"], request["file"])
            elif request["do"] == "finish":
                peer.finish()
            else:
                answer = ask(request["statements"])
        except Exception as error:  # noqa: BLE001: whatever it is, who asked shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=plain), file=answers, flush=True)


if __name__ == "__main__":
    main()
