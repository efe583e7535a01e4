// What the service was asked for, asked again when something has happened. What was there stays until the answer comes,
// and while the service is away.
import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { ServiceError } from "../api/http";
import type { ErrorFields } from "../api/types";
import { pulse } from "../session";

export interface Asked<T> {
  data: T | null;
  error: ErrorFields | null;
  again: () => void;
}

interface Options {
  /** What makes it ask again; pulses by default. */
  when?: ReadonlySignal<number> | null;
  /** Milliseconds between two questions, at least. */
  atLeast?: number;
}

export function useAsked<T>(
  ask: (abort: AbortSignal) => Promise<T>,
  depends: readonly unknown[],
  { when = pulse, atLeast = 900 }: Options = {},
): Asked<T> {
  const [state, setState] = useState<{ data: T | null; error: ErrorFields | null }>({ data: null, error: null });
  const current = useRef<() => void>(() => undefined);
  useEffect(() => {
    const leaving = new AbortController();
    let busy = false;
    let wanted = false;
    let asked = 0;
    let clock: ReturnType<typeof setTimeout> | undefined;
    const run = async () => {
      if (busy || clock !== undefined) return void (wanted = true);
      const wait = asked + atLeast - performance.now();
      if (asked && wait > 0) {
        clock = setTimeout(() => ((clock = undefined), void run()), wait);
        return;
      }
      busy = true;
      wanted = false;
      asked = performance.now();
      try {
        const data = await ask(leaving.signal);
        if (!leaving.signal.aborted) setState({ data, error: null });
      } catch (error) {
        if (leaving.signal.aborted) return;
        if (!(error instanceof ServiceError)) throw error;
        // Whatever stands there is still what it was: the bar above says that the service is away.
        if (error.status !== 0 && error.status !== 401)
          setState((before) => ({ data: error.status === 404 ? null : before.data, error: error.fields }));
      } finally {
        busy = false;
      }
      if (wanted && !leaving.signal.aborted) void run();
    };
    current.current = () => ((asked = 0), void run());
    setState({ data: null, error: null });
    let first = true;
    const end = when?.subscribe(() => {
      if (!document.hidden || first) void run();
      first = false;
    });
    if (!when) void run();
    return () => {
      leaving.abort();
      clearTimeout(clock);
      end?.();
    };
  }, depends);
  return { ...state, again: () => current.current() };
}
