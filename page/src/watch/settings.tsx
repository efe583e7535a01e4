// What can be altered while everything runs, with its effect beside it.
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, send, ServiceError } from "../api/http";
import type { ErrorFields, Setting, Value } from "../api/types";
import { useAsked } from "../lib/asked";
import { count, shown } from "../lib/format";
import { Empty, Problem } from "../lib/parts";
import { mayAdminister, me } from "../session";
import { type Change, Effect } from "./effect";

/** What people alter to see what comes of it; the rest is seldom touched. */
const FIRST = ["routing", "join_plan", "strategy", "jit", "memory_budget", "shards"];

/** Kept while one looks elsewhere, at the plan say. */
const change = signal<Change | null>(null);

export function SettingsView(): JSX.Element {
  const [failed, setFailed] = useState<ErrorFields | null>(null);
  const [running, setRunning] = useState(true);
  const [busy, setBusy] = useState(false);
  const asked = useAsked<{ settings: Setting[] }>((abort) => get("v1/settings", {}, abort), [], { atLeast: 4000 });
  const settings = asked.data?.settings ?? null;
  const put = async (setting: Setting, value: Value) => {
    setBusy(true);
    try {
      const isApplied = running && setting.of_plans === true;
      const said = await send<Setting>("PUT", `v1/settings/${encodeURIComponent(setting.name)}`, { value, running: isApplied });
      setFailed(null);
      change.value = { name: setting.name, from: setting.value, to: value, at: Date.now(), queries: isApplied ? (said.queries ?? {}) : null };
    } catch (error) {
      if (error instanceof ServiceError) setFailed(error.fields);
    } finally {
      setBusy(false);
    }
    asked.again();
  };
  const row = (setting: Setting) => <OneSetting key={setting.name} setting={setting} busy={busy} put={(value) => void put(setting, value)} />;
  const first = FIRST.flatMap((name) => settings?.find((setting) => setting.name === name) ?? []);
  const others = settings?.filter(({ name }) => !FIRST.includes(name)) ?? [];
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
        {settings ? (
          <div>
            <section class="settings-list" aria-labelledby="settings-first">
              <div class="settings-head">
                <h2 id="settings-first">How plans run</h2>
                {mayAdminister.value ? (
                  <label class="check">
                    <input type="checkbox" checked={running} onChange={(event) => setRunning(event.currentTarget.checked)} />
                    for queries that run, too
                  </label>
                ) : null}
              </div>
              {first.map(row)}
            </section>
            <details class="settings-list" open={!first.length}>
              <summary class="settings-head">{count(others.length)} more settings</summary>
              {others.map(row)}
            </details>
          </div>
        ) : asked.error ? null : (
          <Empty>Reading the settings…</Empty>
        )}
        <Effect change={change.value} />
      </div>
    </div>
  );
}

interface SettingProps {
  setting: Setting;
  busy: boolean;
  put: (value: Value) => void;
}

function OneSetting({ setting, busy, put }: SettingProps): JSX.Element {
  const may = mayAdminister.value && setting.changeable !== false;
  const id = `setting-${setting.name}`;
  const isDefault = setting.default === undefined || setting.default === setting.value;
  return (
    <div class="setting">
      <label for={id}>
        <code>{setting.name}</code>
      </label>
      <Control id={id} setting={setting} may={may && !busy} put={put} />
      <p class="muted" id={`${id}-about`}>
        {setting.description}
        {setting.changeable === false ? " (fixed once there are queries)" : ""}
        {isDefault ? "" : `; the default is ${shown(setting.default) || "none"}`}
      </p>
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
        aria-describedby={`${id}-about`}
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
    const text = draft?.trim() ?? null;
    setDraft(null);
    if (text === null || text === String(value)) return;
    put(isNumber && /^[+-]?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text);
  };
  return (
    <form onSubmit={enter} class="value">
      <input
        id={id}
        aria-describedby={`${id}-about`}
        disabled={!may}
        inputMode={isNumber ? "decimal" : "text"}
        value={draft ?? (value === null ? "" : String(value))}
        placeholder={value === null || value === "" ? "none" : ""}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && setDraft(null)}
      />
      {draft !== null ? <button type="submit">Set</button> : null}
    </form>
  );
}
