// Small parts that several views have.
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ErrorFields } from "../api/types";

export function Problem({ error }: { error: ErrorFields | null }): JSX.Element | null {
  if (!error) return null;
  return (
    <div class="problem" role="alert">
      <strong>{error.primary}</strong>
      {error.place ? <pre class="caret">{caret(error)}</pre> : null}
      {error.detail ? <p>{error.detail}</p> : null}
      {error.hint ? <p class="hint">Hint: {error.hint}</p> : null}
    </div>
  );
}

function caret({ place }: ErrorFields): string {
  const line = place!.text.split("\n")[place!.line - 1] ?? "";
  const length = Math.max(1, Math.min(place!.end - place!.start, line.length - place!.column + 1));
  return `${line}\n${" ".repeat(Math.max(0, place!.column - 1))}${"^".repeat(length)}`;
}

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }): JSX.Element {
  return <span class={`badge badge-${kind.toLowerCase().replace(/[^a-z]+/g, "-")}`}>{children}</span>;
}

/** A name with its number below it. */
export function Figure({ label, children }: { label: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** The text of a plan: lines that must not be broken. */
export function PlanText({ text }: { text: string }): JSX.Element {
  return (
    <pre class="detail tree" tabIndex={0} role="region" aria-label="Text of the plan">
      {text}
    </pre>
  );
}

export function Empty({ children }: { children: ComponentChildren }): JSX.Element {
  return <p class="empty">{children}</p>;
}

/** A question that must be answered before something is done. */
export function Confirm(props: { text: string; action: string; yes: () => void; no: () => void }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    return () => {
      const back = before?.isConnected ? before : document.getElementById("main");
      setTimeout(() => back?.focus()); // the dialog has gone by then
    };
  }, []);
  return (
    <dialog ref={dialog} class="confirm" onClose={props.no} aria-labelledby="confirm-text">
      <p id="confirm-text">{props.text}</p>
      <form method="dialog" class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
        <button type="button" class="danger" onClick={props.yes}>
          {props.action}
        </button>
      </form>
    </dialog>
  );
}

interface TabsProps<T extends string> {
  label: string;
  tabs: readonly (readonly [T, string])[];
  chosen: T;
  choose: (tab: T) => void;
}

/** Tabs as ARIA wants them: arrow keys move between them. */
export function Tabs<T extends string>({ label, tabs, chosen, choose }: TabsProps<T>): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([id]) => id === chosen);
    const next = (at + step + tabs.length) % tabs.length;
    choose(tabs[next]![0]);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map(([id, text]) => (
        <button
          key={id}
          type="button"
          role="tab"
          id={`tab-${id}`}
          aria-controls={chosen === id ? `panel-${id}` : undefined}
          aria-selected={chosen === id}
          tabIndex={chosen === id ? 0 : -1}
          onClick={() => choose(id)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

export function TabPanel({ id, children }: { id: string; children: ComponentChildren }): JSX.Element {
  return (
    <div role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} class="tab-panel">
      {children}
    </div>
  );
}
