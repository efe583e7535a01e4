// How the database does, at a glance, wherever one is: rows that come, how long epochs take, queries, and those that failed.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { get } from "./api/http";
import type { QueryList, Row, Rows } from "./api/types";
import { useAsked } from "./lib/asked";
import { compact, count, milliseconds } from "./lib/format";
import { link } from "./router";
import { Spark } from "./watch/spark";
import { number, timeOf } from "./watch/lately";

const LATELY = 80; // epochs
const SPAN = 10_000; // milliseconds that a rate is of
const SLICES = 20;

interface Counts {
  all: number;
  failed: number;
}

async function counts(abort: AbortSignal): Promise<Counts> {
  const asked = (state: string | null) => get<QueryList>("v1/queries", { limit: 0, state }, abort);
  const [all, failed] = await Promise.all([asked(null), asked("failed")]);
  return { all: all.total, failed: failed.total };
}

export function Vitals(): JSX.Element {
  const epochs = useAsked<Rows>((abort) => get("v1/system/epochs", { limit: LATELY }, abort), [], { atLeast: 2000 });
  const queries = useAsked<Counts>(counts, [], { atLeast: 4000 });
  const seen = useRef({ epoch: -1, at: 0 });
  const rows = epochs.data?.rows ?? [];
  const last = rows.at(-1);
  const newest = last ? number(last, "epoch") : -1;
  if (newest !== seen.current.epoch) seen.current = { epoch: newest, at: performance.now() };
  const isCalm = !last || performance.now() - seen.current.at > SPAN;
  const recent = last && !isCalm ? rows.filter((row) => timeOf(row) > timeOf(last) - SPAN) : [];
  const took = recent.map((row) => number(row, "total_ms")).sort((a, b) => a - b);
  const total = recent.reduce((sum, row) => sum + number(row, "rows"), 0);
  return (
    <div class="vitals">
      <a href={link("streams")} title="Rows that come, of the last ten seconds">
        <Spark values={slices(recent)} label="rows of the last ten seconds" />
        <strong>{compact(total / (SPAN / 1000))}</strong> rows/s
      </a>
      <a href={link("epochs")} title="An epoch, the median of the last ten seconds">
        <strong>{took.length ? milliseconds(took[Math.floor(took.length / 2)]) : "–"}</strong> an epoch
      </a>
      {queries.data ? (
        <a href={link("queries")}>
          <strong>{count(queries.data.all)}</strong> {queries.data.all === 1 ? "query" : "queries"}
          {queries.data.failed ? <span class="bad">{count(queries.data.failed)} failed</span> : null}
        </a>
      ) : null}
    </div>
  );
}

/** Rows in slices of the span, so that epochs of all sizes make one line. */
function slices(rows: readonly Row[]): number[] {
  const found = new Array<number>(SLICES).fill(0);
  const last = rows.at(-1);
  if (!last) return found;
  for (const row of rows) {
    const at = SLICES - 1 - Math.floor(((timeOf(last) - timeOf(row)) / SPAN) * SLICES);
    if (at >= 0) found[at]! += number(row, "rows");
  }
  return found;
}
