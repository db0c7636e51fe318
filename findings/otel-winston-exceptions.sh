#!/usr/bin/env bash
# @opentelemetry/winston-transport 0.34.0 (npm) sends ordinary messages as exceptions, if their fields are called name, code or message, or if
# they are formatted with %d or %s.
#
# Expected, by OpenTelemetry's semantic conventions for exceptions in logs: exception.type and exception.message are there if the record is
# about an exception. winston's metadata is any object, and splat's arguments are any values.
# Observed: info("user created", { name: "Ann" }) has exception.type "Ann"; { code: "A-17" } has exception.type "A-17";
# info("took %d ms in %s", 15, "eu") has exception.message "15". A field error: "none" becomes exception.message, and
# the field is gone. The severity stays INFO.
#
# Why it matters: a dashboard or an alert that counts records with exception.type or exception.message counts successes, and groups "errors" by the names of
# users.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/winston-transport@0.34.0 \
  @opentelemetry/sdk-logs@0.223.1 @opentelemetry/api-logs@0.223.1 winston@3.19.0
cat > run.cjs <<'JS'
const { logs } = require('@opentelemetry/api-logs');
const { LoggerProvider, SimpleLogRecordProcessor, InMemoryLogRecordExporter } = require('@opentelemetry/sdk-logs');
const winston = require('winston'), { OpenTelemetryTransportV3 } = require('@opentelemetry/winston-transport');
const exporter = new InMemoryLogRecordExporter();
logs.setGlobalLoggerProvider(new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter })] }));
const transports = [new OpenTelemetryTransportV3()];
const logger = winston.createLogger({ transports });
logger.info('user created', { name: 'Ann', id: 7 });
logger.info('order', { code: 'A-17', amount: 3 });
logger.info('plain', { amount: 3 });
logger.info({ message: 'done', error: 'none', id: 7 });
winston.createLogger({ transports, format: winston.format.splat() }).info('took %d ms in %s', 15, 'eu');
setTimeout(() => {
  console.log('winston-transport', require('@opentelemetry/winston-transport/package.json').version);
  for (const record of exporter.getFinishedLogRecords()) console.log(record.severityText, record.body, JSON.stringify(record.attributes));
}, 200);
JS
node run.cjs 2>&1 | tee out
diff -u - out <<'END' || { echo "the behaviour has changed"; exit 1; }
winston-transport 0.34.0
info user created {"name":"Ann","id":7,"exception.type":"Ann"}
info order {"code":"A-17","amount":3,"exception.type":"A-17"}
info plain {"amount":3}
info done {"id":7,"exception.message":"none"}
info took 15 ms in eu {"exception.message":"15"}
END
