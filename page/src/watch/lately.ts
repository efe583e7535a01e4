// Rows of the system streams: those of lately, and what has come since.
import { get } from "../api/http";
import type { Row, Rows } from "../api/types";
import { type Asked, useAsked } from "../lib/asked";

export type SystemStream = "epochs" | "operators" | "queries" | "streams" | "routing" | "sinks";

export function useLately(stream: SystemStream, limit: number, depends: readonly unknown[] = []): Asked<Row[]> {
  return useAsked<Row[]>(
    async (abort) => (await get<Rows>(`v1/system/${stream}`, { limit }, abort)).rows,
    [stream, limit, ...depends],
    { atLeast: 1000 },
  );
}

export function number(row: Row, column: string): number {
  const value = row[column];
  return value === null || value === undefined ? 0 : Number(value);
}

export function timeOf(row: Row): number {
  return Date.parse(String(row.ts));
}

/** Rows by the value of a column, in the order they come. */
export function grouped(rows: readonly Row[], column: string): Map<string, Row[]> {
  const found = new Map<string, Row[]>();
  for (const row of rows) {
    const key = String(row[column]);
    const known = found.get(key);
    if (known) known.push(row);
    else found.set(key, [row]);
  }
  return found;
}
