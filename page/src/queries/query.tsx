// One query: its answer, live or as of an instant, as a table or a plot; its text, defaults and plan.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, part, send, ServiceError } from "../api/http";
import type { About, ErrorFields, Extent, Instant, Rows } from "../api/types";
import { useAsked } from "../lib/asked";
import { count, errorFields, instant } from "../lib/format";
import { Badge, Confirm, Empty, PlanText, Problem, TabPanel, Tabs } from "../lib/parts";
import { go, link, note, route } from "../router";
import { mayWrite } from "../session";
import { Answer, SHOWN } from "./answer";
import { Downloads } from "./downloads";
import { PlotTab } from "./plot_tab";
import { TimeSlider } from "./slider";
import { AnswerTable, still } from "./table";

const TABS = [
  ["table", "Table"],
  ["plot", "Plot"],
  ["text", "Text and plan"],
] as const;
type Tab = (typeof TABS)[number][0];

export function QueryView({ name }: { name: string }): JSX.Element {
  const { options } = route.value;
  const tab = TABS.find(([id]) => id === options.get("show"))?.[0] ?? "table";
  const asOf = options.get("at");
  const at: Instant | null = asOf === null ? null : /^\d+$/.test(asOf) && Number.isSafeInteger(Number(asOf)) ? Number(asOf) : asOf; // null: live
  const place = (show: Tab, instant: Instant | null) =>
    note({ ...(show === "table" ? {} : { show }), ...(instant === null ? {} : { at: String(instant) }) });
  const [dropping, setDropping] = useState(false);
  const [failed, setFailed] = useState<ErrorFields | null>(null);
  const path = `v1/queries/${part(name)}`;
  const about = useAsked<About>((abort) => get(path, {}, abort), [name]);
  const extent = useAsked<Extent>((abort) => get(`${path}/extent`, {}, abort), [name]);
  const query = about.data;
  const stopped = errorFields(query?.error);
  const isMissing = about.error !== null && query === null;
  const drop = async () => {
    setDropping(false);
    try {
      await send("DELETE", path);
      go("queries");
    } catch (error) {
      if (error instanceof ServiceError) setFailed(error.fields);
    }
  };
  return (
    <div class="fill">
      <div class="bar">
        <h1>
          <a class="up" href={link("queries")}>
            Queries
          </a>{" "}
          {name}
        </h1>
        {query ? (
          <p class="badges">
            <Badge kind="kind">{query.kind}</Badge>
            <Badge kind="mode">{query.mode}</Badge>
            {query.template ? (
              <span>
                of <a href={link("templates", query.template)}>{query.template}</a>
              </span>
            ) : null}
            <span class="muted">final up to {instant(query.final)}</span>
          </p>
        ) : null}
        {isMissing ? null : (
          <span class="end actions">
            <a class="button" href={link("plan", "", { query: name })}>
              Path in the plan
            </a>
            <Downloads path={path} name={name} at={at} />
            {mayWrite.value ? (
              <button type="button" class="danger" onClick={() => setDropping(true)}>
                Drop
              </button>
            ) : null}
          </span>
        )}
      </div>
      <Problem error={failed ?? about.error ?? stopped} />
      <div class="bar" hidden={isMissing}>
        <Tabs label="What to show" tabs={TABS} chosen={tab} choose={(show: Tab) => place(show, at)} />
        {tab === "table" ? <TimeSlider extent={extent.data} at={at} setAt={(instant) => place(tab, instant)} /> : null}
      </div>
      <TabPanel id={tab}>
        {tab === "table" && stopped ? <Empty>The query was stopped by this error, and has no answer.</Empty> : null}
        {tab === "table" && at === null && query && !stopped ? <LiveTable name={name} /> : null}
        {tab === "table" && at !== null && !stopped ? <PastTable path={path} name={name} at={at} /> : null}
        {tab === "plot" && query ? <PlotTab path={path} query={query} extent={extent.data} /> : null}
        {tab === "text" && query ? <TextTab query={query} path={path} /> : null}
      </TabPanel>
      {dropping ? (
        <Confirm
          text={`Drop the query “${name}”? Its answer and what only it keeps are gone.`}
          action="Drop"
          yes={() => void drop()}
          no={() => setDropping(false)}
        />
      ) : null}
    </div>
  );
}

function LiveTable({ name }: { name: string }): JSX.Element {
  const [answer, setAnswer] = useState<Answer | null>(null);
  useEffect(() => {
    const opened = Answer.of(name);
    setAnswer(opened);
    return () => opened.close();
  }, [name]);
  if (!answer) return <Empty>Reading the answer…</Empty>;
  return <LiveRows answer={answer} name={name} />;
}

function LiveRows({ answer, name }: { answer: Answer; name: string }): JSX.Element {
  const total = answer.total.value;
  return (
    <>
      <Problem error={answer.error.value} />
      {total === null ? null : (
        <p class="muted counts">
          {`${count(total)} ${total === 1 ? "row" : "rows"} at ${instant(answer.final.value)}`}
          {total > SHOWN ? `, ${count(SHOWN)} shown` : ""}
          {" · "}
          <span class="came">+{count(answer.came.value)}</span> <span class="gone">−{count(answer.gone.value)}</span> since
          you look
        </p>
      )}
      {total === null && !answer.error.value ? <Empty>Reading the answer…</Empty> : null}
      {total === 0 && !answer.rows.value.length ? <Empty>The answer is empty.</Empty> : null}
      {answer.rows.value.length ? (
        <AnswerTable live label={`Answer of ${name}`} columns={answer.columns.value} rows={answer.rows.value} />
      ) : null}
    </>
  );
}

function PastTable({ path, name, at }: { path: string; name: string; at: Instant }): JSX.Element {
  const { data, error } = useAsked<Rows>((abort) => get(`${path}/result`, { at, limit: SHOWN }, abort), [path, at], {
    when: null,
  });
  const total = data ? (data.total ?? data.rows.length) : null;
  return (
    <>
      <Problem error={error} />
      <p class="muted counts">
        {total === null ? "…" : `${count(total)} ${total === 1 ? "row" : "rows"} at ${instant(at)}`}
        {total !== null && total > SHOWN ? `, ${count(SHOWN)} shown` : ""}
      </p>
      {data && !data.rows.length ? <Empty>The answer was empty.</Empty> : null}
      {data?.rows.length ? (
        <AnswerTable label={`Answer of ${name}`} columns={data.columns} rows={still(data.rows.slice(0, SHOWN), data.columns)} />
      ) : null}
    </>
  );
}

function TextTab({ query, path }: { query: About; path: string }): JSX.Element {
  const { data } = useAsked<{ plan: string }>((abort) => get(`${path}/explain`, {}, abort), [path], { atLeast: 5000 });
  return (
    <div class="text-tab">
      <section>
        <h2>Expanded text</h2>
        <pre class="detail">{query.cql}</pre>
        {query.defaults.length ? (
          <>
            <h2>Defaults applied</h2>
            <ul>
              {query.defaults.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ul>
          </>
        ) : null}
        {query.notices?.length ? (
          <>
            <h2>Notices</h2>
            <ul>
              {query.notices.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ul>
          </>
        ) : null}
      </section>
      <section>
        <h2>Plan</h2>
        <PlanText text={data?.plan ?? "…"} />
      </section>
    </div>
  );
}
