// The frame of the page: where one can go, whether the service is there, who one is.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { lazy } from "./lib/lazy";
import { signedOut } from "./api/http";
import { Login } from "./login";
import { count } from "./lib/format";
import { Icon } from "./lib/icons";
import { PlanView } from "./plan/view";
import { link, route } from "./router";
import { connected, epoch, hasToken, me, signOut, theme, type Theme } from "./session";
import { Vitals } from "./vitals";

const Queries = lazy(() => import("./queries/queries").then((all) => all.QueriesView));
const views: Record<string, { title: string; view: () => JSX.Element }> = {
  plan: { title: "Plan", view: PlanView },
  queries: { title: "Queries", view: Queries },
  templates: { title: "Templates", view: Queries },
  write: { title: "Write", view: lazy(() => import("./editor/write").then((all) => all.EditorView)) },
  streams: { title: "Streams", view: lazy(() => import("./watch/streams").then((all) => all.StreamsView)) },
  epochs: { title: "Epochs", view: lazy(() => import("./watch/epochs").then((all) => all.EpochsView)) },
  routing: { title: "Routing", view: lazy(() => import("./watch/routing").then((all) => all.RoutingView)) },
  sinks: { title: "Sinks", view: lazy(() => import("./watch/sinks").then((all) => all.SinksView)) },
  settings: { title: "Settings", view: lazy(() => import("./watch/settings").then((all) => all.SettingsView)) },
};
const ORDER = ["plan", "queries", "write", "streams", "epochs", "routing", "sinks", "settings"] as const;

export function App(): JSX.Element {
  return signedOut.value ? <Login /> : <Frame />;
}

function Frame(): JSX.Element {
  const at = route.value.view in views ? route.value.view : "plan";
  const View = views[at]!.view;
  const { name } = route.value;
  document.title = `${name || views[at]!.title} · Millstream`;
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) keepFocus();
    isFirst.current = false;
  }, [at, name]);
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={toMain}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={link("plan")}>
          <img src="./assets/icon.svg" alt="" width="22" height="22" />
          Millstream
        </a>
        <span class="database" title="database">
          {me.value?.database ?? ""}
        </span>
        {me.value ? <Vitals /> : null}
        <Health />
        <ThemeChoice />
        {hasToken.value ? (
          <button type="button" class="quiet" onClick={signOut}>
            Sign out
          </button>
        ) : null}
      </header>
      <Views at={at === "templates" ? "queries" : at} />
      <main id="main" tabIndex={-1}>
        <View key={at} />
      </main>
    </div>
  );
}

function Views({ at }: { at: string }): JSX.Element {
  const list = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = list.current?.querySelector("[aria-current]");
    if (current) toMiddle(list.current!, current);
  }, [at]);
  return (
    <nav class="side" aria-label="Views" ref={list}>
      {ORDER.map((id) => (
        <a key={id} href={link(id)} aria-current={id === at ? "page" : undefined}>
          <Icon name={id} />
          {views[id]!.title}
        </a>
      ))}
    </nav>
  );
}

/** Scrolls by hand: after scrollIntoView a browser's Tab goes on from there, past the link to the content. */
function toMiddle(list: Element, shown: Element): void {
  const [outer, inner] = [list.getBoundingClientRect(), shown.getBoundingClientRect()];
  list.scrollBy(inner.left - outer.left - (outer.width - inner.width) / 2, inner.top - outer.top - (outer.height - inner.height) / 2);
}

/** Where what had the focus is gone, the new view has it. */
function keepFocus(): void {
  if (document.activeElement === document.body || document.activeElement === null) document.getElementById("main")?.focus();
}

/** The address has its view behind the #, so that it cannot also name a place. */
function toMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Health(): JSX.Element {
  const is = connected.value;
  const text = is === null ? "connecting" : is ? "live" : "reconnecting";
  return (
    <span class={`health health-${text}`}>
      <span class="dot" aria-hidden="true" />
      <span role="status">{text}</span>
      {is && epoch.value !== null ? <span class="epoch">epoch {count(epoch.value)}</span> : null}
    </span>
  );
}

function ThemeChoice(): JSX.Element {
  return (
    <label class="theme">
      <span class="unseen">Colours</span>
      <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
        <option value="system">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
