// What can be altered while everything runs, with its effect beside it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, send, ServiceError } from "../api/http";
import type { ErrorFields, Row, Setting, Value } from "../api/types";
import { useAsked } from "../lib/asked";
import { milliseconds, NONE, shown } from "../lib/format";
import { Empty, Figure, Problem } from "../lib/parts";
import { Plot } from "../lib/plot";
import { mayAdminister, me } from "../session";
import { number, timeOf, useLately } from "./lately";

interface Change {
  name: string;
  from: Value;
  to: Value;
  at: number;
}

const LATELY = 300;

export function SettingsView(): JSX.Element {
  const [failed, setFailed] = useState<ErrorFields | null>(null);
  const [change, setChange] = useState<Change | null>(null);
  const asked = useAsked<{ settings: Setting[] } | Setting[]>((abort) => get("v1/settings", {}, abort), [], { atLeast: 4000 });
  const settings = Array.isArray(asked.data) ? asked.data : (asked.data?.settings ?? null);
  const put = async (setting: Setting, value: Value) => {
    try {
      await send("PUT", `v1/settings/${encodeURIComponent(setting.name)}`, { value });
      setFailed(null);
      setChange({ name: setting.name, from: setting.value, to: value, at: Date.now() });
    } catch (error) {
      if (error instanceof ServiceError) setFailed(error.fields);
    }
    asked.again();
  };
  return (
    <div>
      <div class="bar">
        <h1>Settings</h1>
        <span class="muted">
          {me.value && !mayAdminister.value ? `This token is for ${me.value.role}: settings can be seen, and altered by an administrator.` : ""}
        </span>
      </div>
      <Problem error={failed ?? asked.error} />
      <div class="settings">
        <div class="settings-list">
          {settings ? (
            settings.map((setting) => <OneSetting key={setting.name} setting={setting} put={(value) => void put(setting, value)} />)
          ) : asked.error ? null : (
            <Empty>Reading the settings…</Empty>
          )}
        </div>
        <Effect change={change} />
      </div>
    </div>
  );
}

function OneSetting({ setting, put }: { setting: Setting; put: (value: Value) => void }): JSX.Element {
  const may = mayAdminister.value && setting.changeable !== false;
  const id = `setting-${setting.name}`;
  const isDefault = setting.default === undefined || setting.default === setting.value;
  return (
    <div class="setting">
      <label for={id}>
        <code>{setting.name}</code>
        {isDefault ? null : <span class="muted"> default {shown(setting.default)}</span>}
      </label>
      <Control id={id} setting={setting} may={may} put={put} />
      {setting.description ? <p class="muted">{setting.description}</p> : null}
    </div>
  );
}

interface ControlProps {
  id: string;
  setting: Setting;
  may: boolean;
  put: (value: Value) => void;
}

function Control({ id, setting, may, put }: ControlProps): JSX.Element {
  const [draft, setDraft] = useState<string | null>(null);
  const { value, choices } = setting;
  const all = choices?.length ? choices : typeof value === "boolean" || setting.kind === "boolean" ? [true, false] : null;
  if (all)
    return (
      <select
        id={id}
        disabled={!may}
        value={String(value)}
        onChange={(event) => put(all.find((each) => String(each) === event.currentTarget.value) ?? null)}
      >
        {all.map((each) => (
          <option key={String(each)} value={String(each)}>
            {typeof each === "boolean" ? (each ? "on" : "off") : shown(each)}
          </option>
        ))}
      </select>
    );
  const isNumber = typeof value === "number" || setting.kind === "number";
  const enter = (event: Event) => {
    event.preventDefault();
    if (draft === null) return;
    put(draft === "" ? null : isNumber && Number.isFinite(Number(draft)) ? Number(draft) : draft);
    setDraft(null);
  };
  return (
    <form onSubmit={enter} class="value">
      <input
        id={id}
        disabled={!may}
        inputMode={isNumber ? "decimal" : "text"}
        value={draft ?? (value === null ? "" : String(value))}
        placeholder={value === null ? "none" : ""}
        onInput={(event) => setDraft(event.currentTarget.value)}
      />
      {draft !== null ? <button type="submit">Set</button> : null}
    </form>
  );
}

/** How long epochs take, before and after the last change. */
function Effect({ change }: { change: Change | null }): JSX.Element {
  const { data } = useLately("epochs", LATELY);
  const rows = data ?? [];
  const times = rows.map(timeOf);
  const totals = rows.map((row) => number(row, "total_ms"));
  const series = change
    ? [
        { name: "before", values: totals.map((value, index) => (times[index]! < change.at ? value : null)) },
        { name: "after", values: totals.map((value, index) => (times[index]! >= change.at ? value : null)) },
      ]
    : [{ name: "epoch", values: totals }];
  return (
    <section class="card effect" aria-label="Effect">
      <h2>Effect</h2>
      <p class="muted">
        {change ? (
          <>
            <code>{change.name}</code> from {shown(change.from)} to {shown(change.to)}, {new Date(change.at).toLocaleTimeString()}
          </>
        ) : (
          "How long epochs take. A change shows here."
        )}
      </p>
      {rows.length > 1 ? (
        <Plot label="Milliseconds of each epoch" kind="bar" times={times} isTime series={series} height={220} />
      ) : (
        <Empty>No epochs lately.</Empty>
      )}
      {change ? (
        <dl class="figures">
          <Figure label="an epoch before">{middle(rows, (time) => time < change.at)}</Figure>
          <Figure label="an epoch after">{middle(rows, (time) => time >= change.at)}</Figure>
        </dl>
      ) : null}
    </section>
  );
}

function middle(rows: readonly Row[], holds: (time: number) => boolean): string {
  const found = rows
    .filter((row) => holds(timeOf(row)))
    .map((row) => number(row, "total_ms"))
    .sort((a, b) => a - b);
  return found.length ? milliseconds(found[Math.floor(found.length / 2)]) : NONE;
}
