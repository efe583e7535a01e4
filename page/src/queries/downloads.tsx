// The answer as a file. It is fetched with the token and handed to the browser, since a link could not send one.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { address, ask, headers, ServiceError } from "../api/http";
import type { Instant } from "../api/types";

const FORMATS = [
  ["csv", "CSV"],
  ["parquet", "Parquet"],
  ["arrow", "Arrow"],
] as const;

interface DownloadsProps {
  path: string;
  name: string;
  at: Instant | null;
}

export function Downloads({ path, name, at }: DownloadsProps): JSX.Element {
  const [problem, setProblem] = useState("");
  const take = async (format: string) => {
    try {
      const response = await ask(address(`${path}/result`, { at, format }), { headers: headers() });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `${name.replace(/[^\w.-]+/g, "_")}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      setProblem("");
    } catch (error) {
      setProblem(error instanceof ServiceError ? error.fields.primary : String(error));
    }
  };
  return (
    <span class="downloads" role="group" aria-label="Download the answer">
      <span class="muted">Download</span>
      {FORMATS.map(([format, text]) => (
        <button key={format} type="button" onClick={() => void take(format)}>
          {text}
        </button>
      ))}
      {problem ? <span role="alert">{problem}</span> : null}
    </span>
  );
}
