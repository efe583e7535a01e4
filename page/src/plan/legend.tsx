// What the colours and lines of the plan mean.
import type { JSX } from "preact";

const KINDS = [
  ["source", "streams, tables"],
  ["window", "windows"],
  ["filter", "filters"],
  ["join", "joins, SteMs"],
  ["aggregate", "aggregates"],
  ["set", "DISTINCT, sets, order"],
  ["output", "answers, the rest"],
] as const;
const LINES = [
  ["flow-4", "many rows a second"],
  ["flow-1", "few"],
  ["pattern-strict", "rows may leave at any time"],
  ["awaited", "waited for only"],
] as const;

export function Legend(): JSX.Element {
  return (
    <details class="canvas-legend">
      <summary>Legend</summary>
      <ul>
        {KINDS.map(([kind, text]) => (
          <li key={kind}>
            <span class={`swatch kind-${kind}`} aria-hidden="true" /> {text}
          </li>
        ))}
        <li>
          <span class="swatch heat-swatch" aria-hidden="true" /> the warmer, the more of the time
        </li>
        {LINES.map(([line, text]) => (
          <li key={line}>
            <svg width="26" height="8" aria-hidden="true">
              <g class={`edge-sign ${line}`}>
                <path d="M1 4H25" />
              </g>
            </svg>{" "}
            {text}
          </li>
        ))}
      </ul>
      <p class="muted">Edges lead past projections, unless “Projections” is on.</p>
    </details>
  );
}
