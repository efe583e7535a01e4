// Drawn signs, as wide as letters are high; the words beside them say the same.
import type { JSX } from "preact";

const PATHS = {
  plan: "M4 6h5v4H4zM15 4h5v4h-5zM15 16h5v4h-5zM9 8h3v-2h3M12 8v10h3",
  queries: "M4 6h16M4 12h16M4 18h10",
  write: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  streams: "M3 8c3-3 6-3 9 0s6 3 9 0M3 13c3-3 6-3 9 0s6 3 9 0M3 18c3-3 6-3 9 0s6 3 9 0",
  epochs: "M5 20V10M10 20V4M15 20v-8M20 20v-5",
  routing: "M4 12h5l6-6h5M9 12l6 6h5M17 3l3 3-3 3M17 15l3 3-3 3",
  sinks: "M12 3v11M7 10l5 5 5-5M4 20h16",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 7m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0M9 17m-2 0a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
