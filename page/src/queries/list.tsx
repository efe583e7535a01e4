// All queries, failed ones first. However many there are, only those in sight are asked for and drawn.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, part, send, ServiceError } from "../api/http";
import type { ErrorFields, QueryItem, QueryList as Listed } from "../api/types";
import { counted, errorFields, instant, NONE, percent } from "../lib/format";
import { Badge, Confirm, Empty, Problem } from "../lib/parts";
import { link } from "../router";
import { mayWrite, pulse } from "../session";

const HEIGHT = 38; // of a row, as in the style
const PAGE = 60;
const AROUND = 10; // rows that are drawn above and below those in sight

interface Wanted {
  search: string;
  sort: string;
  state: string;
}

const SORTS: [string, string][] = [
  ["", "failed first"],
  ["name", "name"],
  ["state", "state"],
  ["cost", "cost"],
  ["rows", "rows"],
];

export function QueryList(): JSX.Element {
  const [wanted, setWanted] = useState<Wanted>({ search: "", sort: "", state: "" });
  const [total, setTotal] = useState<number | null>(null);
  const [error, setError] = useState<ErrorFields | null>(null);
  const [dropping, setDropping] = useState<string | null>(null);
  const pages = usePages(wanted, setTotal, setError);

  const drop = async (name: string) => {
    setDropping(null);
    try {
      await send("DELETE", `v1/queries/${part(name)}`);
      document.querySelector<HTMLElement>(".lines")?.focus(); // what had the focus goes
    } catch (failed) {
      if (failed instanceof ServiceError) setError(failed.fields);
    }
    pages.again();
  };
  return (
    <>
      <div class="bar">
        <label class="field">
          <span>Search</span>
          <input
            type="search"
            value={wanted.search}
            placeholder="part of a name"
            onInput={(event) => setWanted({ ...wanted, search: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          <span>Sort</span>
          <select value={wanted.sort} onChange={(event) => setWanted({ ...wanted, sort: event.currentTarget.value })}>
            {SORTS.map(([id, text]) => (
              <option key={id} value={id}>
                {text}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>State</span>
          <select value={wanted.state} onChange={(event) => setWanted({ ...wanted, state: event.currentTarget.value })}>
            <option value="">any</option>
            <option value="failed">failed</option>
            <option value="filling">filling</option>
            <option value="running">running</option>
          </select>
        </label>
        <span class="muted" role="status">
          {total === null ? "" : counted(total, "query", "queries")}
        </span>
      </div>
      <Problem error={error} />
      {total === 0 ? (
        <Empty>
          {wanted.search || wanted.state ? "No query is like that." : "No query is registered."}{" "}
          <a href={link("write")}>Write one</a>.
        </Empty>
      ) : (
        <Rows total={total ?? 0} pages={pages} drop={setDropping} />
      )}
      {dropping === null ? null : (
        <Confirm
          text={`Drop the query “${dropping}”? Its answer and what only it keeps are gone.`}
          action="Drop"
          yes={() => void drop(dropping)}
          no={() => setDropping(null)}
        />
      )}
    </>
  );
}

interface Pages {
  item(index: number): QueryItem | undefined;
  need(first: number, last: number): void;
  again(): void;
  version: number;
}

/** Pages of the list that were asked for, asked for again when something has happened. */
function usePages(
  wanted: Wanted,
  setTotal: (total: number) => void,
  setError: (error: ErrorFields | null) => void,
): Pages {
  const [version, setVersion] = useState(0);
  const kept = useRef(new Map<number, QueryItem[]>());
  const sight = useRef<[number, number]>([0, PAGE - 1]);
  const busy = useRef(new Set<number>());
  const turn = useRef(0);

  const ask = async (page: number) => {
    if (busy.current.has(page)) return;
    busy.current.add(page);
    const mine = turn.current;
    try {
      const { search, sort, state } = wanted;
      const options = { offset: page * PAGE, limit: PAGE, search: search || null, sort: sort || null, state: state || null };
      const found = await get<Listed>("v1/queries", options);
      if (mine !== turn.current) return;
      kept.current.set(page, found.queries);
      setTotal(found.total);
      setError(null);
      setVersion((before) => before + 1);
    } catch (error) {
      if (mine === turn.current && error instanceof ServiceError && error.status !== 0) setError(error.fields);
    } finally {
      if (mine === turn.current) busy.current.delete(page);
    }
  };
  const inSight = () => {
    const [first, last] = sight.current;
    const found: number[] = [];
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page++) found.push(page);
    return found;
  };
  const again = () => {
    for (const page of kept.current.keys()) if (!inSight().includes(page)) kept.current.delete(page);
    for (const page of inSight()) void ask(page);
  };
  useEffect(() => {
    turn.current++;
    busy.current = new Set();
    kept.current = new Map();
    sight.current = [0, PAGE - 1];
    const clock = setTimeout(again, 150);
    let last = performance.now();
    const end = pulse.subscribe(() => {
      if (performance.now() - last < 2000 || document.hidden) return;
      last = performance.now();
      again();
    });
    return () => {
      clearTimeout(clock);
      end();
    };
  }, [wanted.search, wanted.sort, wanted.state]);
  return {
    version,
    item: (index) => kept.current.get(Math.floor(index / PAGE))?.[index % PAGE],
    need(first, last) {
      sight.current = [first, last];
      for (const page of inSight()) if (!kept.current.has(page)) void ask(page);
    },
    again,
  };
}

interface RowsProps {
  total: number;
  pages: Pages;
  drop: (name: string) => void;
}

function Rows({ total, pages, drop }: RowsProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [[first, last], setSight] = useState<[number, number]>([0, PAGE - 1]);
  const look = () => {
    const top = box.current!.scrollTop;
    const from = Math.max(0, Math.floor(top / HEIGHT) - AROUND);
    const to = Math.min(Math.max(0, total - 1), Math.ceil((top + box.current!.clientHeight) / HEIGHT) + AROUND);
    if (from === first && to === last) return;
    setSight([from, to]);
    pages.need(from, to);
  };
  useEffect(look, [total]);
  const drawn: JSX.Element[] = [];
  for (let index = first; index <= Math.min(last, total - 1); index++)
    drawn.push(<Line key={index} index={index} query={pages.item(index)} drop={drop} />);
  return (
    <div class="lines" ref={box} onScroll={look} role="region" aria-label="List of queries" tabIndex={0}>
      <div role="table" aria-label="Queries" aria-rowcount={total + 1}>
        <div role="rowgroup" class="heads">
          <div role="row" class="line head" aria-rowindex={1}>
            <span role="columnheader">name</span>
            <span role="columnheader">state</span>
            <span role="columnheader" class="wide">
              kind
            </span>
            <span role="columnheader" class="wide">
              mode
            </span>
            <span role="columnheader" class="wide">
              final up to
            </span>
            <span role="columnheader" class="number wide">
              share of work
            </span>
            <span role="columnheader">
              <span class="unseen">actions</span>
            </span>
          </div>
        </div>
        <div class="lines-all" style={{ height: `${total * HEIGHT}px` }} role="rowgroup">
          {drawn}
        </div>
      </div>
    </div>
  );
}

interface LineProps {
  index: number;
  query: QueryItem | undefined;
  drop: (name: string) => void;
}

function Line({ index, query, drop }: LineProps): JSX.Element {
  const place = { transform: `translateY(${index * HEIGHT}px)` };
  if (!query)
    return (
      <div role="row" class="line" style={place} aria-rowindex={index + 2}>
        <span role="cell" class="muted">
          …
        </span>
      </div>
    );
  const error = errorFields(query.error);
  const state = query.state ?? (error ? "failed" : "running");
  return (
    <div role="row" class="line" style={place} aria-rowindex={index + 2}>
      <span role="cell" class="name">
        <a href={link("queries", query.name)}>{query.name}</a>
        {error ? <span class="why">{error.primary}</span> : null}
      </span>
      <span role="cell">
        <Badge kind={`state ${state}`}>{state}</Badge>
      </span>
      <span role="cell" class="wide">
        {query.kind}
      </span>
      <span role="cell" class="wide">
        {query.mode}
      </span>
      <span role="cell" class="wide">
        {instant(query.final)}
      </span>
      <span role="cell" class="number wide">
        {query.share === null || query.share === undefined ? NONE : percent(query.share)}
      </span>
      <span role="cell" class="actions">
        <a href={link("plan", "", { query: query.name })} title="Its path in the plan" aria-label={`Path of ${query.name}`}>
          path
        </a>
        {mayWrite.value ? (
          <button type="button" class="linklike danger" onClick={() => drop(query.name)} aria-label={`Drop ${query.name}`}>
            drop
          </button>
        ) : null}
      </span>
    </div>
  );
}
