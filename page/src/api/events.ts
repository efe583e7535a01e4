// Server-sent events by fetch, since EventSource cannot send a token. A stream that breaks is asked for again from the last
// id that was seen, so that nothing is missed and nothing comes twice.
import { address, ask, headers, type Parameters, ServiceError } from "./http";
import type { ErrorFields } from "./types";

export interface Listener {
  /** An event with data; errors that the service reports as events come to `failed`. */
  event(data: unknown, id: string | null): void;
  /** Connected, or waiting to be. */
  connected?(is: boolean): void;
  /** It makes no sense to ask again. */
  failed?(error: ErrorFields): void;
  /** There will be no more. */
  ended?(reason: string): void;
}

const FIRST_WAIT = 250;
const LONGEST_WAIT = 4000;
const HIDDEN = 20_000; // a tab that nobody looks at leaves its connections to others: a browser has six for a service
const SILENCE = 40_000; // the service says at least that it is alive every 15 seconds

interface Message {
  event: string;
  id: string | null;
  data: string | null;
}

/** Follows a stream until the function that is returned is called. */
export function listen(path: string, parameters: Parameters, listener: Listener): () => void {
  const leaving = new AbortController();
  void follow(path, parameters, listener, leaving.signal);
  return () => leaving.abort();
}

async function follow(path: string, parameters: Parameters, listener: Listener, left: AbortSignal): Promise<void> {
  let last: string | null = null;
  let wait = FIRST_WAIT;
  while (!left.aborted) {
    await seen(left);
    const silence = new AbortController();
    const abort = AbortSignal.any([left, silence.signal]);
    const endWatch = whenHidden(() => silence.abort());
    try {
      const response = await ask(address(path, parameters), {
        headers: headers({ Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) }),
        signal: abort,
      });
      listener.connected?.(true);
      wait = FIRST_WAIT;
      for await (const message of messages(response, silence)) {
        if (message.id !== null) last = message.id;
        if (message.data === null) continue;
        if (message.event === "end") return listener.ended?.(JSON.parse(message.data).reason ?? "");
        if (message.event === "error") return listener.failed?.(JSON.parse(message.data).error);
        listener.event(JSON.parse(message.data), message.id);
      }
    } catch (error) {
      if (left.aborted) return;
      if (error instanceof ServiceError && isLasting(error.status)) {
        listener.connected?.(false);
        return listener.failed?.(error.fields);
      }
    } finally {
      endWatch();
    }
    if (left.aborted) return;
    if (document.hidden) continue;
    listener.connected?.(false);
    await pause(wait, left);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

/** Waits until somebody looks at the tab. */
function seen(left: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !left.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    left.addEventListener("abort", look, { once: true });
  });
}

/** Calls back when nobody has looked at the tab for some time. */
function whenHidden(then: () => void): () => void {
  let clock: ReturnType<typeof setTimeout> | undefined;
  const look = () => {
    clearTimeout(clock);
    if (document.hidden) clock = setTimeout(then, HIDDEN);
  };
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearTimeout(clock);
    document.removeEventListener("visibilitychange", look);
  };
}

/** Asking again would only give the same. While it stops, a service answers 410 and 503. */
function isLasting(status: number): boolean {
  return status >= 400 && status < 500 && status !== 429 && status !== 410 && status !== 408;
}

async function* messages(response: Response, silence: AbortController): AsyncGenerator<Message> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let clock = setTimeout(() => silence.abort(), SILENCE);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(clock);
      clock = setTimeout(() => silence.abort(), SILENCE);
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        yield parsed(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    clearTimeout(clock);
    reader.cancel().catch(() => undefined); // it may be broken already, which is why we leave
  }
}

function parsed(block: string): Message {
  const message: Message = { event: "message", id: null, data: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "event") message.event = value;
    else if (name === "id") message.id = value;
    else if (name === "data") message.data = message.data === null ? value : `${message.data}\n${value}`;
  }
  return message;
}

function pause(milliseconds: number, left: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const clock = setTimeout(resolve, milliseconds);
    left.addEventListener("abort", () => (clearTimeout(clock), resolve()), { once: true });
  });
}
