// Numbers, sizes and instants as people read them.
import type { ErrorFields, Instant, Value } from "../api/types";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const NONE = "–";

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : whole.format(value);
}

export function compact(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value !== 0 && Math.abs(value) < 10) return trimmed(value, 2);
  return short.format(value);
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) (size /= 1000), unit++;
  return `${trimmed(size, unit === 0 || size >= 100 ? 0 : 1)} ${units[unit]}`;
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value >= 60_000 * 120) return `${trimmed(value / 3_600_000, 1)} h`;
  if (value >= 120_000) return `${trimmed(value / 60_000, 1)} min`;
  if (value >= 1000) return `${trimmed(value / 1000, 2)} s`;
  return `${trimmed(value, value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
}

export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value > 0 && value < 0.0005) return "<0.1 %";
  return `${trimmed(value * 100, value < 0.1 ? 1 : 0)} %`;
}

export function rate(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : `${compact(value)}/s`;
}

function trimmed(value: number, digits: number): string {
  return String(Number(value.toFixed(digits)));
}

/** An instant: ticks as they are, timestamps without what is zero in them. */
export function instant(value: Instant | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (typeof value === "number") return whole.format(value);
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?/.exec(value);
  return found ? `${found[1]} ${found[2]}${(found[3] ?? "").replace(/0+$/, "").replace(/\.$/, "")}` : value;
}

export function shown(value: Value | undefined): string {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(10)));
  return String(value);
}

export function isNumeric(type: string): boolean {
  return /^(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL|INTERVAL)/.test(type);
}

export function errorFields(error: ErrorFields | string | null | undefined): ErrorFields | null {
  if (!error) return null;
  if (typeof error !== "string") return error;
  const [primary = "", ...more] = error.split("\n");
  const said = (word: string) => more.find((line) => line.startsWith(`${word}: `))?.slice(word.length + 2);
  const [detail, hint] = [said("detail"), said("hint")];
  return { primary, ...(detail ? { detail } : {}), ...(hint ? { hint } : {}) };
}

/** "1 query", "2 queries". */
export function counted(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
