// The answer of a query as it is now: read once, then followed. Rows that have come or gone lately are marked as such.
import { batch, signal } from "@preact/signals";
import { listen } from "../api/events";
import { get, part, ServiceError } from "../api/http";
import { isNumeric } from "../lib/format";
import type { About, Column, ErrorFields, Instant, Row, Rows } from "../api/types";

export const SHOWN = 500; // rows of an answer that are drawn
const MARKED = 2500; // milliseconds that a row is marked as having come
const LEAVING = 1600; // that one which has gone is still seen,
const LEAST = 600; // and at least, where others go after it: what has gone must not hide what there is
const PAUSE = 1000; // between two readings of an answer of which only a part is shown

export interface Shown {
  key: string;
  row: Row;
  copies: number;
  mark: "came" | "gone" | null;
  until: number; // when the mark ends
}

/** A live answer; `close` ends it. */
export class Answer {
  readonly columns = signal<Column[]>([]);
  readonly rows = signal<Shown[]>([]);
  readonly total = signal<number | null>(null);
  readonly final = signal<Instant | null>(null);
  readonly error = signal<ErrorFields | null>(null);
  readonly came = signal(0);
  readonly gone = signal(0);

  private readonly kept = new Map<string, Shown>();
  private readonly leaving = new AbortController();
  private isPart = false; // whether there are more rows than are shown
  private end: () => void = () => undefined;
  private sweeper: ReturnType<typeof setTimeout> | undefined;
  private reading = false;
  private stale = false;
  private latest: Instant | null = null; // up to which there have been events
  private isStream = false;
  private isOrdered = false; // whether rows have places of their own

  constructor(private readonly path: string) {
    void this.begin();
  }

  static of(query: string): Answer {
    return new Answer(`v1/queries/${part(query)}`);
  }

  close(): void {
    this.leaving.abort();
    this.end();
    clearTimeout(this.sweeper);
  }

  private get isClosed(): boolean {
    return this.leaving.signal.aborted;
  }

  private async begin(): Promise<void> {
    try {
      const about = await get<About>(this.path, {}, this.leaving.signal);
      const final = about.final ?? null;
      this.isStream = about.kind === "stream";
      this.isOrdered = !this.isStream && /\bORDER\s+BY\b/i.test(about.cql);
      await this.read(final);
      if (this.isClosed) return;
      this.end = listen(`${this.path}/follow`, { since: final }, {
        event: (data, id) => this.changed(data as Rows, id),
        failed: (error) => this.failed(error),
        ended: (reason) => (this.error.value = { primary: reason }),
      });
    } catch (error) {
      if (this.isClosed) return;
      if (!(error instanceof ServiceError)) throw error;
      if (error.status === 0 || error.status === 410 || error.status === 503)
        setTimeout(() => void (this.isClosed || this.begin()), PAUSE);
      else this.error.value = error.fields;
    }
  }

  /** What we wanted to go on from is no longer kept: begin again. Whatever else there is stays as it is. */
  private failed(error: ErrorFields): void {
    if (error.class === "TimeError") void this.begin();
    else this.error.value = error;
  }

  private async read(at: Instant | null): Promise<void> {
    const found = await get<Rows>(`${this.path}/result`, { at, limit: SHOWN }, this.leaving.signal);
    const total = found.total ?? found.rows.length;
    const first = this.total.value === null;
    const rows = found.rows.length > SHOWN ? (this.isStream ? found.rows.slice(-SHOWN) : found.rows.slice(0, SHOWN)) : found.rows;
    batch(() => {
      this.columns.value = found.columns;
      this.isPart = total > rows.length;
      this.replace(rows, first);
      this.total.value = total;
      this.final.value = at;
      this.publish();
    });
  }

  /** The rows of a new reading; those that differ are marked. */
  private replace(rows: Row[], isFirst: boolean): void {
    const now = new Map<string, { row: Row; copies: number }>();
    for (const row of rows) {
      const key = keyOf(row, this.columns.value);
      const known = now.get(key);
      if (known) known.copies++;
      else now.set(key, { row, copies: 1 });
    }
    const until = performance.now() + MARKED;
    for (const [key, shown] of this.kept)
      if (!now.has(key) && shown.mark !== "gone") {
        if (this.isStream) this.kept.delete(key);
        else this.goes(shown);
      }
    for (const [key, { row, copies }] of now) {
      const known = this.kept.get(key);
      this.kept.delete(key); // so that rows stand in the order in which they were read
      if (known && known.mark !== "gone") this.kept.set(key, { ...known, copies });
      else this.kept.set(key, { key, row, copies, mark: isFirst ? null : "came", until });
    }
  }

  private changed(data: Rows, id: string | null): void {
    const final = id === null ? this.final.value : instantOfId(id);
    if ((this.isPart || this.isOrdered) && !this.isStream) {
      this.countChanges(data);
      void this.readAgain(final);
      return;
    }
    batch(() => {
      if (!this.columns.value.length) this.columns.value = data.columns.filter((column) => isShown(column.name, this.isStream));
      this.countChanges(data);
      this.forgetGone();
      for (const change of this.netted(data.rows)) this.apply(change.key, change.row, change.weight);
      this.final.value = final;
      if (this.isStream) this.cut();
      this.publish();
    });
  }

  private countChanges(data: Rows): void {
    let came = 0;
    let gone = 0;
    for (const { _weight: weight } of data.rows)
      if (Number(weight) > 0) came += Number(weight);
      else gone -= Number(weight);
    this.came.value += came;
    this.gone.value += gone;
    if (this.total.value !== null) this.total.value += came - gone;
  }

  /** Of an answer of which only a part is shown, or which has an order, that is read again: what has come may belong
   * elsewhere. */
  private async readAgain(at: Instant | null): Promise<void> {
    this.latest = at;
    this.stale = true;
    if (this.reading) return;
    this.reading = true;
    try {
      while (this.stale && !this.isClosed) {
        this.stale = false;
        await this.read(this.latest).catch((error: unknown) => {
          if (!(error instanceof ServiceError) && !this.isClosed) throw error;
        });
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    } finally {
      this.reading = false;
    }
  }

  /** The changes of an event together: what came and went within it was never seen. */
  private netted(changes: readonly Row[]): Iterable<{ key: string; row: Row; weight: number }> {
    const found = new Map<string, { key: string; row: Row; weight: number }>();
    for (const { _weight, ...row } of changes) {
      const key = keyOf(row, this.columns.value);
      const known = found.get(key);
      if (known) known.weight += Number(_weight);
      else found.set(key, { key, row, weight: Number(_weight) });
    }
    return found.values();
  }

  private apply(key: string, row: Row, weight: number): void {
    const known = this.kept.get(key);
    const until = performance.now() + MARKED;
    if (known) {
      known.copies += weight;
      if (known.copies <= 0) this.goes(known);
      else if (weight > 0) Object.assign(known, { mark: "came", until });
    } else if (weight > 0) {
      this.kept.set(key, { key, row, copies: weight, mark: "came", until });
    }
  }

  private goes(shown: Shown): void {
    Object.assign(shown, { copies: 0, mark: "gone", until: performance.now() + LEAVING });
  }

  private forgetGone(): void {
    const latest = performance.now() + LEAVING - LEAST;
    for (const [key, shown] of this.kept) if (shown.mark === "gone" && shown.until < latest) this.kept.delete(key);
  }

  /** Of a stream the newest elements are shown. */
  private cut(): void {
    let over = this.kept.size - SHOWN;
    if (over > 0) this.isPart = true;
    for (const key of this.kept.keys()) {
      if (over-- <= 0) break;
      this.kept.delete(key);
    }
  }

  private publish(): void {
    const now = performance.now();
    for (const [key, shown] of this.kept)
      if (shown.mark !== null && shown.until <= now) {
        if (shown.mark === "gone") this.kept.delete(key);
        else shown.mark = null;
      }
    const rows = [...this.kept.values()].map((shown) => ({ ...shown }));
    if (this.isStream) rows.reverse();
    else if (!this.isOrdered) rows.sort((a, b) => compared(a.row, b.row, this.columns.value)); // a row stays where it is while others come and go
    this.rows.value = rows;
    clearTimeout(this.sweeper);
    if (rows.some((row) => row.mark !== null)) this.sweeper = setTimeout(() => this.publish(), LEAVING / 4);
  }
}

/** Columns of changes that are part of an answer: the instant is, of a stream's element. */
function isShown(name: string, isStream: boolean): boolean {
  return name !== "_weight" && (name !== "_ts" || isStream);
}

function compared(a: Row, b: Row, columns: readonly Column[]): number {
  for (const { name, type } of columns) {
    const one = a[name] ?? null;
    const other = b[name] ?? null;
    if (one === other) continue;
    if (one === null || other === null) return one === null ? -1 : 1;
    const apart = isNumeric(type) ? Number(one) - Number(other) : 0; // decimals come as texts
    return apart || (one < other ? -1 : 1);
  }
  return 0;
}

function keyOf(row: Row, columns: readonly Column[]): string {
  return JSON.stringify(columns.map(({ name }) => row[name] ?? null));
}

function instantOfId(id: string): Instant {
  const text = id.split(";")[0]!;
  return /^[+-]?\d+$/.test(text) ? Number(text) : text;
}
