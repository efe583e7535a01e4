import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { tryToken } from "./session";

export function Login(): JSX.Element {
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    const secret = new FormData(event.currentTarget as HTMLFormElement).get("token");
    setBusy(true);
    setProblem(await tryToken(String(secret ?? "").trim()));
    setBusy(false);
  };
  return (
    <main class="login">
      <form onSubmit={enter} class="card">
        <h1>
          <img src="./assets/icon.svg" alt="" width="28" height="28" /> Millstream
        </h1>
        <label for="token">Token</label>
        <input
          id="token"
          name="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          aria-describedby="token-help"
          aria-invalid={problem !== null}
        />
        <p id="token-help" class="hint">
          Made by <code>millstream token add</code>. It is kept for this tab only.
        </p>
        <p class="login-problem" role="alert">
          {problem}
        </p>
        <button type="submit" class="main" disabled={busy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
