/** Calls of tools whose messages are read one by one, so that a test can answer the questions of the call. */
import { request, type IncomingMessage } from "node:http";
import type { Parsed } from "../../../e2e/mcp-gateway.ts";

export interface StreamedCall {
  readonly messages: AsyncGenerator<Parsed, undefined>;
  readonly leave: () => void;
}

/** `session`: the value of `Mcp-Session-Id`. */
export function streamedCall(
  { url, key }: { readonly url: string; readonly key: string },
  session: string,
  name: string,
  input: object,
): StreamedCall {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request(`${url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": session,
    },
  });
  sent.on("response", resolve).on("error", reject);
  const params = { name, arguments: input };
  sent.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params }));
  return { messages: messagesOf(promise), leave: () => void sent.destroy() };
}

async function* messagesOf(response: Promise<IncomingMessage>): AsyncGenerator<Parsed, undefined> {
  let text = "";
  for await (const chunk of (await response).setEncoding("utf8")) {
    text += chunk as string;
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      const line = text.slice(0, end).split("data: ")[1];
      text = text.slice(end + 2);
      if (line !== undefined) yield JSON.parse(line);
    }
  }
  return undefined;
}
