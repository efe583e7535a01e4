// A numeric column of an answer over time.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { get } from "../api/http";
import type { About, Extent, Instant, Row, Rows } from "../api/types";
import { useAsked } from "../lib/asked";
import { count, isNumeric } from "../lib/format";
import { Empty, Problem } from "../lib/parts";
import { Plot, type PlotKind } from "../lib/plot";
import { isTimestamp, instantOf, numberOf } from "../lib/time";
import { type Measure, MEASURES, MOST_SERIES, plotted } from "./series";

const MOST = 20_000; // changes that are read for a plot

interface PlotTabProps {
  path: string;
  query: About;
  extent: Extent | null;
}

export function PlotTab({ path, query, extent }: PlotTabProps): JSX.Element {
  const columns = query.columns.filter((column) => column.name !== "_ts");
  const numeric = columns.filter((column) => isNumeric(column.type));
  const [kind, setKind] = useState<PlotKind>("line");
  const [column, setColumn] = useState(numeric.at(-1)?.name ?? "");
  const [by, setBy] = useState("");
  const [measure, setMeasure] = useState<Measure>("avg");
  const [share, setShare] = useState(1); // of the time that can be answered
  const since = useMemo(() => begin(extent, share), [extent?.first_answerable, share < 1 ? extent?.final : null, share]);
  const changes = useAsked<Changes>((abort) => allSince(path, query, since, abort), [path, since], { atLeast: 2000 });
  const isStream = query.kind === "stream";
  const shown = useMemo(
    () => plotted(changes.data?.rows ?? [], { column, by, measure, kind, isStream }),
    [changes.data, column, by, measure, kind],
  );
  const what = column ? `${kind === "scatter" ? "" : `${measure} of `}${column}` : "number of rows";
  return (
    <>
      <div class="bar">
        <Choice label="Shape" value={kind} options={["line", "bar", "scatter"]} choose={(value) => setKind(value as PlotKind)} />
        <Choice label="Of" value={column} options={["", ...numeric.map(({ name }) => name)]} none="number of rows" choose={setColumn} />
        {column && kind !== "scatter" ? (
          <Choice label="As" value={measure} options={MEASURES} choose={(value) => setMeasure(value as Measure)} />
        ) : null}
        <Choice label="By" value={by} options={["", ...columns.map(({ name }) => name)]} none="all rows" choose={setBy} />
        <Choice
          label="Time"
          value={String(share)}
          options={["1", "0.25", "0.05"]}
          texts={{ "1": "all that is kept", "0.25": "last quarter", "0.05": "last twentieth" }}
          choose={(value) => setShare(Number(value))}
        />
      </div>
      <Problem error={changes.error} />
      {changes.data && !shown.times.length ? <Empty>There is nothing to plot yet.</Empty> : null}
      {shown.times.length ? (
        <div class="card">
          <Plot
            label={`${what} over time, ${count(shown.times.length)} instants`}
            kind={kind}
            times={shown.times}
            isTime={isTimestamp(extent?.final)}
            utc
            series={shown.series}
            steps={!isStream}
            height={420}
          />
        </div>
      ) : null}
      {changes.data?.isCut ? <p class="muted">Of many changes the last {count(MOST)} are drawn.</p> : null}
      {shown.left ? <p class="muted">The {MOST_SERIES} with most changes; {count(shown.left)} more are not shown.</p> : null}
    </>
  );
}

function begin(extent: Extent | null, share: number): Instant | null {
  if (!extent || extent.final === null || extent.first_answerable === null) return null;
  const first = numberOf(extent.first_answerable);
  if (share === 1) return extent.first_answerable;
  const last = numberOf(extent.final);
  return instantOf(last - (last - first) * share, extent.final);
}

interface Changes {
  rows: Row[];
  isCut: boolean; // whether there are more before them
}

/** What held when the plot begins, as if it had come then, and all changes since; of very many the last. */
async function allSince(path: string, query: About, since: Instant | null, abort: AbortSignal): Promise<Changes> {
  const found = await get<Rows>(`${path}/changes`, { since, limit: MOST }, abort);
  const isCut = (found.total ?? found.rows.length) > found.rows.length;
  // Of the first instant some changes may be missing: it is what the plot begins with.
  const start = isCut ? (found.rows[0]!._ts as Instant) : since;
  const rows = isCut ? found.rows.filter((row) => row._ts !== start) : found.rows;
  if (start === null || query.kind === "stream") return { rows, isCut };
  const held = await get<Rows>(`${path}/result`, { at: start, limit: MOST }, abort);
  return { rows: [...held.rows.map((row) => ({ ...row, _ts: start, _weight: 1 })), ...rows], isCut };
}

interface ChoiceProps {
  label: string;
  value: string;
  options: readonly string[];
  none?: string;
  texts?: Record<string, string>;
  choose: (value: string) => void;
}

export function Choice({ label, value, options, none = "", texts = {}, choose }: ChoiceProps): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map((option) => (
          <option key={option} value={option}>
            {option === "" ? none : (texts[option] ?? option)}
          </option>
        ))}
      </select>
    </label>
  );
}
