import type { JSX } from "preact";
import { get } from "../api/http";
import type { Template } from "../api/types";
import { useAsked } from "../lib/asked";
import { count, counted, instant } from "../lib/format";
import { Badge, Empty, Problem, TabPanel, Tabs } from "../lib/parts";
import { go, link, route } from "../router";
import { QueryList } from "./list";
import { QueryView } from "./query";
import { TemplateView } from "./template";

const TABS = [
  ["queries", "Queries"],
  ["templates", "Templates"],
] as const;

export function QueriesView(): JSX.Element {
  const { view, name } = route.value;
  if (name) return view === "templates" ? <TemplateView key={name} name={name} /> : <QueryView key={name} name={name} />;
  const chosen = view === "templates" ? "templates" : "queries";
  return (
    <div class="fill">
      <div class="bar">
        <h1>Queries</h1>
        <Tabs label="Queries or templates" tabs={TABS} chosen={chosen} choose={(tab) => go(tab)} />
        <a class="button main end" href={link("write")}>
          Write a query
        </a>
      </div>
      <TabPanel id={chosen}>{chosen === "queries" ? <QueryList /> : <TemplateList />}</TabPanel>
    </div>
  );
}

function TemplateList(): JSX.Element {
  const { data, error } = useAsked<{ templates: Template[] }>((abort) => get("v1/templates", {}, abort), [], {
    atLeast: 2000,
  });
  if (!data) return error ? <Problem error={error} /> : <Empty>Reading the templates…</Empty>;
  if (!data.templates.length) return <Empty>There is no template: a text that is registered for many rows of parameters.</Empty>;
  return (
    <ul class="cards">
      {data.templates.map((template) => (
        <li key={template.name} class="card">
          <h2>
            <a href={link("templates", template.name)}>{template.name}</a>
          </h2>
          <p class="badges">
            <Badge kind="kind">{template.kind}</Badge>
            <Badge kind="mode">{template.mode}</Badge>
            <span>{counted(template.queries, "query", "queries")}</span>
            {Object.keys(template.failed).length ? (
              <Badge kind="state failed">{count(Object.keys(template.failed).length)} failed</Badge>
            ) : null}
            <span class="muted">final up to {instant(template.final)}</span>
          </p>
          <pre class="detail">{template.text}</pre>
        </li>
      ))}
    </ul>
  );
}
