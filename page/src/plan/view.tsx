// The plan that all queries share, live, with the path of one query and who shares an operator.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { get } from "../api/http";
import type { Plan } from "../api/types";
import { useAsked } from "../lib/asked";
import { counted } from "../lib/format";
import { Empty, Problem } from "../lib/parts";
import { link, note, route } from "../router";
import { epoch } from "../session";
import { QuerySearch } from "../queries/search";
import { Graph } from "./graph";
import { OperatorPanel, QueryPanel } from "./panel";
import { drawn, type Drawn, drawPart, followPlan, problem } from "./store";
import { OperatorTable } from "./table";

interface Path {
  nodes: Set<string>;
  drawn: Drawn;
}

async function pathOf(query: string, abort: AbortSignal): Promise<Path> {
  const part = await get<Plan>("v1/plan", { query }, abort);
  return { nodes: new Set(part.nodes.map((node) => node.id)), drawn: await drawPart(part) };
}

export function PlanView(): JSX.Element {
  const [asTable, setAsTable] = useState(false);
  const [onlyPath, setOnlyPath] = useState(false);
  const query = route.value.options.get("query");
  const operator = route.value.options.get("operator");
  useEffect(followPlan, []);
  const path = useAsked<Path | null>((abort) => (query ? pathOf(query, abort) : Promise.resolve(null)), [query], { atLeast: 3000 });
  const choose = useMemo(
    () => (id: string | null) => note({ ...(query ? { query } : {}), ...(id ? { operator: id } : {}) }),
    [query],
  );
  const chooseQuery = (name: string | null) => note(name ? { query: name } : {});
  const whole = drawn.value;
  const shown = onlyPath && path.data ? path.data.drawn : whole;
  const lit = onlyPath ? null : (path.data?.nodes ?? null);
  const node = shown?.plan.nodes.find((each) => each.id === operator) ?? null;
  return (
    <div class="plan-view">
      <div class="bar">
        <h1>Plan</h1>
        <QuerySearch chosen={query} choose={chooseQuery} />
        <span class="muted grow">
          {whole && shown ? `${counted(shown.plan.nodes.length, "operator")}, epoch ${epoch.value ?? whole.plan.epoch}` : ""}
        </span>
        {query ? (
          <button type="button" aria-pressed={onlyPath} onClick={() => setOnlyPath(!onlyPath)}>
            Only its path
          </button>
        ) : null}
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
            Nothing runs yet. <a href={link("write")}>Write a query</a>.
          </Empty>
        ) : asTable ? (
          <OperatorTable plan={shown.plan} path={path.data?.nodes ?? null} chosen={operator} choose={choose} />
        ) : (
          <Graph drawn={shown} chosen={operator} path={lit} isPart={onlyPath && path.data !== null} choose={choose} />
        )}
        {node ? (
          <OperatorPanel node={node} chooseQuery={chooseQuery} close={() => choose(null)} />
        ) : query ? (
          <QueryPanel name={query} operators={path.data?.nodes.size ?? null} close={() => chooseQuery(null)} />
        ) : null}
      </div>
    </div>
  );
}
