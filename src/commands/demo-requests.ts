/** The example requests of `sluice dev`, as data and as curl commands. */

export interface ProposedRequest {
  readonly method: "POST";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The same request as a shell command. */
  readonly curl: string;
}

/** Storage key of `Timestamp.Now`, which almost every Substrate runtime has. */
const timestampNow = "0xf0c365c3cf59d671eb72da0e7a4113c49f1f0515f462cdcf84e0f1d6045dfcbb";

/** Proposes a call, a read at a block and a batch. `blockHash`: undefined if it is not known; then the head is read. */
export function proposeRequests(
  url: string,
  key: string,
  blockHash: string | undefined,
): ProposedRequest[] {
  const call = (id: number, method: string, params: readonly unknown[] = []) => ({
    jsonrpc: "2.0",
    id,
    method,
    params,
  });
  const storageParams = blockHash === undefined ? [timestampNow] : [timestampNow, blockHash];
  return [
    call(1, "system_health"),
    call(2, "state_getStorage", storageParams),
    [call(1, "system_chain"), call(2, "chain_getBlockHash", [0]), call(3, "chain_getHeader")],
  ].map((body) => proposeRequest(url, key, JSON.stringify(body)));
}

/** Proposes a streamed chat. `curl -N` shows each token when it arrives, and `-s` hides the progress meter. */
export function proposeChat(url: string, key: string, model: string): ProposedRequest {
  const content = "One word at a time.";
  const messages = [{ role: "user", content }];
  const options = { stream: true, stream_options: { include_usage: true } };
  return proposeRequest(url, key, JSON.stringify({ model, messages, ...options }), "curl -sN");
}

function proposeRequest(
  url: string,
  key: string,
  body: string,
  command = "curl -s",
): ProposedRequest {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const flags = Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`);
  const curl = [command, url, ...flags, `-d '${body}'`].join(" ");
  return { method: "POST", url, headers, body, curl };
}

/**
 * Returns the hash of the finalized head. It is read from the node directly, so that nothing is charged. Undefined for
 * a node that only accepts WebSockets, or that does not answer within 3 s (it may still be starting).
 */
export async function headOf(nodeUrl: string): Promise<string | undefined> {
  try {
    const response = await fetch(nodeUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"chain_getFinalizedHead","params":[]}',
      signal: AbortSignal.timeout(3_000),
    });
    const answer: unknown = await response.json();
    if (typeof answer !== "object" || answer === null || !("result" in answer)) return undefined;
    return typeof answer.result === "string" ? answer.result : undefined;
  } catch {
    return undefined;
  }
}
