// Requests to the service that the page came from. The token goes into a header and nowhere else.
import { signal } from "@preact/signals";
import type { ErrorFields } from "./types";

const KEPT = "millstream.token";

/** The token that requests are sent with; kept for this tab only. */
export const token = signal<string | null>(sessionStorage.getItem(KEPT));
/** Is a token wanted that we do not have? */
export const signedOut = signal(false);

export function signIn(secret: string): void {
  token.value = secret;
  sessionStorage.setItem(KEPT, secret);
}

export function forgetToken(): void {
  token.value = null;
  sessionStorage.removeItem(KEPT);
}

/** An answer of the service that is an error, or no answer at all (status 0). */
export class ServiceError extends Error {
  constructor(
    readonly status: number,
    readonly fields: ErrorFields,
  ) {
    super(fields.primary);
  }
}

export type Parameters = Record<string, string | number | null | undefined>;

export function address(path: string, parameters: Parameters = {}): string {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined) url.searchParams.set(name, String(value));
  return url.toString();
}

/** A part of a path; names may contain slashes, which some proxies refuse encoded, and dots, which addresses would lose. */
export function part(name: string): string {
  const encoded = encodeURIComponent(name);
  return /(^|\/)\.{0,2}(\/|$)/.test(name) ? encoded : encoded.replaceAll("%2F", "/");
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return token.value === null ? more : { ...more, Authorization: `Bearer ${token.value}` };
}

export async function ask(url: string, options: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { ...options, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ServiceError(0, { primary: "the service does not answer", hint: "the page asks again by itself" });
  }
  if (response.ok) return response;
  if (response.status === 401) signedOut.value = true;
  throw new ServiceError(response.status, await errorOf(response));
}

async function errorOf(response: Response): Promise<ErrorFields> {
  try {
    const said = await response.json();
    if (typeof said?.error?.primary === "string") return said.error as ErrorFields;
  } catch {
    // Not ours: a proxy between us and the service has answered.
  }
  return { primary: `the service answered ${response.status}` };
}

export async function get<T>(path: string, parameters: Parameters = {}, abort?: AbortSignal): Promise<T> {
  const response = await ask(address(path, parameters), {
    headers: headers({ Accept: "application/json" }),
    ...(abort ? { signal: abort } : {}),
  });
  return (await response.json()) as T;
}

export async function send<T>(
  method: "POST" | "PUT" | "DELETE",
  path: string,
  body?: unknown,
  abort?: AbortSignal,
): Promise<T> {
  const response = await ask(address(path), {
    method,
    headers: headers({ Accept: "application/json", "Content-Type": "application/json" }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(abort ? { signal: abort } : {}),
  });
  return (await response.json()) as T;
}
