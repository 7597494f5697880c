import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { HeadNode } from "../../../plugins/proofs/proofs/node.ts";

export interface NodeServer extends AsyncDisposable {
  readonly url: string;
}

interface Call {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** `node`: its rejections are answered with the error -32601. */
export async function serveNode({ call }: Pick<HeadNode, "call">): Promise<NodeServer> {
  const server = createServer((request, response) => {
    const one = async ({ id, method, params }: Call): Promise<object> => {
      const outcome = await call(method, params).then(
        (result) => ({ result }),
        () => ({ error: { code: -32601, message: "Method not found" } }),
      );
      return { jsonrpc: "2.0", id, ...outcome };
    };
    const answer = async (): Promise<void> => {
      const asked = JSON.parse(await text(request)) as Call | readonly Call[];
      const answered = "map" in asked ? Promise.all(asked.map(one)) : one(asked);
      response.end(JSON.stringify(await answered));
    };
    answer().catch((error: unknown) => response.destroy(error as Error));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
