// Instants as numbers, for sliders and plots: ticks as they are, timestamps as milliseconds.
import type { Instant } from "../api/types";

export function numberOf(value: Instant): number {
  return typeof value === "number" ? value : /^[+-]?\d+$/.test(value) ? Number(value) : Date.parse(value);
}

export function isTimestamp(value: Instant | null | undefined): boolean {
  return typeof value === "string" && !/^[+-]?\d+$/.test(value);
}

/** The instant that a number stands for, in the form of another one. */
export function instantOf(value: number, like: Instant): Instant {
  return isTimestamp(like) ? new Date(value).toISOString() : Math.round(value);
}
