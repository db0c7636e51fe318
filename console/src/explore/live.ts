// Live mode: the query of the page is followed, and its newest rows are held for the page to draw. What is drawn stands still while it is
// paused or scrolled; rows are received all the same, up to as many as are held.
import { computed, signal } from "@preact/signals";
import { messageOf } from "../api/client";
import type { StreamEvent } from "../api/events";
import { follow } from "../api/follow";
import { signOut } from "../api/session";
import type { Parameters } from "../result/run";
import { LiveRows } from "../result/live";
import type { Field, Result } from "../result/types";

/** How often rows are drawn at most, in milliseconds; charts and JSON are made of all rows and cost more. */
const DRAW = 100;
const DRAW_ALL = 1000;
/** Over how many seconds the rate is taken. */
const SPAN = 5;

export type Phase = "off" | "connecting" | "live" | "broken" | "ended";

export interface Source {
  endpoint: string;
  parameters: Parameters;
  /** The columns of the query, and those that it may have. */
  columns: Field[];
  hints: Field[];
  /** Whether a picture of all rows is drawn, and not only those in view. */
  isWhole: () => boolean;
  /** Rows to draw. */
  draw: (result: Result) => void;
  /** The stream is over: `error` is why it could not begin or go on, null where the server ended it. */
  over: (error: unknown) => void;
}

/** How the stream is. */
export const phase = signal<Phase>("off");
/** Why the server ended the stream. */
export const because = signal<string | null>(null);
/** The last message that rows may be missing. */
export const gap = signal<string | null>(null);
export const missed = signal(0);
/** New rows a second. */
export const rate = signal(0);
/** How many rows are held no more. */
export const dropped = signal(0);
/** Rows that came since the table stands still. */
export const pending = signal(0);

export const isPaused = signal(false);
/** The table is scrolled away from its newest rows. */
export const isAway = signal(false);
export const isStill = computed(() => isPaused.value || isAway.value);
export const isOn = computed(() => phase.value === "connecting" || phase.value === "live" || phase.value === "broken");

/** How many streams have begun: with each, the table begins at its top. */
export const streams = signal(0);

let stream: Stream | null = null;

/** Follows a query, in place of the one that is followed. */
export function begin(source: Source): void {
  end();
  isAway.value = false;
  because.value = null;
  phase.value = "connecting";
  streams.value += 1;
  stream = new Stream(source);
}

/** Ends the stream; the rows stay. The connection is closed, and the server counts one follower less. */
export function end(): void {
  stream?.stop();
  stream = null;
  phase.value = "off";
  isPaused.value = false;
  pending.value = 0;
}

export function pause(value: boolean): void {
  isPaused.value = value;
  stream?.draw();
}

/** What the table says of where it is scrolled. */
export function scrolled(away: boolean): void {
  if (isAway.value === away) return;
  isAway.value = away;
  stream?.draw();
}

/** Shows the newest rows and goes on. */
export function goOn(): void {
  isPaused.value = false;
  isAway.value = false;
  stream?.draw();
}

class Stream {
  private readonly controller = new AbortController();
  private rows: LiveRows;
  private drawn = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly clock = setInterval(() => this.measure(), 1000);
  /** How many new rows had come at the last seconds. */
  private counts: number[] = [0];
  private fresh = 0;
  private isNew = false;

  constructor(private readonly source: Source) {
    this.rows = new LiveRows(source.columns, source.hints);
    this.reset();
    follow(source.endpoint, source.parameters, this.controller.signal, {
      opened: (isNew) => {
        if (stream !== this) return;
        if (isNew) this.reset();
        phase.value = "live";
      },
      events: (events) => stream !== this || this.take(events),
      broken: () => {
        if (stream !== this) return;
        this.isNew = false;
        phase.value = "broken";
      },
    }).catch((error: unknown) => {
      if (stream !== this) return;
      this.over(messageOf(error), error);
    });
  }

  stop(): void {
    this.controller.abort();
    clearInterval(this.clock);
    clearTimeout(this.timer);
  }

  /** Draws what is held, unless the table stands still. */
  draw(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    dropped.value = this.rows.dropped;
    if (isStill.value) {
      pending.value = this.rows.seen - this.drawn;
    } else {
      pending.value = 0;
      this.drawn = this.rows.seen;
      this.source.draw(this.rows.result());
    }
  }

  private reset(): void {
    this.rows = new LiveRows(this.source.columns, this.source.hints);
    this.drawn = 0;
    this.fresh = 0;
    this.counts = [0];
    this.isNew = false;
    rate.value = missed.value = dropped.value = pending.value = 0;
    gap.value = null;
  }

  private take(events: StreamEvent[]): boolean {
    let rows: string[] = [];
    const flush = (): void => {
      this.rows.push(rows);
      if (this.isNew) this.fresh += rows.length;
      rows = [];
      this.timer ??= setTimeout(() => this.draw(), this.source.isWhole() ? DRAW_ALL : DRAW);
    };
    for (const { name, data } of events) {
      if (name === "") {
        rows.push(data);
        continue;
      }
      flush();
      const said = JSON.parse(data) as { rows?: number; message?: string; reason?: string; error?: { message?: string } };
      if (name === "live") this.isNew = true;
      else if (name === "missed") missed.value += said.rows ?? 0;
      else if (name === "gap") gap.value = said.message ?? "";
      else if (name === "end" && this.ended(said.reason ?? "", said.error?.message ?? said.message ?? "")) return true;
    }
    if (rows.length > 0) flush();
    return false;
  }

  /** Whether the stream is over for good. A server that stops comes back, and a new version of the endpoint is followed. */
  private ended(reason: string, message: string): boolean {
    if (["shutdown", "endpoint_changed", "tenancy_changed", "limit"].includes(reason)) return false;
    this.over(message, null);
    if (reason === "token_revoked") signOut(message);
    return true;
  }

  private over(message: string, error: unknown): void {
    if (this.rows.seen > 0) this.draw();
    this.stop();
    because.value = error === null ? message : null;
    phase.value = "ended";
    rate.value = 0;
    this.source.over(error);
  }

  private measure(): void {
    this.counts = [...this.counts, this.fresh].slice(-SPAN - 1);
    rate.value = (this.fresh - (this.counts[0] ?? 0)) / Math.max(1, this.counts.length - 1);
  }
}
