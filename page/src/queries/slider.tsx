// The time of an answer: live, or any instant that can still be answered.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Extent, Instant } from "../api/types";
import { instant } from "../lib/format";
import { instantOf, isTimestamp, numberOf } from "../lib/time";

interface SliderProps {
  extent: Extent | null;
  at: Instant | null;
  setAt: (at: Instant | null) => void;
}

const STEPS = 2000; // of a slider over timestamps
const MINUTE = 60_000;
/** How far back the slider reaches: milliseconds of timestamps, and ticks. */
const SPANS: Record<"time" | "ticks", [number, string][]> = {
  time: [
    [MINUTE, "last minute"],
    [10 * MINUTE, "last 10 minutes"],
    [60 * MINUTE, "last hour"],
    [24 * 60 * MINUTE, "last day"],
    [Infinity, "all that is kept"],
  ],
  ticks: [
    [100, "last 100"],
    [1000, "last 1,000"],
    [100_000, "last 100,000"],
    [Infinity, "all that is kept"],
  ],
};

export function TimeSlider({ extent, at, setAt }: SliderProps): JSX.Element | null {
  const [held, setHeld] = useState<number | null>(null); // while it is dragged
  const [span, setSpan] = useState<number | null>(null);
  const [draft, setDraft] = useState<string | null>(null); // while an instant is typed
  const clock = useRef<ReturnType<typeof setTimeout>>(undefined);
  if (!extent || extent.final === null) return null;
  const like = extent.final;
  const last = numberOf(extent.final);
  const kept = Math.min(last, extent.first_answerable === null ? last : numberOf(extent.first_answerable));
  const spans = SPANS[isTimestamp(like) ? "time" : "ticks"].filter(([size]) => size < last - kept || size === Infinity);
  const chosen = span ?? usual(spans, isTimestamp(like));
  const first = Math.max(kept, last - chosen);
  const step = typeof like === "number" ? 1 : Math.max(1, Math.round((last - first) / STEPS));
  const now = held ?? (at === null ? last : numberOf(at));
  const isLive = at === null && held === null;
  const move = (value: number) => {
    setHeld(value);
    clearTimeout(clock.current);
    clock.current = setTimeout(() => {
      setHeld(null);
      setAt(instantOf(value, like));
    }, 120);
  };
  const live = () => {
    clearTimeout(clock.current);
    setHeld(null);
    setAt(null);
  };
  /** An instant that was typed; one that cannot be understood is refused by the service, with the reason. */
  const typed = (text: string) => {
    const wanted = text.trim().replaceAll(/(\d),(?=\d)/g, "$1");
    if (!wanted) live();
    else setAt(/^\d+$/.test(wanted) ? Number(wanted) : wanted.replace(/^(\d{4}-\d\d-\d\d) /, "$1T").replace(/(T[\d:.]+)$/, "$1Z"));
  };
  return (
    <div class="slider" role="group" aria-label="Instant">
      <button type="button" aria-pressed={isLive} class="live" onClick={live}>
        Live
      </button>
      <input
        type="range"
        aria-label="As of"
        aria-valuetext={instant(instantOf(now, like))}
        min={first}
        max={last}
        step={step}
        value={now}
        onInput={(event) => move(Number(event.currentTarget.value))}
      />
      <input
        type="text"
        class="typed"
        aria-label="Instant, typed"
        value={draft ?? (held === null ? instant(at ?? like) : instant(instantOf(now, like)))}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onChange={(event) => (setDraft(null), typed(event.currentTarget.value))}
      />
      {spans.length > 1 ? (
        <select aria-label="Reach of the slider" value={String(chosen)} onChange={(event) => setSpan(Number(event.currentTarget.value))}>
          {spans.map(([size, text]) => (
            <option key={text} value={String(size)}>
              {text}
            </option>
          ))}
        </select>
      ) : null}
    </div>
  );
}

/** An hour, or where instants are numbers all of them unless these are very many. */
function usual(spans: readonly [number, string][], isTime: boolean): number {
  const sizes = spans.map(([size]) => size);
  if (isTime) return sizes.findLast((size) => size <= 60 * MINUTE) ?? Infinity;
  return sizes.includes(100_000) ? 1000 : Infinity;
}
