import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { NodeError, nodeRefusal, type HeadNode } from "./node.ts";

type Post = (url: string, body: string) => Promise<Buffer>;

/** Returns the nodes in the order of their URLs. `post`: rejects if the node does not answer. */
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
        const read = parseOrUndefined(answer.toString());
        if (isObject(read) && "result" in read) return read["result"];
        if (isObject(read) && isObject(read["error"]))
          throw nodeRefusal(method, read["error"]["code"]);
        throw new NodeError(`the node did not answer ${method} with JSON-RPC`);
      },
    };
  });
}
