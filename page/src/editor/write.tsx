// Where queries are written: checked while one types, with what they would share and cost, and registered.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, send, ServiceError } from "../api/http";
import type { Check, CheckError, ErrorFields, Names, Row, Rows, Value } from "../api/types";
import { compact, count, milliseconds, shown } from "../lib/format";
import { Badge, PlanText, Problem } from "../lib/parts";
import { go, link } from "../router";
import { mayWrite, me } from "../session";
import { AnswerTable, still } from "../queries/table";
import { type Code, openCode } from "./code";

const DRAFT = "millstream.draft";
const DEBOUNCE = 300;

interface Done {
  message: string;
  notices?: string[];
  columns?: Rows["columns"] | null;
  rows?: Row[] | null;
}

export function EditorView(): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const code = useRef<Code | null>(null);
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const [name, setName] = useState("");
  const [mode, setMode] = useState("eager");
  const [problem, setProblem] = useState<ErrorFields | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const [busy, setBusy] = useState(false);
  const [names, setNames] = useState<Names | null>(null);
  const submit = useRef<() => void>(() => undefined);
  const isQuery = isQueryText(text);
  const check = useCheck(text);

  useEffect(() => {
    const opened = openCode(host.current!, { text, changed: setText, submit: () => submit.current() });
    code.current = opened;
    get<Names>("v1/names").then(
      (found) => (setNames(found), opened.learn(found)),
      () => undefined, // it can be written without completion too
    );
    return () => opened.close();
  }, []);
  useEffect(() => sessionStorage.setItem(DRAFT, text), [text]);
  useEffect(() => code.current?.mark(check?.errors ?? []), [check]);

  submit.current = () => {
    if (!text.trim() || busy) return;
    setBusy(true);
    setProblem(null);
    setDone(null);
    const work = isQuery ? register(text, name.trim(), mode) : send<Done>("POST", "v1/execute", { text });
    work
      .then(
        (result) => setDone(result ?? null),
        (error: unknown) => setProblem(error instanceof ServiceError ? error.fields : { primary: String(error) }),
      )
      .finally(() => setBusy(false));
  };
  return (
    <div class="fill write">
      <div class="bar">
        <h1>Write</h1>
        {isQuery ? (
          <>
            <label class="field">
              <span>Name</span>
              <input value={name} placeholder="made up if empty" onInput={(event) => setName(event.currentTarget.value)} />
            </label>
            <label class="field">
              <span>Mode</span>
              <select value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
                <option value="eager">eager: the answer is kept</option>
                <option value="lazy">lazy: matches are kept</option>
                <option value="none">none: nothing is kept</option>
              </select>
            </label>
          </>
        ) : (
          <span class="muted">Statements other than a query are run as they are.</span>
        )}
        <button
          type="button"
          class="main end"
          disabled={busy || !text.trim() || (isQuery && !mayWrite.value)}
          onClick={() => submit.current()}
        >
          {isQuery ? "Register" : "Run"}
        </button>
      </div>
      <p id="editor-help" class="unseen">
        Ctrl+Enter registers the query. Ctrl+Space completes. Tab leaves the editor.
      </p>
      {isQuery && me.value && !mayWrite.value ? (
        <p class="muted">This token may read only, so that queries are checked and not registered.</p>
      ) : null}
      <div class="write-body">
        <div class="code" ref={host} />
        <div class="checked" aria-live="polite">
          <Problem error={problem} />
          {done ? <Outcome done={done} /> : null}
          {check ? <Checked check={check} show={(error) => code.current?.showPlace(error)} /> : null}
          {!text.trim() ? <Examples names={names} use={(example) => code.current?.replace(example)} /> : null}
        </div>
      </div>
    </div>
  );
}

/** A query, and not a statement about something else. */
function isQueryText(text: string): boolean {
  const plain = text.replace(/--[^\n]*/g, " ").replace(/\/\*[\s\S]*?\*\//g, " ");
  return !/^\s*(create|drop|insert|delete|update|set|show|explain|register|advance)\b/i.test(plain);
}

async function register(cql: string, name: string, mode: string): Promise<null> {
  const made = await send<{ name: string }>("POST", "v1/queries", { cql: cql.replace(/;\s*$/, ""), mode, ...(name ? { name } : {}) });
  sessionStorage.removeItem(DRAFT);
  go("queries", made.name);
  return null;
}

/** The check of a text, a moment after the last key; null while there is none. */
function useCheck(text: string): Check | null {
  const [check, setCheck] = useState<Check | null>(null);
  useEffect(() => {
    if (!text.trim()) return setCheck(null);
    const leaving = new AbortController();
    const clock = setTimeout(() => {
      send<Check>("POST", "v1/check", { cql: text.replace(/;\s*$/, "") }, leaving.signal).then(setCheck, (error: unknown) => {
        if (leaving.signal.aborted || !(error instanceof ServiceError) || error.status === 0) return;
        const { primary, detail, hint, place } = error.fields;
        setCheck({
          ok: false,
          errors: [{ message: primary, detail: detail ?? null, hint: hint ?? null, line: place?.line ?? null, column: place?.column ?? null }],
        });
      });
    }, DEBOUNCE);
    return () => {
      clearTimeout(clock);
      leaving.abort();
    };
  }, [text]);
  return check;
}

function Checked({ check, show }: { check: Check; show: (error: CheckError) => void }): JSX.Element {
  if (!check.ok)
    return (
      <ul class="errors">
        {(check.errors ?? []).map((error) => (
          <li key={error.message} class="problem">
            <strong>{error.message}</strong>
            {error.line ? (
              <button type="button" class="linklike" onClick={() => show(error)}>
                line {error.line}, column {error.column}
              </button>
            ) : null}
            {error.detail ? <p>{error.detail}</p> : null}
            {error.hint ? <p class="hint">Hint: {error.hint}</p> : null}
          </li>
        ))}
      </ul>
    );
  if (check.kind === "statement")
    return (
      <p class="badges">
        <Badge kind="state running">valid</Badge>
      </p>
    );
  const cost = Object.entries(check.cost ?? {}).filter(([, value]) => value !== null);
  return (
    <>
      <p class="badges">
        <Badge kind="state running">valid</Badge>
        {check.kind ? <Badge kind="kind">{check.kind}</Badge> : null}
        <span class="schema">
          {check.schema?.map(({ name, type }) => (
            <span key={name}>
              {name} <span class="type">{type}</span>
            </span>
          ))}
        </span>
      </p>
      {check.shared?.length ? (
        <section>
          <h2>Shared with what runs</h2>
          <ul class="shared">
            {check.shared.map(({ label, queries }, index) => (
              <li key={index}>
                <code>{label}</code> <span class="muted">{queries === 1 ? "one query" : `${count(queries)} queries`}</span>
              </li>
            ))}
          </ul>
        </section>
      ) : (
        <p class="muted">{check.sharing?.join("; ") || "Nothing that runs already can be shared but the streams themselves."}</p>
      )}
      {cost.length ? (
        <section>
          <h2>Cost</h2>
          <dl class="figures">
            {cost.map(([key, value]) => (
              <div class="figure" key={key}>
                <dt>{key.replace(/^nanoseconds/, "time").replaceAll("_", " ")}</dt>
                <dd>{costOf(key, value)}</dd>
              </div>
            ))}
          </dl>
        </section>
      ) : null}
      {check.defaults?.length ? (
        <section>
          <h2>Defaults applied</h2>
          <ul>
            {check.defaults.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </section>
      ) : null}
      {check.expanded ? (
        <section>
          <h2>Expanded text</h2>
          <pre class="detail">{check.expanded}</pre>
        </section>
      ) : null}
      {check.plan ? (
        <section>
          <h2>Plan</h2>
          <PlanText text={check.plan} />
        </section>
      ) : null}
    </>
  );
}

function costOf(key: string, value: Value): string {
  if (typeof value !== "number") return shown(value);
  return key.startsWith("nanoseconds") ? milliseconds(value / 1e6) : compact(value);
}

function Outcome({ done }: { done: Done }): JSX.Element {
  return (
    <section class="outcome" role="status">
      <p>
        <strong>{done.message}</strong>
      </p>
      {done.notices?.map((each) => (
        <p key={each}>{each}</p>
      ))}
      {done.columns && done.rows ? (
        <AnswerTable label="Result" columns={done.columns} rows={still(done.rows.slice(0, 500), done.columns)} />
      ) : null}
    </section>
  );
}

const WATCHING = "SELECT ISTREAM(epoch, total_ms) FROM sys.epochs [RANGE 5 MINUTES] WHERE total_ms > 100";
const BEGINNING = ["CREATE STREAM Cars (car INT, speed INT) TIMESTAMP BY ts", "INSERT INTO Cars VALUES (1, 50, 0), (2, 70, 1)", WATCHING];

function quoted(name: string): string {
  return /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$/.test(name) ? name : `\`${name.replaceAll("`", "``")}\``;
}

/** Texts that work here: about the first stream that there is. */
function examplesOf(names: Names | null): string[] {
  const stream = names?.streams.find(({ name }) => !name.startsWith("sys."));
  if (!stream) return BEGINNING;
  const source = quoted(stream.name);
  const column = stream.columns[0] ? quoted(stream.columns[0].name) : null;
  const grouped = column ? [`SELECT ${column}, count(*) AS n\nFROM ${source} [ROWS 1000]\nGROUP BY ${column}`] : [];
  return [`SELECT * FROM ${source} [ROWS 20]`, ...grouped, WATCHING, "SHOW STREAMS"];
}

function Examples({ names, use }: { names: Names | null; use: (text: string) => void }): JSX.Element {
  return (
    <section class="card">
      <h2>Begin with an example</h2>
      <p class="muted">
        Write a query in CQL, or a statement. It is checked while you type. What is registered is listed under{" "}
        <a href={link("queries")}>Queries</a>.
      </p>
      <ul class="names">
        {examplesOf(names).map((example) => (
          <li key={example}>
            <button type="button" class="linklike" onClick={() => use(example)}>
              <code>{example}</code>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
