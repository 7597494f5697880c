/** Calls nodes over HTTP, apart from the calls of clients. */
import type { Host, UpstreamAnswer } from "sluice-gateway/plugin";
import { isObject, parseJson } from "sluice-gateway/toolkit";
import { NodeError, type HeadNode } from "./node.ts";

type Post = (url: string, body: string) => Promise<Pick<UpstreamAnswer, "status" | "body">>;

/** Maximum size of an answer: a set change with 10,000 headers before it. */
export const maxAnswerBytes = 8 * 1_048_576;
export const answerMs = 10_000;

const methodNotFound = -32601;

/** Returns the nodes at these URLs, in their order. `post`: rejects if there is no answer. */
export function nodesOf(urls: readonly string[], post: Post): readonly HeadNode[] {
  return urls.map((url, index) => {
    const { host } = new URL(url);
    const isShared = urls.filter((other) => new URL(other).host === host).length > 1;
    // A Substrate node serves WebSocket and HTTP at one port.
    const address = url.replace(/^ws/, "http");
    return {
      name: isShared ? `${host}#${index}` : host,
      async call(method, params) {
        const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
        const answer = await post(address, body).catch(() => undefined);
        if (answer === undefined) throw new NodeError("the node does not answer over HTTP");
        const read = readJson(answer.body);
        if (isObject(read) && "result" in read) return read["result"];
        if (isObject(read) && isObject(read["error"])) {
          throw new NodeError(
            read["error"]["code"] === methodNotFound
              ? `the node does not offer ${method}`
              : `the node answered ${method} with an error`,
          );
        }
        throw new NodeError(`the node did not answer ${method} with JSON-RPC`);
      },
    };
  });
}

/** Returns a function that posts with connections of the gateway, which it keeps. Call it once per upstream. */
export function postWith(host: Pick<Host, "upstream">, urls: readonly string[]): Post {
  const limits = { connections: 2, answerMs, idleMs: answerMs, maxAnswerBytes };
  const clients = new Map(
    urls.map((url) => {
      const address = url.replace(/^ws/, "http");
      return [address, host.upstream(address, limits)];
    }),
  );
  const headers = { "content-type": "application/json" };
  return async (url, body) => {
    const client = clients.get(url);
    if (client === undefined) throw new Error(`no client for ${url}`);
    return await client.request({ method: "POST", headers, body });
  };
}

function readJson(body: Buffer): unknown {
  try {
    return parseJson(body.toString());
  } catch {
    return undefined;
  }
}
