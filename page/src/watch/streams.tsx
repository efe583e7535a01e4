// The streams: how fast rows come, how far time has advanced, and what could not be taken.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, part } from "../api/http";
import type { Rows, StreamItem } from "../api/types";
import { useAsked } from "../lib/asked";
import { bytes, count, counted, instant, milliseconds, NONE, rate } from "../lib/format";
import { Badge, Empty, Figure, Problem } from "../lib/parts";
import { AnswerTable, still } from "../queries/table";
import { route, link } from "../router";
import { grouped, number, useLately } from "./lately";
import { Spark } from "./spark";

const LATELY = 600;
const ROWS = 200;

export function StreamsView(): JSX.Element {
  const { data, error } = useAsked<{ streams: StreamItem[] }>((abort) => get("v1/streams", {}, abort), []);
  const lately = useLately("streams", LATELY);
  const declared = data?.streams.filter((stream) => !stream.system) ?? [];
  const system = data?.streams.filter((stream) => stream.system) ?? [];
  const byStream = grouped(lately.data ?? [], "stream");
  return (
    <div>
      <div class="bar">
        <h1>Streams</h1>
        <span class="muted">{data ? counted(declared.length, "stream") : ""}</span>
      </div>
      <Problem error={error} />
      {data && !declared.length ? (
        <Empty>
          No stream is declared. <a href={link("write")}>Create one</a> by CREATE STREAM.
        </Empty>
      ) : null}
      <ul class="cards">
        {declared.map((stream) => (
          <StreamCard
            key={stream.name}
            stream={stream}
            rows={(byStream.get(stream.name) ?? byStream.get(stream.name.toLowerCase()) ?? []).map((row) => number(row, "rows"))}
            isOpen={route.value.name === stream.name}
          />
        ))}
      </ul>
      {system.length ? <SystemStreams streams={system} /> : null}
    </div>
  );
}

/** They can be read by queries like others. */
function SystemStreams({ streams }: { streams: StreamItem[] }): JSX.Element {
  return (
    <details class="system">
      <summary>{counted(streams.length, "system stream")}, for queries about Millstream itself</summary>
      <ul class="cards">
        {streams.map((stream) => (
          <li key={stream.name} class="card">
            <h2>{stream.name}</h2>
            <p class="schema">
              {stream.columns?.map(({ name, type }) => (
                <span key={name}>
                  {name} <span class="type">{type}</span>
                </span>
              ))}
            </p>
            <p class="muted">
              {count(stream.rows)} rows kept, {rate(stream.rate)}
            </p>
          </li>
        ))}
      </ul>
    </details>
  );
}

interface CardProps {
  stream: StreamItem;
  rows: number[];
  isOpen: boolean;
}

type Side = "late" | "malformed";

function StreamCard({ stream, rows, isOpen }: CardProps): JSX.Element {
  const [open, setOpen] = useState<Side | null>(isOpen ? "late" : null);
  return (
    <li class="card">
      <h2 class="with-spark">
        {stream.name}
        <Spark values={rows.slice(-60)} label={`rows of the last epochs of ${stream.name}`} />
      </h2>
      <p class="badges">
        <Badge kind="kind">{stream.system ? "system stream" : (stream.kind ?? "stream")}</Badge>
        {stream.source ? <Badge kind="source">from {stream.source}</Badge> : null}
        {stream.heartbeat_rule ? <span class="muted">heartbeat {stream.heartbeat_rule}</span> : null}
      </p>
      {stream.columns ? (
        <p class="schema">
          {stream.columns.map(({ name, type }) => (
            <span key={name}>
              {name} <span class="type">{type}</span>
            </span>
          ))}
        </p>
      ) : null}
      <dl class="figures">
        <Figure label="rate">{rate(stream.rate)}</Figure>
        <Figure label="heartbeat">{instant(stream.heartbeat)}</Figure>
        <Figure label="lag">{milliseconds(stream.lag_ms)}</Figure>
        <Figure label="arrived">{count(stream.arrived)}</Figure>
        <Figure label="retained">
          {count(stream.rows)}
          {stream.bytes ? ` (${bytes(stream.bytes)})` : ""}
        </Figure>
        {stream.shed ? <Figure label="shed">{count(stream.shed)}</Figure> : null}
        <SideFigure label="late" side="late" amount={stream.late} open={open} setOpen={setOpen} />
        <SideFigure label="malformed" side="malformed" amount={stream.malformed} open={open} setOpen={setOpen} />
      </dl>
      {open ? <SideRows stream={stream.name} side={open} /> : null}
    </li>
  );
}

interface SideProps {
  label: string;
  side: Side;
  amount: number | null | undefined;
  open: Side | null;
  setOpen: (side: Side | null) => void;
}

function SideFigure({ label, side, amount, open, setOpen }: SideProps): JSX.Element {
  return (
    <Figure label={label}>
      {amount ? (
        <button type="button" class="linklike bad" aria-expanded={open === side} onClick={() => setOpen(open === side ? null : side)}>
          {count(amount)}, look
        </button>
      ) : (
        (amount ?? NONE)
      )}
    </Figure>
  );
}

function SideRows({ stream, side }: { stream: string; side: Side }): JSX.Element {
  const { data, error } = useAsked<Rows>((abort) => get(`v1/streams/${part(stream)}/${side}`, { limit: ROWS }, abort), [stream, side], {
    atLeast: 3000,
  });
  if (!data) return <Problem error={error} />;
  if (!data.rows.length) return <Empty>None are kept any more.</Empty>;
  return <AnswerTable label={`${side} rows of ${stream}`} columns={data.columns} rows={still(data.rows, data.columns)} />;
}
