import { Agent, request, type IncomingHttpHeaders } from "node:http";
import type { ClientKey } from "./accounts.ts";
import type { Slot } from "./deployment.ts";
import type { Call } from "../../checker/history.ts";

export interface Answer {
  /** 0 if no status arrived. */
  readonly status: number;
  readonly isWhole: boolean;
  readonly text: string;
}

export interface Sending {
  readonly slot: number;
  readonly path: string;
  readonly key: ClientKey;
  /** The body of a POST. Undefined for a GET. A function gets the id of the call, which the worker then logs. */
  readonly body?: object | ((id: string) => object);
  readonly headers?: Readonly<Record<string, string>>;
  /** The most that the call may reserve. 0 for calls that are free. */
  readonly maxMilliCu: number;
  readonly timeoutMs?: number;
}

export interface Sender extends Disposable {
  readonly calls: Call[];
  send(sending: Sending): Promise<Answer>;
}

/** Milliseconds since 1970 on a clock that never goes back. */
export const now = (): number => performance.timeOrigin + performance.now();

const defaultTimeoutMs = 30_000;

export function createSender(slots: readonly Slot[]): Sender {
  const agent = new Agent({ keepAlive: true });
  const calls: Call[] = [];
  let sent = 0;
  return {
    calls,
    async send({ slot, path, key, body, headers, maxMilliCu, timeoutMs = defaultTimeoutMs }) {
      const { url, name } = slots[slot] ?? { url: "", name: "" };
      const id = `call-${++sent}`;
      const start = now();
      const signal = AbortSignal.timeout(timeoutMs);
      const options = {
        method: body === undefined ? "GET" : "POST",
        agent,
        signal,
        headers: {
          authorization: `Bearer ${key.text}`,
          "x-request-id": id,
          ...(body !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
      };
      const isLogged = typeof body === "function";
      const sentBody = isLogged ? body(id) : body;
      const { status, isWhole, text, head } = await exchange(url + path, options, sentBody);
      calls.push({
        id,
        replica: name,
        keyId: key.keyId,
        workspaceId: key.workspaceId,
        start,
        end: now(),
        status,
        isWhole,
        hasLeft: !isWhole && signal.aborted,
        milliCu: isWhole ? priceOf(head, text) : 0,
        maxMilliCu,
        isLogged,
      });
      return { status, isWhole, text };
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

function exchange(
  url: string,
  options: object,
  body: object | undefined,
): Promise<Answer & { readonly head: IncomingHttpHeaders }> {
  return new Promise((resolve) => {
    const sent = request(url, options);
    let status = 0;
    let text = "";
    const broken = (): void => resolve({ status, isWhole: false, text, head: {} });
    sent.on("error", broken);
    sent.on("close", broken);
    sent.on("response", (response) => {
      status = response.statusCode ?? 0;
      const isStream = response.headers["content-type"]?.startsWith("text/event-stream") === true;
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("error", broken);
      response.on("end", () => {
        const isWhole = response.complete && (!isStream || text.endsWith("data: [DONE]\n\n"));
        resolve({ status, isWhole, text, head: response.headers });
      });
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** Returns the price in milli-CU, which a stream states in its last event. */
function priceOf(head: IncomingHttpHeaders, text: string): number {
  const header = head["x-used-cu-milli"];
  if (header !== undefined) return Number(header);
  return Number(/"usedCUMilli":(\d+)\}\}\n\ndata: \[DONE\]\n\n$/.exec(text)?.[1] ?? 0);
}
