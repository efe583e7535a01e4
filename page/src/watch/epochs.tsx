// Epochs as a time line of their phases.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { get } from "../api/http";
import type { Plan, Row, Rows } from "../api/types";
import { useAsked } from "../lib/asked";
import { bytes, count, counted, milliseconds } from "../lib/format";
import { Empty, Figure, Problem } from "../lib/parts";
import { link } from "../router";
import { number, timeOf, useLately } from "./lately";

export const PHASES = ["wait", "admit", "prepare", "run", "commit", "finish"] as const;
const MEANT: Record<(typeof PHASES)[number], string> = {
  wait: "waiting for the lock",
  admit: "letting queries in",
  prepare: "preparing the work",
  run: "running the operators",
  commit: "committing",
  finish: "after the commit",
};
const SHOWN = 120;
const HEIGHT = 220;

export function EpochsView(): JSX.Element {
  const { data, error } = useLately("epochs", SHOWN);
  const rows = data ?? [];
  const [chosen, setChosen] = useState<number | null>(null);
  const [kept, setKept] = useState<Row | null>(null); // one that was chosen stays, also when it is no longer among the last
  const picked = chosen === null ? rows.at(-1) : (rows.find((row) => number(row, "epoch") === chosen) ?? kept ?? rows.at(-1));
  const choose = (epoch: number | null) => {
    setChosen(epoch);
    setKept(rows.find((row) => number(row, "epoch") === epoch) ?? null);
  };
  return (
    <div>
      <div class="bar">
        <h1>Epochs</h1>
        <span class="muted grow">the last {count(rows.length)}, with the time of each phase</span>
        <button type="button" class="live" aria-pressed={chosen === null} onClick={() => choose(null)}>
          Live
        </button>
      </div>
      <Problem error={error} />
      {data && !rows.length ? <Empty>No epoch yet: rows or heartbeats must come first.</Empty> : null}
      {picked ? (
        <>
          <Legend />
          <TimeLine rows={rows} chosen={picked} choose={choose} />
          <OneEpoch row={picked} isLast={chosen === null} />
          <Operators row={picked} />
        </>
      ) : null}
    </div>
  );
}

export function Legend(): JSX.Element {
  return (
    <ul class="legend" aria-label="Phases">
      {PHASES.map((phase) => (
        <li key={phase}>
          <span class={`swatch phase-${phase}`} aria-hidden="true" />
          {phase} <span class="muted">{MEANT[phase]}</span>
        </li>
      ))}
    </ul>
  );
}

interface LineProps {
  rows: readonly Row[];
  chosen: Row;
  choose: (epoch: number) => void;
}

/** Microseconds since 1970, which numbers hold exactly. */
function instantOf(row: Row): number {
  const micro = /\.\d{3}(\d{1,3})/.exec(String(row.ts))?.[1] ?? "";
  return timeOf(row) * 1000 + Number(micro.padEnd(3, "0"));
}

const COSTLIEST = 12;

/** Who took the time of an epoch. */
function Operators({ row }: { row: Row }): JSX.Element | null {
  const at = instantOf(row);
  const plan = useAsked<Plan>((abort) => get("v1/plan", {}, abort), [], { atLeast: 10_000 });
  const { data } = useAsked<Row[]>(
    async (abort) => (await get<Rows>("v1/system/operators", { since: at - 1, until: at, limit: 1000 }, abort)).rows,
    [at],
    { when: null },
  );
  if (!data?.length) return null;
  const labels = new Map(plan.data?.nodes.map(({ id, label }) => [id, label]));
  const costly = [...data].sort((a, b) => number(b, "ms") - number(a, "ms"));
  const all = costly.reduce((sum, each) => sum + number(each, "ms"), 0) || 1;
  return (
    <section class="card" aria-label="Operators of the epoch">
      <h2>
        Who took the time <span class="muted">{costly.length > COSTLIEST ? `the costliest of ${counted(costly.length, "operator")}` : ""}</span>
      </h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Costliest operators">
        <table>
          <thead>
            <tr>
              <th scope="col">operator</th>
              <th scope="col" class="number">
                time
              </th>
              <th scope="col">
                <span class="unseen">share</span>
              </th>
              <th scope="col" class="number">
                rows given
              </th>
              <th scope="col" class="number">
                memory
              </th>
            </tr>
          </thead>
          <tbody>
            {costly.slice(0, COSTLIEST).map((each) => (
              <tr key={String(each.operator)}>
                <th scope="row">
                  {labels.has(String(each.operator)) ? (
                    <a href={link("plan", "", { operator: String(each.operator) })}>{labels.get(String(each.operator))}</a>
                  ) : (
                    `${String(each.kind)} ${String(each.operator)}`
                  )}
                </th>
                <td class="number">{milliseconds(number(each, "ms"))}</td>
                <td>
                  <meter min={0} max={1} value={number(each, "ms") / all} aria-label={`share of ${String(each.operator)}`} />
                </td>
                <td class="number">{count(number(each, "rows"))}</td>
                <td class="number">{bytes(number(each, "memory_bytes"))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function TimeLine({ rows, chosen, choose }: LineProps): JSX.Element {
  const box = useRef<SVGSVGElement>(null);
  const top = Math.max(...rows.map((row) => number(row, "total_ms")), 1);
  const at = rows.indexOf(chosen);
  const pressed = (event: KeyboardEvent) => {
    const ends = { Home: rows[0], End: rows.at(-1), ArrowRight: rows[at + 1], ArrowLeft: rows[at - 1] };
    const next = ends[event.key as keyof typeof ends];
    if (!next) return;
    event.preventDefault();
    choose(number(next, "epoch"));
  };
  const pointed = (event: MouseEvent) => {
    const area = box.current!.getBoundingClientRect();
    const index = Math.floor(((event.clientX - area.left) / area.width) * SHOWN) - (SHOWN - rows.length);
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (row) choose(number(row, "epoch"));
  };
  return (
    <div class="timeline">
      <span class="scale" aria-hidden="true">
        {milliseconds(top)}
      </span>
      <svg
        ref={box}
        viewBox={`0 0 ${SHOWN * 10} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="slider"
        tabindex={0}
        aria-label="Epochs by phase"
        aria-valuemin={number(rows[0]!, "epoch")}
        aria-valuemax={number(rows.at(-1)!, "epoch")}
        aria-valuenow={number(chosen, "epoch")}
        aria-valuetext={`epoch ${number(chosen, "epoch")}: ${milliseconds(number(chosen, "total_ms"))}`}
        onKeyDown={pressed}
        onClick={pointed}
      >
        {rows.map((row, index) => (
          <Bar key={number(row, "epoch")} row={row} x={(SHOWN - rows.length + index) * 10} top={top} chosen={row === chosen} />
        ))}
      </svg>
    </div>
  );
}

function Bar({ row, x, top, chosen }: { row: Row; x: number; top: number; chosen: boolean }): JSX.Element {
  let y = HEIGHT;
  return (
    <g class={chosen ? "chosen" : ""}>
      {chosen ? <rect class="mark" x={x} y={0} width={10} height={HEIGHT} /> : null}
      {PHASES.map((phase) => {
        const height = (number(row, `${phase}_ms`) / top) * (HEIGHT - 6);
        y -= height;
        return <rect key={phase} class={`phase-${phase}`} x={x + 1} y={y} width={8} height={height} />;
      })}
    </g>
  );
}

function OneEpoch({ row, isLast }: { row: Row; isLast: boolean }): JSX.Element {
  const total = number(row, "total_ms");
  return (
    <section class="card" aria-label="Epoch">
      <h2>
        Epoch {count(number(row, "epoch"))} <span class="muted">{isLast ? "the last one, " : ""}{new Date(timeOf(row)).toLocaleTimeString()}</span>
      </h2>
      <dl class="figures">
        <Figure label="total">{milliseconds(total)}</Figure>
        {PHASES.map((phase) => (
          <Figure key={phase} label={phase}>
            {milliseconds(number(row, `${phase}_ms`))}
          </Figure>
        ))}
        <Figure label="rows">{count(number(row, "rows"))}</Figure>
        <Figure label="late">{count(number(row, "late"))}</Figure>
        <Figure label="operators">{count(number(row, "operators"))}</Figure>
        <Figure label="failures">{count(number(row, "failures"))}</Figure>
        <Figure label="rows per second of work">{total ? count((1000 * number(row, "rows")) / total) : "–"}</Figure>
      </dl>
    </section>
  );
}
