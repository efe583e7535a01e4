// The operators as a table, the costliest first: the same as the graph for those who do not see it, or look for what is hot.
import type { JSX } from "preact";
import type { Plan } from "../api/types";
import { bytes, count, milliseconds, percent, rate } from "../lib/format";
import { numbersOf } from "./store";

interface TableProps {
  plan: Plan;
  path: Set<string> | null;
  chosen: string | null;
  choose: (id: string | null) => void;
}

export function OperatorTable({ plan, path, chosen, choose }: TableProps): JSX.Element {
  const rows = plan.nodes
    .filter(({ id }) => path === null || path.has(id))
    .map((node) => ({ node, numbers: numbersOf(node).value }))
    .sort((a, b) => (b.numbers.share ?? 0) - (a.numbers.share ?? 0));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Operators">
      <table>
        <thead>
          <tr>
            <th scope="col">operator</th>
            <th scope="col">kind</th>
            <th scope="col">pattern</th>
            <th scope="col" class="number">
              share
            </th>
            <th scope="col" class="number">
              per epoch
            </th>
            <th scope="col" class="number">
              rate
            </th>
            <th scope="col" class="number">
              state
            </th>
            <th scope="col" class="number">
              queries
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ node, numbers }) => (
            <tr key={node.id} class={node.id === chosen ? "chosen" : ""}>
              <th scope="row">
                <button type="button" class="linklike" onClick={() => choose(node.id)}>
                  {node.label}
                </button>
              </th>
              <td>{node.kind}</td>
              <td>{node.pattern ?? ""}</td>
              <td class="number">{percent(numbers.share)}</td>
              <td class="number">{milliseconds(numbers.ms)}</td>
              <td class="number">{rate(numbers.rate)}</td>
              <td class="number">{bytes(numbers.state_bytes)}</td>
              <td class="number">{count(numbers.queries)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
