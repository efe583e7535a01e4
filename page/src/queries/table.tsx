// Rows of an answer. What has come or gone lately says so by a sign, a colour and a line through it.
import type { JSX } from "preact";
import type { Column, Row } from "../api/types";
import { count, instant, isNumeric, shown } from "../lib/format";
import type { Shown } from "./answer";

interface TableProps {
  label: string;
  columns: readonly Column[];
  rows: readonly Shown[];
  /** Do rows come and go? */
  live?: boolean;
}

const LONG = 300; // characters of a value that are shown
const SIGNS = { came: "+", gone: "−" } as const;
const SAID = { came: "has come", gone: "has gone" } as const;

export function AnswerTable({ label, columns, rows, live = false }: TableProps): JSX.Element {
  const copies = rows.some((row) => row.copies > 1);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="answer">
        <thead>
          <tr>
            {live ? (
              <th scope="col" class="sign">
                <span class="unseen">change</span>
              </th>
            ) : null}
            {columns.map((column) => (
              <th key={column.name} scope="col" class={isNumeric(column.type) ? "number" : ""}>
                {column.name === "_ts" ? "instant" : column.name} <span class="type">{column.type}</span>
              </th>
            ))}
            {copies ? (
              <th scope="col" class="number">
                copies
              </th>
            ) : null}
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <tr key={each.key} class={each.mark ?? ""}>
              {live ? (
                <td class="sign">
                  {each.mark ? (
                    <>
                      <span aria-hidden="true">{SIGNS[each.mark]}</span>
                      <span class="unseen">{SAID[each.mark]}</span>
                    </>
                  ) : null}
                </td>
              ) : null}
              {columns.map((column) => (
                <Cell key={column.name} column={column} row={each.row} />
              ))}
              {copies ? <td class="number">{count(Math.max(each.copies, 1))}</td> : null}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({ column, row }: { column: Column; row: Row }): JSX.Element {
  const value = row[column.name];
  const isTime = column.name === "_ts" || column.type.startsWith("TIMESTAMP");
  const text = isTime && (typeof value === "number" || typeof value === "string") ? instant(value) : shown(value);
  const long = text.length > LONG;
  return (
    <td class={`${isNumeric(column.type) ? "number" : ""}${value === null ? " null" : ""}`} title={long ? text.slice(0, 4 * LONG) : undefined}>
      {long ? `${text.slice(0, LONG)}…` : text}
    </td>
  );
}

/** Rows that do not move. */
export function still(rows: readonly Row[], columns: readonly Column[]): Shown[] {
  const found = new Map<string, Shown>();
  for (const row of rows) {
    const key = JSON.stringify(columns.map(({ name }) => row[name] ?? null));
    const known = found.get(key);
    if (known) known.copies++;
    else found.set(key, { key, row, copies: 1, mark: null, until: 0 });
  }
  return [...found.values()];
}
