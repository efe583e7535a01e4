// Where we are: the part of the address behind #, which never leaves the browser.
import { signal } from "@preact/signals";

export interface Route {
  view: string;
  name: string;
  options: URLSearchParams;
}

function read(): Route {
  const [path = "", options = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const slash = path.indexOf("/");
  const view = slash < 0 ? path : path.slice(0, slash);
  const name = slash < 0 ? "" : decoded(path.slice(slash + 1));
  return { view: view || "plan", name, options: new URLSearchParams(options) };
}

/** Addresses that people type need not be well formed. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const route = signal<Route>(read());
addEventListener("hashchange", () => (route.value = read()));

export function link(view: string, name = "", options: Record<string, string> = {}): string {
  const more = new URLSearchParams(options).toString();
  return `#/${view}${name ? `/${encodeURIComponent(name)}` : ""}${more ? `?${more}` : ""}`;
}

export function go(view: string, name = "", options: Record<string, string> = {}): void {
  location.hash = link(view, name, options);
}

/** Notes options in the address without a step in the history. */
export function note(options: Record<string, string>): void {
  const { view, name } = route.value;
  history.replaceState(null, "", link(view, name, options));
  route.value = { view, name, options: new URLSearchParams(options) };
}
