// Where answers go.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, part, send, ServiceError } from "../api/http";
import type { ErrorFields, Sink } from "../api/types";
import { useAsked } from "../lib/asked";
import { bytes, count, counted, errorFields, instant, milliseconds } from "../lib/format";
import { Badge, Empty, Figure, Problem } from "../lib/parts";
import { link } from "../router";
import { mayAdminister } from "../session";
import { grouped, number, useLately } from "./lately";
import { Spark } from "./spark";

export function SinksView(): JSX.Element {
  const [failed, setFailed] = useState<ErrorFields | null>(null);
  const asked = useAsked<{ sinks: Sink[] }>((abort) => get("v1/sinks", {}, abort), []);
  const lately = grouped(useLately("sinks", 500).data ?? [], "sink");
  const resume = async (name: string) => {
    try {
      await send("POST", `v1/sinks/${part(name)}/resume`);
      setFailed(null);
    } catch (error) {
      if (error instanceof ServiceError) setFailed(error.fields);
    }
    asked.again();
  };
  return (
    <div>
      <div class="bar">
        <h1>Sinks</h1>
      </div>
      <Problem error={failed ?? asked.error} />
      {asked.data && !asked.data.sinks.length ? (
        <Empty>
          No answer goes anywhere by itself. <a href={link("write")}>CREATE SINK</a> makes one.
        </Empty>
      ) : null}
      <ul class="cards">
        {asked.data?.sinks.map((sink) => {
          const rows = lately.get(sink.name) ?? [];
          const last = rows.at(-1);
          const error = errorFields(sink.error);
          return (
            <li key={sink.name} class="card">
              <h2 class="with-spark">
                {sink.name}
                <Spark values={rows.slice(-60).map((row) => number(row, "rows"))} label={`rows of the last deliveries of ${sink.name}`} />
              </h2>
              <p class="badges">
                {sink.state ? <Badge kind={`state ${sink.state}`}>{sink.state}</Badge> : null}
                <span>
                  to {sink.target} for{" "}
                  {sink.template ? (
                    <a href={link("templates", sink.template)}>{sink.template}</a>
                  ) : (
                    <a href={link("queries", sink.query)}>{sink.query}</a>
                  )}
                </span>
              </p>
              <Problem error={error} />
              {error && mayAdminister.value ? (
                <button type="button" onClick={() => void resume(sink.name)}>
                  Try again
                </button>
              ) : null}
              <dl class="figures">
                <Figure label="deliveries">{count(sink.deliveries)}</Figure>
                <Figure label="delivered up to">{instant(sink.delivered)}</Figure>
                {last ? <Figure label="the last one took">{milliseconds(number(last, "ms"))}</Figure> : null}
                <Figure label="waiting">
                  {sink.rows ? `${counted(sink.rows, "row")}, ${bytes(sink.bytes)}` : "nothing"}
                </Figure>
                {sink.rows ? <Figure label="waiting since">{instant(sink.since)}</Figure> : null}
              </dl>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
