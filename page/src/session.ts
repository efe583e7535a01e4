// Who we are, whether the service is there, and how the page looks.
import { computed, effect, signal } from "@preact/signals";
import { listen } from "./api/events";
import { forgetToken, get, ServiceError, signedOut, signIn, token } from "./api/http";
import type { Me, PlanEvent } from "./api/types";

export const me = signal<Me | null>(null);
export const mayWrite = computed(() => me.value?.role === "write" || me.value?.role === "admin");
export const mayAdminister = computed(() => me.value?.role === "admin");

/** Is the service there? Null until it has answered for the first time. */
export const connected = signal<boolean | null>(null);
export const epoch = signal<number | null>(null);
/** Moves whenever something may have happened: views ask again. */
export const pulse = signal(0);

const EVERY = 5000; // milliseconds between pulses where nothing seems to happen
type Watcher = (event: PlanEvent) => void;
const watchers = new Set<Watcher>();

/** Calls back with what has changed in the plan, about once a second while something does. */
export function watchPlan(watcher: Watcher): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

let leave: (() => void) | null = null;

/** Finds out who we are, and follows what happens from then on. */
export async function begin(): Promise<void> {
  leave?.();
  leave = null;
  try {
    me.value = await get<Me>("v1/me");
  } catch (error) {
    if (error instanceof ServiceError && error.status === 401) return;
    connected.value = false;
    setTimeout(() => void begin(), 1000);
    return;
  }
  signedOut.value = false;
  leave = listen("v1/plan/events", {}, {
    connected(is) {
      const was = connected.value;
      connected.value = is;
      if (is) pulse.value++;
      if (is && was === false) for (const watcher of watchers) watcher({ structure: true }); // another process, perhaps
    },
    event(data) {
      const event = data as PlanEvent;
      if (event.epoch !== undefined) epoch.value = event.epoch;
      for (const watcher of watchers) watcher(event);
      pulse.value++;
    },
    failed() {
      connected.value = false;
      if (!signedOut.value) setTimeout(() => void begin(), 2000);
    },
  });
  pulse.value++;
}

setInterval(() => {
  if (connected.value && !document.hidden) pulse.value++;
}, EVERY);

/** Whether the token is one that the service knows. */
export async function tryToken(secret: string): Promise<string | null> {
  signIn(secret);
  try {
    await get("v1/me");
  } catch (error) {
    forgetToken();
    return error instanceof ServiceError ? error.fields.primary : String(error);
  }
  await begin();
  return null;
}

export function signOut(): void {
  leave?.();
  leave = null;
  forgetToken();
  me.value = null;
  signedOut.value = true;
}

export const hasToken = computed(() => token.value !== null);

// Light and dark

export type Theme = "system" | "light" | "dark";
const THEME = "millstream.theme";
const wantsDark = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(wantsDark.matches);
wantsDark.addEventListener("change", () => (systemDark.value = wantsDark.matches));

export const theme = signal<Theme>((localStorage.getItem(THEME) as Theme | null) ?? "system");
export const isDark = computed(() => (theme.value === "system" ? systemDark.value : theme.value === "dark"));

effect(() => {
  localStorage.setItem(THEME, theme.value);
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
});
