// The plan that all queries share, live, with the path of one query and who shares an operator.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api/http";
import type { Plan, PlanNode } from "../api/types";
import { useAsked } from "../lib/asked";
import { counted, percent } from "../lib/format";
import { Empty, Problem } from "../lib/parts";
import { link, note, route } from "../router";
import { epoch } from "../session";
import { QuerySearch } from "../queries/search";
import { Graph } from "./graph";
import { OperatorPanel, QueryPanel } from "./panel";
import { drawn, type Drawn, drawPart, everything, followPlan, numbersOf, problem } from "./store";
import { OperatorTable } from "./table";

const STANDS_OUT = 0.1; // of the time

interface Path {
  nodes: Set<string>;
  drawn: Drawn;
}

async function pathOf(query: string, abort: AbortSignal): Promise<Path> {
  const part = await get<Plan>("v1/plan", { query }, abort);
  return { nodes: new Set(part.nodes.map((node) => node.id)), drawn: await drawPart(part) };
}

/** The operator that takes most of the time, where one stands out. */
function Hottest({ plan, choose }: { plan: Plan; choose: (id: string) => void }): JSX.Element | null {
  let hottest: PlanNode | null = null;
  let most = STANDS_OUT;
  for (const node of plan.nodes) {
    const share = numbersOf(node).value.share ?? 0;
    if (share > most) (most = share), (hottest = node);
  }
  if (!hottest) return null;
  const { id, label } = hottest;
  return (
    <>
      {", hottest: "}
      <button type="button" class="linklike hottest" onClick={() => choose(id)}>
        {label}
      </button>{" "}
      {percent(most)}
    </>
  );
}

export function PlanView(): JSX.Element {
  const [asTable, setAsTable] = useState(false);
  const [onlyPath, setOnlyPath] = useState(false);
  const query = route.value.options.get("query");
  const operator = route.value.options.get("operator");
  useEffect(followPlan, []);
  const path = useAsked<Path | null>((abort) => (query ? pathOf(query, abort) : Promise.resolve(null)), [query, everything.value], { atLeast: 3000 });
  const choose = useMemo(
    () => (id: string | null) => note({ ...(query ? { query } : {}), ...(id ? { operator: id } : {}) }),
    [query],
  );
  const leave = (then: () => void) => () => {
    then();
    document.querySelector<SVGElement>('[data-node][tabindex="0"]')?.focus({ preventScroll: true });
  };
  const chooseQuery = (name: string | null) => note(name ? { query: name } : {});
  const whole = drawn.value;
  const shown = onlyPath && path.data ? path.data.drawn : whole;
  const lit = onlyPath ? null : (path.data?.nodes ?? null);
  const node = shown?.whole.nodes.find((each) => each.id === operator) ?? null;
  const isHidden = node !== null && !shown!.plan.nodes.includes(node);
  useEffect(() => {
    if (isHidden) everything.value = true; // somebody asks for it
  }, [isHidden]);
  return (
    <div class="plan-view">
      <div class="bar">
        <h1>Plan</h1>
        <QuerySearch chosen={query} choose={chooseQuery} />
        <span class="muted grow">
          {whole && shown ? `${counted(shown.whole.nodes.length, "operator")}, epoch ${epoch.value ?? whole.plan.epoch}` : ""}
          {shown && !operator ? <Hottest plan={shown.whole} choose={choose} /> : null}
        </span>
        {query ? (
          <button type="button" aria-pressed={onlyPath} onClick={() => setOnlyPath(!onlyPath)}>
            Only its path
          </button>
        ) : null}
        {asTable ? null : (
          <button type="button" aria-pressed={everything.value} onClick={() => (everything.value = !everything.value)}>
            Projections
          </button>
        )}
        <button type="button" aria-pressed={asTable} onClick={() => setAsTable(!asTable)}>
          As a table
        </button>
      </div>
      <Problem error={problem.value ?? path.error} />
      <div class="plan-body">
        {!shown ? (
          <Empty>Reading the plan…</Empty>
        ) : !shown.plan.nodes.length ? (
          <Empty>
            Nothing runs yet. <a href={link("write")}>Write a query</a>, and the operators that answer it are drawn here.
          </Empty>
        ) : asTable ? (
          <OperatorTable plan={shown.whole} path={path.data?.nodes ?? null} chosen={operator} choose={choose} />
        ) : (
          <Graph drawn={shown} chosen={operator} path={lit} isPart={onlyPath && path.data !== null} choose={choose} />
        )}
        {node ? (
          <OperatorPanel node={node} chooseQuery={chooseQuery} close={leave(() => choose(null))} />
        ) : query ? (
          <QueryPanel name={query} operators={path.data?.nodes.size ?? null} close={leave(() => chooseQuery(null))} />
        ) : null}
      </div>
    </div>
  );
}
