// The documents of the service, as far as the page reads them: see /docs.

export type Instant = number | string;
export type Value = null | boolean | number | string;
export type Row = Record<string, Value>;

export interface Column {
  name: string;
  type: string;
}

export interface Rows {
  columns: Column[];
  rows: Row[];
  total?: number;
  /** Of many queries, how many rows each has. */
  totals?: Record<string, number>;
}

export interface Place {
  text: string;
  start: number;
  end: number;
  line: number;
  column: number;
}

export interface ErrorFields {
  class?: string;
  message?: string;
  primary: string;
  detail?: string;
  hint?: string;
  place?: Place;
}

export interface Me {
  role: "read" | "write" | "admin";
  version: string;
  database: string | null;
  tokens?: boolean;
}

export interface QueryItem {
  name: string;
  kind: string;
  mode: string;
  state?: string;
  error?: ErrorFields | string | null;
  final?: Instant | null;
  template?: string | null;
  share?: number | null;
  rows?: number | null;
}

export interface QueryList {
  queries: QueryItem[];
  total: number;
}

export interface About extends QueryItem {
  columns: Column[];
  cql: string;
  defaults: string[];
  notices: string[];
}

export interface Template {
  name: string;
  kind: string;
  mode: string;
  text: string;
  parameters: string[];
  columns: Column[];
  queries: number;
  running: number;
  filling: number;
  failed: Record<string, string>;
  final: Instant | null;
}

export interface Extent {
  first_answerable: Instant | null;
  final: Instant | null;
  type: string;
}

export interface PlanNumbers {
  rows_in?: number | null;
  rows_out?: number | null;
  rate?: number | null;
  ms?: number | null;
  share?: number | null;
  state_bytes?: number | null;
  memory_bytes?: number | null;
  queries?: number | null;
  expired?: number | null;
  suspended?: number | null;
  resumed?: number | null;
}

export interface PlanNode extends PlanNumbers {
  id: string;
  kind: string;
  label: string;
  detail?: string | string[] | null;
  pattern?: string | null;
  structure?: string | null;
  state?: string;
}

export interface PlanEdge {
  from: string;
  to: string;
  /** Nothing comes by it but how far the other is final. */
  awaited?: boolean;
  pattern?: string | null;
  rate?: number | null;
  /** The edge of the plan whose rate it has, where it leads past operators that are not drawn. */
  rated?: string;
}

/** Queries that are rows of one query table. */
export interface QueryGroup {
  id: string;
  label: string;
  queries: number;
  shapes?: number;
  indexes?: string[];
}

export interface Plan {
  epoch: number;
  version?: number;
  nodes: PlanNode[];
  edges: PlanEdge[];
  groups?: QueryGroup[];
}

export interface PlanEvent {
  epoch?: number;
  nodes?: Record<string, PlanNumbers>;
  edges?: Record<string, { rate?: number | null }>;
  structure?: boolean;
  version?: number;
}

export interface CheckError {
  message: string;
  detail?: string | null;
  hint?: string | null;
  line?: number | null;
  column?: number | null;
  end_line?: number | null;
  end_column?: number | null;
}

export interface Check {
  ok: boolean;
  kind?: string;
  statement?: string;
  sharing?: string[] | null;
  schema?: Column[];
  expanded?: string;
  defaults?: string[];
  shared?: { label: string; queries: number }[];
  cost?: Record<string, Value>;
  plan?: string;
  errors?: CheckError[];
}

export interface NamedColumns {
  name: string;
  columns: Column[];
}

export interface Names {
  streams: NamedColumns[];
  tables: NamedColumns[];
  views: NamedColumns[];
  queries: string[];
  functions: { name: string; signature?: string }[];
  keywords: string[];
}

export interface StreamItem {
  name: string;
  kind?: string;
  system?: boolean;
  source?: string | null;
  heartbeat_rule?: string | null;
  rate?: number | null;
  heartbeat?: Instant | null;
  lag_ms?: number | null;
  arrived?: number | null;
  late?: number | null;
  malformed?: number | null;
  shed?: number | null;
  rows?: number | null;
  bytes?: number | null;
  columns?: Column[];
}

export interface Setting {
  name: string;
  value: Value;
  default?: Value;
  choices?: Value[] | null;
  kind?: string;
  description?: string;
  changeable?: boolean;
  /** Whether it decides on plans, so that queries that run can move. */
  of_plans?: boolean;
  /** What came of it for each of these. */
  queries?: Record<string, string>;
}

export interface Sink {
  name: string;
  query: string;
  template?: string | null;
  target: string;
  state?: string;
  error?: ErrorFields | string | null;
  deliveries: number;
  delivered?: Instant | null;
  /** What is kept that was not delivered yet, and since when. */
  rows: number;
  bytes: number;
  since?: Instant | null;
}
