// The page of the service's state: what /ready says, and what /metrics counts as pictures over the time that the page is
// open.
import { useEffect, useMemo, useState } from "preact/hooks";
import { Failure, isAbort, send } from "../api/client";
import { token } from "../api/session";
import { bytes, count, duration, time } from "../result/format";
import Plot from "../result/Plot";
import type { Series } from "../result/plot";
import { T } from "../text";
import { Alert, Page, styled } from "../ui/parts";
import { parse, quantile, type Sample, sum } from "./metrics";
import { FiringAlerts } from "./FiringAlerts";
import { SlowQueries } from "./SlowQueries";
import { type Worker, Workers } from "./Workers";

const EVERY = 2000;
const MOST = 300;
/** How long the server may take for its state; what takes longer is not there, as far as one can see. */
const PATIENCE = 10_000;
const QUERY = "/api/endpoints/query/{endpoint}";
const isQuery = (labels: Record<string, string>): boolean => labels.route === QUERY || labels.route === "/endpoints/query/{endpoint}";

interface Ready {
  status: string;
  warnings?: { what: string; message: string }[];
  problems?: { what: string; message: string }[];
  workers?: Worker[];
}

/** Figures between two readings. */
interface Point {
  time: number;
  values: Record<string, number | null>;
}

function point(before: { time: number; samples: Sample[] }, after: { time: number; samples: Sample[] }): Point {
  const seconds = (after.time - before.time) / 1000;
  const rate = (name: string, fits?: (labels: Record<string, string>) => boolean): number => Math.max(0, (sum(after.samples, name, fits) - sum(before.samples, name, fits)) / seconds);
  const answered = (share: number): number | null => quantile(share, before.samples, after.samples, "tidegate_request_duration_seconds", isQuery);
  return {
    time: after.time,
    values: {
      events: rate("tidegate_ingest_events_total"),
      refused: rate("tidegate_ingest_refused_events_total"),
      good: rate("tidegate_requests_total", (labels) => isQuery(labels) && (labels.status === "2xx" || labels.status === "3xx")),
      wrong: rate("tidegate_requests_total", (labels) => isQuery(labels) && labels.status === "4xx"),
      failed: rate("tidegate_requests_total", (labels) => isQuery(labels) && labels.status === "5xx"),
      p50: answered(0.5),
      p95: answered(0.95),
      running: sum(after.samples, "tidegate_queries_running"),
      waiting: sum(after.samples, "tidegate_queries_waiting"),
      resident: sum(after.samples, "process_resident_memory_bytes"),
      statements: sum(after.samples, "tidegate_statements_memory_bytes"),
      unflushed: sum(after.samples, "tidegate_store_unflushed_bytes"),
      segments: sum(after.samples, "tidegate_store_segments"),
      merging: sum(after.samples, "tidegate_store_segments_merging"),
    },
  };
}

export default function Status() {
  const [ready, setReady] = useState<Ready | null>(null);
  const [samples, setSamples] = useState<Sample[]>([]);
  const [points, setPoints] = useState<Point[]>([]);
  const [error, setError] = useState<string | null>(null);
  /** When the figures were read; null before the first ones. */
  const [read, setRead] = useState<number | null>(null);
  useEffect(() => {
    const controller = new AbortController();
    let last: { time: number; samples: Sample[] } | null = null;
    let isAsking = false;
    const ask = async (): Promise<void> => {
      // One at a time: figures of an older answer after those of a newer one would be wrong.
      if (isAsking) return;
      isAsking = true;
      const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(PATIENCE)]);
      try {
        // What is not ready has the status 503 and says why.
        const headers: Record<string, string> = token.value ? { "x-api-key": token.value } : {};
        const answer = await fetch("/ready", { headers, signal, cache: "no-store", credentials: "omit" });
        const said = (await answer.json()) as Ready;
        if (controller.signal.aborted) return;
        setReady(said);
        const text = await (await send("/metrics", { signal })).text();
        if (controller.signal.aborted) return;
        const next = { time: Date.now(), samples: parse(text) };
        const before = last;
        last = next;
        setSamples(next.samples);
        setRead(next.time);
        if (before) setPoints((points) => [...points, point(before, next)].slice(-MOST));
        setError(null);
      } catch (failure) {
        // Its own question for /ready fails in words of the browser's.
        if (!isAbort(failure) && !controller.signal.aborted) setError(failure instanceof Failure ? failure.message : T.errors.unreachable);
      } finally {
        isAsking = false;
      }
    };
    void ask();
    const timer = setInterval(() => void ask(), EVERY);
    return () => {
      controller.abort();
      clearInterval(timer);
    };
  }, []);
  const value = (name: string): number => sum(samples, name);
  const lookups = value("tidegate_cache_lookups_total");
  const hits = sum(samples, "tidegate_cache_lookups_total", (labels) => labels.state === "hit" || labels.state === "stale");
  return (
    <Page title={T.nav.status} error={error} head={error ? <span class="tag warning">{T.status.gone}</span> : ready && <span class={`tag ${ready.status === "ok" ? "" : "warning"}`}>{T.status.states[ready.status] ?? ready.status}</span>}>
      {error && read !== null && <Alert kind="warning" message={T.status.old(time(read).slice(0, 19))} />}
      {!error && ready?.problems?.map((one) => <Alert key={one.what} message={one.message} />)}
      {!error && ready?.warnings?.map((one) => <Alert key={one.what} kind="warning" message={one.message} />)}
      <FiringAlerts />
      <SlowQueries />
      <section class="stack" aria-label={T.status.charts}>
        <h2>{T.status.charts}</h2>
        <p class="hint">{T.status.since}</p>
        <div class={`plots ${error ? "stale" : ""}`}>
          <Picture title={T.status.ingest} points={points} series={[["events", T.status.events, "--accent"], ["refused", T.status.refused, "--error-mark"]]} />
          <Picture title={T.status.rate} points={points} series={[["good", T.status.good, "--info"], ["wrong", T.status.wrong, "--warn-mark"], ["failed", T.status.failed, "--error-mark"]]} />
          <Picture title={T.status.latency} points={points} format={duration} series={[["p50", "p50", "--s4"], ["p95", "p95", "--s2"]]} />
          <Picture title={T.status.admission} points={points} series={[["running", T.status.running, "--accent"], ["waiting", T.status.queued, "--warn-mark"]]} />
          <Picture title={T.status.memory} points={points} format={bytes} series={[["resident", T.status.process, "--info"], ["statements", T.status.ofStatements, "--s4"], ["unflushed", T.status.ofEvents, "--s2"]]} />
          <Picture title={T.status.segmentsOverTime} points={points} format={count} series={[["segments", T.status.stand, "--accent"], ["merging", T.status.inMerge, "--warn-mark"]]} />
        </div>
      </section>
      {ready?.workers && <Workers workers={ready.workers} samples={samples} />}
      {samples.length > 0 && (
        <section class="stack" aria-label={T.status.holds}>
          <h2>{T.status.holds}</h2>
          <dl class={`figures six ${error ? "stale" : ""}`}>
            <Figure name={T.status.queries} value={`${count(value("tidegate_queries_running"))} / ${count(value("tidegate_queries_places"))}`} share={value("tidegate_queries_running") / value("tidegate_queries_places")} />
            <Figure name={T.status.waiting} value={count(value("tidegate_queries_waiting"))} />
            <Figure name={T.status.connections} value={count(value("tidegate_connections"))} />
            <Figure name={T.status.hits} value={lookups > 0 ? `${Math.round((100 * hits) / lookups)} %` : T.common.none} share={lookups > 0 ? hits / lookups : 0} />
            <Figure name={T.status.resident} value={bytes(value("process_resident_memory_bytes"))} />
            <Room name={T.status.statements} used={value("tidegate_statements_memory_bytes")} limit={value("tidegate_statements_memory_limit_bytes")} />
            <Room name={T.status.disk} used={value("tidegate_disk_used_bytes")} limit={value("tidegate_disk_bytes")} />
            <Figure name={T.status.size} value={bytes(value("tidegate_store_segment_bytes"))} />
            <Figure name={T.status.stored} value={count(value("tidegate_store_segment_events"))} />
            <Room name={T.status.unflushed} used={value("tidegate_store_unflushed_bytes")} limit={value("tidegate_store_unflushed_limit_bytes")} />
            <Figure name={T.status.segments} value={count(value("tidegate_store_segments"))} />
            <Figure name={T.status.merging} value={count(value("tidegate_store_segments_merging"))} />
            <Room name={T.status.kept(count(value("tidegate_cache_entries")))} used={value("tidegate_cache_bytes")} limit={value("tidegate_cache_limit_bytes")} />
            <Room name={T.status.unread} used={value("tidegate_answers_bytes")} limit={value("tidegate_answers_limit_bytes")} />
            <Room name={T.status.footers} used={value("tidegate_footers_bytes")} limit={value("tidegate_footers_limit_bytes")} />
          </dl>
        </section>
      )}
    </Page>
  );
}

function Figure({ name, value, share }: { name: string; value: string; share?: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value}
        {share !== undefined && Number.isFinite(share) && <div class="meter"><i ref={styled({ width: `${Math.min(100, 100 * share)}%` })} /></div>}
      </dd>
    </div>
  );
}

/** What is held of what may be held, in bytes. */
function Room({ name, used, limit }: { name: string; used: number; limit: number }) {
  return <Figure name={name} value={T.status.of(bytes(used), bytes(limit))} share={used / limit} />;
}

const rate = (value: number): string => (value !== 0 && Math.abs(value) < 10 ? value.toFixed(1) : count(Math.round(value)));

function Picture({ title, points, series, format = rate }: { title: string; points: Point[]; series: [string, string, string][]; format?: (value: number) => string }) {
  const options = useMemo(() => {
    const end = points.at(-1)?.time ?? Date.now();
    const drawn: Series[] = series.map(([key, name, variable]) => ({ name, variable, values: points.map((one) => one.values[key] ?? null) }));
    return { times: points.map((one) => one.time), series: drawn, kind: "line" as const, height: 150, format, range: { start: Math.min(points[0]?.time ?? end, end - 60_000), end } };
  }, [points]);
  return (
    <section class="card">
      <h2>{title}</h2>
      <Plot options={options} label={title} />
    </section>
  );
}
