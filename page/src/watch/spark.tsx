// A line of numbers, as small as a word.
import type { JSX } from "preact";

const WIDTH = 110;
const HEIGHT = 24;

export function Spark({ values, label }: { values: readonly number[]; label: string }): JSX.Element | null {
  if (values.length < 2) return null;
  const top = Math.max(...values, 1e-9);
  const step = WIDTH / (values.length - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
  return (
    <svg class="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <polygon points={`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
