// The queries of a template side by side.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, part, send } from "../api/http";
import type { Column, QueryItem, QueryList, Row, Rows, Template } from "../api/types";
import { useAsked } from "../lib/asked";
import { count, counted, instant } from "../lib/format";
import { Badge, Empty, Problem } from "../lib/parts";
import { link } from "../router";
import { Downloads } from "./downloads";
import { AnswerTable, still } from "./table";

const PAGE = 12;
const SHOWN = 8; // rows of each

interface Side {
  query: QueryItem;
  rows: Row[];
  total: number;
}

interface Sides {
  columns: Column[];
  sides: Side[];
  total: number;
}

export function TemplateView({ name }: { name: string }): JSX.Element {
  const [offset, setOffset] = useState(0);
  const path = `v1/templates/${part(name)}`;
  const about = useAsked<Template>((abort) => get(path, {}, abort), [name]);
  const sides = useAsked<Sides>((abort) => read(path, offset, abort), [name, offset], { atLeast: 1500 });
  const template = about.data;
  const total = sides.data?.total ?? 0;
  return (
    <div class="fill">
      <div class="bar">
        <h1>
          <a class="up" href={link("templates")}>
            Templates
          </a>{" "}
          {name}
        </h1>
        {template ? (
          <p class="badges">
            <Badge kind="kind">{template.kind}</Badge>
            <Badge kind="mode">{template.mode}</Badge>
            <span>{counted(template.queries, "query", "queries")}</span>
            <span class="muted">final up to {instant(template.final)}</span>
          </p>
        ) : null}
        {template ? (
          <span class="end actions">
            <Downloads path={path} name={name} at={null} />
          </span>
        ) : null}
      </div>
      <Problem error={about.error ?? sides.error} />
      {template ? <pre class="detail">{template.text}</pre> : null}
      <p class="pager" hidden={!template}>
        <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>
          Before
        </button>
        {total ? `${count(offset + 1)} to ${count(Math.min(total, offset + PAGE))} of ${count(total)}` : ""}
        <button type="button" disabled={offset + PAGE >= total} onClick={() => setOffset(offset + PAGE)}>
          After
        </button>
      </p>
      {sides.data ? (
        <ul class="cards sides">
          {sides.data.sides.map((side) => (
            <OneSide key={side.query.name} side={side} columns={sides.data!.columns} failed={template?.failed ?? {}} />
          ))}
        </ul>
      ) : null}
    </div>
  );
}

function OneSide({ side, columns, failed }: { side: Side; columns: Column[]; failed: Record<string, string> }): JSX.Element {
  const { query, rows, total } = side;
  return (
    <li class="card">
      <h2>
        <a href={link("queries", query.name)}>{query.name}</a>
        <span class="muted"> {counted(total, "row")}</span>
      </h2>
      {failed[query.name] ? <Problem error={{ primary: failed[query.name]! }} /> : null}
      {rows.length ? (
        <AnswerTable label={`Answer of ${query.name}`} columns={columns} rows={still(rows, columns)} />
      ) : (
        <Empty>empty</Empty>
      )}
    </li>
  );
}

/** The answers of one page of its queries, read together. */
async function read(path: string, offset: number, abort: AbortSignal): Promise<Sides> {
  const listed = await get<QueryList>(`${path}/queries`, { offset, limit: PAGE }, abort);
  if (!listed.queries.length) return { columns: [], sides: [], total: listed.total };
  const names = listed.queries.map((query) => query.name);
  const found = await send<Rows>("POST", "v1/results", { queries: names, limit: SHOWN }, abort);
  const columns = found.columns.filter((column) => column.name !== "_query");
  const rows = new Map<string, Row[]>(names.map((name) => [name, []]));
  for (const row of found.rows) rows.get(String(row._query))?.push(row);
  const sides = listed.queries.map((query) => ({ query, rows: rows.get(query.name) ?? [], total: found.totals?.[query.name] ?? 0 }));
  return { columns, total: listed.total, sides };
}
