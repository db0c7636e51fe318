#!/usr/bin/env bash
# Four formatters change what BigQuery's SQL asks for: sqlfluff 4.5.0, sqruff 0.44.0 and sqlfmt 0.32.0 (PyPI) rename tables, sqlfmt and
# sql-formatter 15.9.0 (npm) break pipes.
#
# Expected: a formatter changes white space, and at most the case of what has no case. By the lexical structure of GoogleSQL the names of
# tables and datasets have one: WebLogs.Requests is another table than weblogs.requests. "|>" is one token.
# Observed:
# - sqlfluff's and sqruff's "fix", with no rules chosen and the dialect bigquery, make the names of a query "consistent": beside a field
#   ID, WebLogs.Requests becomes WEBLOGS.REQUESTS, and the answer's column RequestPath is REQUESTPATH. sqlfmt makes all of them small.
# - sqlfmt and sql-formatter (language bigquery) write "| >". No error is raised, and the exit code is 0.
#
# Why it matters: these run before each commit. A saved query then reads another table or none, and whoever takes the rows as JSON
# by their names finds them missing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts sql-formatter@15.9.0
python3 -m venv v
v/bin/pip -q --disable-pip-version-check install sqlfluff==4.5.0 sqruff==0.44.0 shandy-sqlfmt==0.32.0
printf '[sqlfluff]\ndialect = bigquery\n' > .sqlfluff
cat > names.sql <<'Q'
SELECT
    ID,
    RequestPath
FROM WebLogs.Requests
Q
cat > pipe.sql <<'Q'
FROM logs |> WHERE status = 500
Q
cat > run.cjs <<'JS'
const { format } = require('sql-formatter');
console.log(format(require('fs').readFileSync(process.argv[2], 'utf8'), { language: 'bigquery' }));
JS
{
  cp names.sql a.sql
  v/bin/sqlfluff fix -q a.sql > log 2>&1 || { echo "sqlfluff fix: exit code $?"; cat log; }
  echo "sqlfluff: " $(cat a.sql)
  cp names.sql b.sql
  v/bin/sqruff fix b.sql > log 2>&1 || { echo "sqruff fix: exit code $?"; cat log; }
  echo "sqruff: " $(cat b.sql)
  for query in names pipe; do
    cp $query.sql c.sql
    v/bin/sqlfmt -q c.sql
    echo "sqlfmt: " $(cat c.sql)
    echo "sql-formatter: " $(node run.cjs $query.sql)
  done
} 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
sqlfluff:  SELECT ID, REQUESTPATH FROM WEBLOGS.REQUESTS
sqruff:  SELECT ID, REQUESTPATH FROM WEBLOGS.REQUESTS
sqlfmt:  select id, requestpath from weblogs.requests
sql-formatter:  SELECT ID, RequestPath FROM WebLogs.Requests
sqlfmt:  from logs | > where status = 500
sql-formatter:  FROM logs | > WHERE status = 500
END
