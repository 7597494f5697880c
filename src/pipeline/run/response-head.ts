/** The response head on its way up: a status and a flat list of fields that hooks edit in place. */
import type { Reply, ResponseHead } from "../../plugin.ts";
import type { ClientResponse } from "./client-response.ts";

export class LiveResponseHead implements ResponseHead {
  #status: number;
  readonly from: "step" | "surface";
  readonly streamed: boolean;
  readonly code: string | undefined;
  /** Flat list of name, value … in the form that `http.ServerResponse.writeHead` takes. */
  readonly fields: string[];

  constructor(reply: Omit<Reply, "body">, from: "step" | "surface", streamed: boolean) {
    this.#status = reply.status;
    this.from = from;
    this.streamed = streamed;
    this.code = reply.code;
    this.fields = reply.headers === undefined ? [] : reply.headers.slice();
  }

  get status(): number {
    return this.#status;
  }

  /** Throws in the hook that sets an invalid status, so that the log names its step. */
  set status(status: number) {
    if (!Number.isInteger(status) || status < 200 || status > 999) {
      throw new RangeError(`expected a status from 200 to 999, got ${String(status)}`);
    }
    this.#status = status;
  }

  get(name: string): string | undefined {
    const at = this.#find(name, 0);
    return at === -1 ? undefined : this.fields[at + 1];
  }

  set(name: string, value: string): void {
    this.remove(name);
    this.fields.push(name, value);
  }

  add(name: string, value: string): void {
    this.fields.push(name, value);
  }

  remove(name: string): void {
    for (let at = this.#find(name, 0); at !== -1; at = this.#find(name, at)) {
      this.fields.splice(at, 2);
    }
  }

  /** Returns the index of the first field of that name at or after `from`, or -1. */
  #find(name: string, from: number): number {
    for (let at = from; at < this.fields.length; at += 2) {
      const field = this.fields[at];
      // Most names differ in length, which is the cheapest comparison.
      if (field === undefined || field.length !== name.length) continue;
      if (field === name || field.toLowerCase() === name.toLowerCase()) return at;
    }
    return -1;
  }
}

/** Sends 103 Early Hints if the flat fields have a link. */
export function sendEarlyHints(
  res: Pick<ClientResponse, "writeEarlyHints">,
  headers: readonly string[],
): void {
  const hints = earlyHints(headers);
  if (hints === undefined) return;
  try {
    res.writeEarlyHints(hints);
  } catch {
    // Node accepts fewer forms of Link than RFC 8288. A hint is optional, so the answer is sent without it.
  }
}

/**
 * Returns the flat fields of 103 Early Hints (RFC 8297) in the form of `writeEarlyHints`. Undefined if there is no link,
 * which `writeEarlyHints` needs.
 */
function earlyHints(headers: readonly string[]): Record<string, string | string[]> | undefined {
  const hints: Record<string, string | string[]> = {};
  const links: string[] = [];
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const name = (headers[at] ?? "").toLowerCase();
    const value = headers[at + 1] ?? "";
    // A field can hold several links, separated by the commas before each `<` (RFC 8288 section 3).
    if (name === "link") links.push(...value.split(/,\s*(?=<)/));
    else hints[name] = value;
  }
  return links.length === 0 ? undefined : { link: links, ...hints };
}
