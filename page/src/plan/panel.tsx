// What is known of the operator, or of the query, that was chosen in the plan.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { get, part } from "../api/http";
import type { About, PlanNode } from "../api/types";
import { useAsked } from "../lib/asked";
import { bytes, count, errorFields, instant, milliseconds, NONE, percent, rate } from "../lib/format";
import { Badge, Figure, Problem } from "../lib/parts";
import { link } from "../router";
import { PATTERNS } from "./graph";
import { numbersOf } from "./store";

const PAGE = 50;

interface PanelProps {
  title: ComponentChildren;
  label: string;
  close: () => void;
  children: ComponentChildren;
}

function Panel({ title, label, close, children }: PanelProps): JSX.Element {
  return (
    <aside class="panel" aria-label={label} onKeyDown={(event) => event.key === "Escape" && close()}>
      <div class="panel-head">
        <h2>{title}</h2>
        <button type="button" class="quiet" onClick={close} aria-label="Close">
          ×
        </button>
      </div>
      {children}
    </aside>
  );
}

interface OperatorPanelProps {
  node: PlanNode;
  chooseQuery: (name: string) => void;
  close: () => void;
}

export function OperatorPanel({ node, chooseQuery, close }: OperatorPanelProps): JSX.Element {
  const numbers = numbersOf(node).value;
  const detail = Array.isArray(node.detail) ? node.detail.join("\n") : node.detail;
  return (
    <Panel title={node.label} label="Operator" close={close}>
      <p class="badges">
        <Badge kind="kind">{node.kind}</Badge>
        {node.pattern ? (
          <span title={PATTERNS[node.pattern]}>
            <Badge kind={`pattern ${node.pattern}`}>{node.pattern}</Badge>
          </span>
        ) : null}
        {node.state && node.state !== "running" ? <Badge kind={`state ${node.state}`}>{node.state}</Badge> : null}
        {node.structure ? <Badge kind="structure">{node.structure}</Badge> : null}
      </p>
      <dl class="figures">
        <Figure label="rate">{rate(numbers.rate)}</Figure>
        <Figure label="time per epoch">{milliseconds(numbers.ms)}</Figure>
        <Figure label="share of the time">{percent(numbers.share)}</Figure>
        <Figure label="rows in">{count(numbers.rows_in)}</Figure>
        <Figure label="rows out">{count(numbers.rows_out)}</Figure>
        <Figure label="selectivity">{selectivity(numbers.rows_in, numbers.rows_out)}</Figure>
        <Figure label="state">{bytes(numbers.state_bytes)}</Figure>
        <Figure label="memory">{bytes(numbers.memory_bytes)}</Figure>
        {numbers.expired ? <Figure label="expired">{count(numbers.expired)}</Figure> : null}
        {numbers.suspended ? (
          <Figure label="suspended, resumed">
            {count(numbers.suspended)}, {count(numbers.resumed)}
          </Figure>
        ) : null}
      </dl>
      {detail ? <pre class="detail">{detail}</pre> : null}
      <SharedBy node={node} chooseQuery={chooseQuery} />
    </Panel>
  );
}

function selectivity(rowsIn: number | null | undefined, rowsOut: number | null | undefined): string {
  if (!rowsIn || rowsOut === null || rowsOut === undefined) return NONE;
  return percent(rowsOut / rowsIn);
}

function SharedBy({ node, chooseQuery }: { node: PlanNode; chooseQuery: (name: string) => void }): JSX.Element | null {
  const [offset, setOffset] = useState(0);
  const asked = useAsked<{ queries: ({ name: string } | string)[]; total: number }>(
    (abort) => get(`v1/plan/${part(node.id)}/queries`, { offset, limit: PAGE }, abort),
    [node.id, offset],
    { atLeast: 5000 },
  );
  if (!asked.data) return <Problem error={asked.error} />;
  const { queries, total } = asked.data;
  return (
    <section aria-label="Shared by">
      <h3>Used by {total === 1 ? "one query" : `${count(total)} queries`}</h3>
      <ul class="names">
        {queries.map((each) => {
          const name = typeof each === "string" ? each : each.name;
          return (
            <li key={name}>
              <button type="button" class="linklike" onClick={() => chooseQuery(name)}>
                {name}
              </button>
            </li>
          );
        })}
      </ul>
      {total > PAGE ? (
        <p class="pager">
          <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>
            Before
          </button>
          {count(offset + 1)} to {count(Math.min(total, offset + PAGE))}
          <button type="button" disabled={offset + PAGE >= total} onClick={() => setOffset(offset + PAGE)}>
            After
          </button>
        </p>
      ) : null}
    </section>
  );
}

interface QueryPanelProps {
  name: string;
  operators: number | null;
  close: () => void;
}

export function QueryPanel({ name, operators, close }: QueryPanelProps): JSX.Element {
  const { data, error } = useAsked<About>((abort) => get(`v1/queries/${part(name)}`, {}, abort), [name], {
    atLeast: 3000,
  });
  return (
    <Panel title={name} label="Query" close={close}>
      <Problem error={error ?? errorFields(data?.error)} />
      {data ? (
        <>
          <p class="badges">
            <Badge kind="kind">{data.kind}</Badge>
            <Badge kind="mode">{data.mode}</Badge>
          </p>
          <dl class="figures">
            <Figure label="operators on its path">{count(operators)}</Figure>
            <Figure label="final up to">{instant(data.final)}</Figure>
          </dl>
          <pre class="detail">{data.cql}</pre>
          <p>
            <a class="button" href={link("queries", name)}>
              Its answer
            </a>
          </p>
        </>
      ) : null}
    </Panel>
  );
}
