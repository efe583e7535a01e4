// What came of the last setting that was altered: which queries moved, and how long epochs take before and after.
import type { JSX } from "preact";
import type { Row, Value } from "../api/types";
import { compact, count, counted, milliseconds, NONE, shown } from "../lib/format";
import { Empty } from "../lib/parts";
import { Plot } from "../lib/plot";
import { link } from "../router";
import { number, timeOf, useLately } from "./lately";

export interface Change {
  name: string;
  from: Value;
  to: Value;
  at: number;
  /** What was said of each query that runs; null where it is for later ones only. */
  queries: Record<string, string> | null;
}

const LATELY = 300;
const LISTED = 12;

export function Effect({ change }: { change: Change | null }): JSX.Element {
  const { data } = useLately("epochs", LATELY);
  const rows = (data ?? []).filter((row) => number(row, "rows") > 0); // a heartbeat alone says little
  const times = rows.map(timeOf);
  const totals = rows.map((row) => number(row, "total_ms"));
  const series = change
    ? [
        { name: "before", values: totals.map((value, index) => (times[index]! < change.at ? value : null)) },
        { name: "after", values: totals.map((value, index) => (times[index]! >= change.at ? value : null)) },
      ]
    : [{ name: "epoch", values: totals }];
  return (
    <section class="card effect" aria-label="Effect">
      <h2>Effect</h2>
      <p class="muted">
        {change ? (
          <>
            <code>{change.name}</code> from {shown(change.from)} to {shown(change.to)}, {new Date(change.at).toLocaleTimeString()}
          </>
        ) : (
          "How long epochs take. What you change shows here, before and after."
        )}
      </p>
      {rows.length > 1 ? (
        <Plot label="Milliseconds of each epoch" kind="scatter" times={times} isTime series={series} height={230} />
      ) : (
        <Empty>No epochs lately.</Empty>
      )}
      {change ? <BeforeAfter rows={rows} at={change.at} /> : null}
      {change?.queries ? <Moved queries={change.queries} /> : null}
      <p class="actions">
        <a href={link("plan")}>Plan</a> <a href={link("routing")}>Routing</a> <a href={link("epochs")}>Epochs</a>
      </p>
    </section>
  );
}

function BeforeAfter({ rows, at }: { rows: readonly Row[]; at: number }): JSX.Element {
  const before = rows.filter((row) => timeOf(row) < at);
  const after = rows.filter((row) => timeOf(row) >= at);
  const speed = (some: readonly Row[]) => {
    const spent = sum(some, "total_ms");
    return spent ? `${compact((1000 * sum(some, "rows")) / spent)}/s` : NONE;
  };
  return (
    <table class="small">
      <thead>
        <tr>
          <th scope="col">
            <span class="unseen">figure</span>
          </th>
          <th scope="col" class="number">
            before
          </th>
          <th scope="col" class="number">
            after
          </th>
        </tr>
      </thead>
      <tbody>
        <tr>
          <th scope="row">an epoch, median</th>
          <td class="number">{median(before)}</td>
          <td class="number">{median(after)}</td>
        </tr>
        <tr>
          <th scope="row">rows for a second of work</th>
          <td class="number">{speed(before)}</td>
          <td class="number">{speed(after)}</td>
        </tr>
        <tr>
          <th scope="row">epochs with rows</th>
          <td class="number">{count(before.length)}</td>
          <td class="number">{count(after.length)}</td>
        </tr>
      </tbody>
    </table>
  );
}

function sum(rows: readonly Row[], column: string): number {
  return rows.reduce((total, row) => total + number(row, column), 0);
}

function median(rows: readonly Row[]): string {
  const found = rows.map((row) => number(row, "total_ms")).sort((a, b) => a - b);
  return found.length ? milliseconds(found[Math.floor(found.length / 2)]) : NONE;
}

/** What comes of it for the queries that run: those that move before those that stay. */
function Moved({ queries }: { queries: Record<string, string> }): JSX.Element {
  const all = Object.entries(queries).sort(([, a], [, b]) => Number(stays(a)) - Number(stays(b)));
  const moving = all.filter(([, said]) => !stays(said)).length;
  return (
    <section aria-label="Queries that run">
      <h3>
        {all.length ? `${counted(moving, "query", "queries")} of ${count(all.length)} ${moving === 1 ? "moves" : "move"} to another plan` : "No query runs that it concerns"}
      </h3>
      <ul class="moved">
        {all.slice(0, LISTED).map(([name, said]) => (
          <li key={name}>
            <a href={link("queries", name.replace(/ and [\d,]+ that share its plan$/, ""))}>{name}</a> <span class="muted">{said}</span>
          </li>
        ))}
      </ul>
      {all.length > LISTED ? <p class="muted">and {count(all.length - LISTED)} more</p> : null}
    </section>
  );
}

function stays(said: string): boolean {
  return said.startsWith("stays");
}
