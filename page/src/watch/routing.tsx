// How eddies route: the share of tickets that each filter or SteM has, over time (Figure 10 of the eddies paper, live).
import type { JSX } from "preact";
import { get } from "../api/http";
import type { Plan, Row } from "../api/types";
import { useAsked } from "../lib/asked";
import { percent } from "../lib/format";
import { Empty, Problem } from "../lib/parts";
import { Plot, type Values } from "../lib/plot";
import { link } from "../router";
import { grouped, number, timeOf, useLately } from "./lately";

const LATELY = 5000;
const MOST = 10; // modules of an operator that are drawn

interface Routed {
  title: string;
  operator: string;
  times: number[];
  series: { name: string; values: Values }[];
}

export function RoutingView(): JSX.Element {
  const { data, error } = useLately("routing", LATELY);
  const plan = useAsked<Plan>((abort) => get("v1/plan", {}, abort), [], { atLeast: 10_000 });
  const labels = new Map(plan.data?.nodes.map(({ id, kind, label }) => [id, `${kind}: ${label}`]));
  const found = data ? routed(data, labels) : [];
  return (
    <div>
      <div class="bar">
        <h1>Routing</h1>
        <span class="muted">the share of the lottery’s tickets that each filter or SteM has</span>
      </div>
      <Problem error={error} />
      {data && !found.length ? (
        <Empty>
          No eddy has learnt anything yet. Many queries over a stream, or joins by SteMs, have one (
          <a href={link("settings")}>join plan</a>).
        </Empty>
      ) : null}
      <ul class="cards">
        {found.map(({ title, operator, times, series }) => (
          <li key={`${operator} ${title}`} class="card">
            <h2>
              <a href={link("plan", "", { operator })}>{title}</a>
            </h2>
            <Plot label={`Routing shares of ${title}`} kind="line" steps times={times} isTime series={series} height={230} range={[0, 1]} legend={false} />
            <table class="small">
              <thead>
                <tr>
                  <th scope="col">to</th>
                  <th scope="col" class="number">
                    share now
                  </th>
                </tr>
              </thead>
              <tbody>
                {series.map(({ name, values }, index) => (
                  <tr key={name}>
                    <th scope="row">
                      <span class={`swatch series-${index % 10}`} aria-hidden="true" /> {name}
                    </th>
                    <td class="number">{percent(values.findLast((value) => value !== null))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </li>
        ))}
      </ul>
    </div>
  );
}

function routed(rows: readonly Row[], labels: Map<string, string>): Routed[] {
  const found: Routed[] = [];
  for (const [operator, all] of grouped(rows, "operator"))
    for (const [source, some] of grouped(all, "source")) {
      const label = labels.get(operator) ?? operator;
      const title = source === "null" ? label : `${label}, rows of ${inputOf(all, source)}`;
      found.push({ title, operator, ...shares(some) });
    }
  return found.sort((a, b) => Math.min(b.series.length, 2) - Math.min(a.series.length, 2)); // where there is a choice first
}

/** What other rows call the SteM of an input, or its number. */
function inputOf(rows: readonly Row[], source: string): string {
  const found = rows.map(({ module }) => String(module)).find((module) => module.startsWith(`SteM ${source}: `));
  return found ? found.slice(found.indexOf(": ") + 2) : `input ${source}`;
}

function shares(rows: readonly Row[]): { times: number[]; series: { name: string; values: Values }[] } {
  const times = [...new Set(rows.map(timeOf))].sort((a, b) => a - b);
  const at = new Map(times.map((time, index) => [time, index]));
  const series = [...grouped(rows, "module")].slice(0, MOST).map(([name, some]) => {
    const values: Values = times.map(() => null);
    for (const row of some) values[at.get(timeOf(row))!] = number(row, "share");
    return { name, values };
  });
  return { times, series };
}
