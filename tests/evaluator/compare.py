"""Compares the dialect with the reference evaluator: compare.py URL TOKEN [--random COUNT] [--seed SEED] [FILE...]

Called by `cargo xtask evaluator`. Statements are those of the examples in docs/dialect.md, which need no table, those of
the FILEs, one a line, `#` begins a comment, and random ones. Exits with 1 when an answer is another one, or ours
refuses what the evaluator answers, or answers where that fails while it runs. What the language does not allow, ours may.
Where ours differs on purpose, the statement stands under "Differs" or "Refused" in the document, and is not compared.

--random COUNT   how many random statements (200)
--seed SEED      what they follow from (1); `SEED/NUMBER` stands beside each that differs
--number NUMBER  only this random statement, and its text
"""

import argparse
import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from decimal import Decimal
from pathlib import Path

from evaluator import Evaluator, Json, Refused, Unknown
from statements import Statement

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "dialect.md"
# Digits in which floats agree whose last ones depend on the order of operations.
CLOSE = 1e-9
FAULTS = ("differs", "only the evaluator answers", "only ours answers")
# What the package computes otherwise than Google's own library does, or cannot compute.
FAULTS_OF_THE_PACKAGE = re.compile(r"%[klPF]|CURRENT_|RAND\(|GENERATE_UUID|SESSION_USER|CONTAINS_SUBSTR|AEAD|KEYS\.|NET\.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("token")
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--number", type=int)
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    evaluator, server = Evaluator(), Server(arguments.url, arguments.token)
    verdicts = Counter()
    for place, statement, is_ordered in chosen(arguments):
        verdict, right, ours = judged(evaluator, server, statement, is_ordered)
        verdicts[verdict] += 1
        if verdict in FAULTS:
            print(f"{verdict}: {place}\n  {statement}\n  evaluator: {right}\n  ours:      {ours}", flush=True)
        elif arguments.number is not None:
            print(f"{verdict}: {statement}\n  {ours}")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if any(verdicts[fault] for fault in FAULTS) else 0


def chosen(arguments):
    """Statements with their places, and whether their rows have an order."""
    if arguments.number is not None:
        statement = Statement(arguments.seed, arguments.number)
        yield f"{arguments.seed}/{arguments.number}", statement.text, statement.is_ordered
        return
    for file in arguments.files:
        for number, line in enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1):
            if line.strip() and not line.startswith("#"):
                yield f"{Path(file).name}:{number}", line, "ORDER BY" in line
    for number, example in examples():
        yield f"dialect.md:{number}", example, "ORDER BY" in example
    for number in range(arguments.random):
        statement = Statement(arguments.seed, number)
        yield f"{arguments.seed}/{number}", statement.text, statement.is_ordered


def examples():
    """What the document says that it runs as in BigQuery: the second cells of the tables under "Runs"."""
    part = ""
    for number, line in enumerate(DOCUMENT.read_text(encoding="utf-8").splitlines(), 1):
        part = line if line.startswith("## ") else part
        cells = re.split(r"(?<!\\)\|", line)
        if part != "## Runs" or len(cells) < 5 or cells[1].strip() in ("What", "---"):
            continue
        code = re.fullmatch(r"\s*(`+)(.*?)\1\s*", cells[2])
        if code is None or FAULTS_OF_THE_PACKAGE.search(code[2]):
            continue
        text = code[2].strip().replace("\\|", "|")
        yield number, text if re.match(r"(SELECT|WITH|FROM)\b", text) else f"SELECT {text} AS v"


class Server:
    def __init__(self, url, token):
        self.url, self.token = url, token

    def rows(self, sql):
        """The rows of a statement, or what was said against it."""
        query = urllib.parse.urlencode({"project": "default", "sql": sql})
        request = urllib.request.Request(f"{self.url}/api/endpoints/query/logs.all?{query}")
        request.add_header("x-api-key", self.token)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                told = json.loads(response.read(), parse_float=Decimal)
                return [list(row.values()) for row in told["result"]], None
        except urllib.error.HTTPError as error:
            return None, f"{error.code} {error.read().decode()[:300]}"


def judged(evaluator, server, statement, is_ordered):
    """A verdict, and what each side says."""
    rows, refusal = server.rows(statement)
    try:
        right = evaluator.rows(statement)
    except Refused as error:
        allowed = "more allowed" if str(error).startswith("[INVALID_ARGUMENT]") else "only ours answers"
        return "both refuse" if rows is None else allowed, error, rows
    except Unknown as error:
        return "unknown", error, rows
    if rows is None:
        return "only the evaluator answers", right, refusal
    pairs = zip(right, rows) if is_ordered else zip(sorted(right, key=key), sorted(rows, key=key))
    is_same = len(right) == len(rows) and all(alike(one, other) for one, other in pairs)
    return "same" if is_same else "differs", right, rows


def key(value):
    """An order of rows in which those of both sides that are alike stand at the same place."""
    if isinstance(value, list):
        return "[" + ",".join(map(key, value)) + "]"
    if isinstance(value, dict):
        return key(value[""] if "" in value else list(value.values()))
    if isinstance(value, Json):
        return key(json.loads(value.text, parse_float=Decimal))
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        if not math.isfinite(value):
            return named(value)
        is_large = abs(value) > 1e9 and value == int(value)
        return str(int(value)) if is_large else f"{float(value) + 0.0:.9g}"
    return str(value)


def named(number):
    """What the HTTP interface writes for a float that JSON has no number for."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def alike(right, ours):
    if isinstance(right, Json):
        return equal_json(json.loads(right.text, parse_float=Decimal), ours)
    if isinstance(right, dict):
        return isinstance(ours, dict) and alike(right[""], list(ours.values()))
    if isinstance(right, list):
        return isinstance(ours, list) and len(right) == len(ours) and all(map(alike, right, ours))
    if isinstance(right, bool) or right is None:
        return right is ours
    if isinstance(right, float):
        if not math.isfinite(right):
            return ours == named(right)
        return is_number(ours) and math.isclose(right, float(ours), rel_tol=CLOSE, abs_tol=CLOSE)
    if isinstance(right, (int, Decimal)):
        return is_number(ours) and right == ours
    # Times have three digits or six behind the second.
    return right == ours or (isinstance(ours, str) and re.search(r":\d\d\.\d{3}$", right) and f"{right}000" == ours)


def equal_json(right, ours):
    if isinstance(right, dict) and isinstance(ours, dict):
        return right.keys() == ours.keys() and all(equal_json(right[name], ours[name]) for name in right)
    if isinstance(right, list) and isinstance(ours, list):
        return len(right) == len(ours) and all(map(equal_json, right, ours))
    return right == ours and isinstance(right, bool) == isinstance(ours, bool)


def is_number(value):
    return isinstance(value, (int, Decimal)) and not isinstance(value, bool)


if __name__ == "__main__":
    raise SystemExit(main())
