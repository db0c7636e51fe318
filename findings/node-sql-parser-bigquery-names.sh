#!/usr/bin/env bash
# node-sql-parser 5.4.0, with its dialect BigQuery: writing a parsed query again changes what it asks for.
#
# Expected: sqlify(astify(query)) means the same as the query. In GoogleSQL's lexical structure a name with a dash or a
# dot must stay in backticks, and b'...' is a bytes literal.
# Observed: of a path of several names the backticks are dropped. `a-b`.c becomes a-b.c, which subtracts; m.`service.name`
# becomes m.service.name, a field of another field. b'\x00' becomes a column b under an alias. No error is raised.
# A single name keeps its backticks.
#
# Why it matters: attributes of OpenTelemetry have dots in their names. A tool that adds a LIMIT to a query by
# parsing it and writing it again asks the database for other columns than the user did.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts node-sql-parser@5.4.0
cat > run.cjs <<'JS'
const { Parser } = require('node-sql-parser');
console.log('node-sql-parser', require('node-sql-parser/package.json').version);
const parser = new Parser(), database = 'BigQuery';
for (const query of [
  'SELECT `service.name` FROM t',
  'SELECT m.`service.name` FROM t AS m',
  'SELECT `a-b`.c FROM t',
  "SELECT b'\\x00' FROM t",
]) console.log(query, '=>', parser.sqlify(parser.astify(query, { database }), { database }));
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
node-sql-parser 5.4.0
SELECT `service.name` FROM t => SELECT `service.name` FROM t
SELECT m.`service.name` FROM t AS m => SELECT m.service.name FROM t AS m
SELECT `a-b`.c FROM t => SELECT a-b.c FROM t
SELECT b'\x00' FROM t => SELECT b AS `\x00` FROM t
END
