// Views that are loaded when they are first shown.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

export function lazy(load: () => Promise<() => JSX.Element>): () => JSX.Element {
  let loaded: (() => JSX.Element) | null = null;
  return function Lazy(): JSX.Element {
    const [, ready] = useState(loaded !== null);
    useEffect(() => {
      if (!loaded) void load().then((view) => ((loaded = view), ready(true)));
    }, []);
    const View = loaded;
    return View ? <View /> : <p class="empty">Loading…</p>;
  };
}

