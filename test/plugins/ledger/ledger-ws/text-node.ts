/** A node over HTTP whose results are JSON texts, so that tests can compare bytes, and whose answers can be held back. */
import { createServer } from "node:http";
import { closed, healthyNode, listening } from "../../../e2e/rpc-node.ts";

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

export class TextNode {
  /** Results by `method params`, or by method alone. */
  readonly results = new Map<string, string>();
  /** Every call as `method params`. */
  readonly calls: string[] = [];
  /** Methods that are not answered until `release` is called. */
  readonly held = new Set<string>();
  url = "";
  #waiting: (() => void)[] = [];
  readonly #server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => (text += chunk));
    req.on("end", () => {
      const asked = JSON.parse(text) as Call | Call[];
      const list = Array.isArray(asked) ? asked : [asked];
      const answers = list.map((call) => this.#one(call)).join(",");
      const answer = (): void => {
        res.writeHead(200, { "content-type": "application/json" });
        res.end(Array.isArray(asked) ? `[${answers}]` : answers);
      };
      if (list.some(({ method }) => this.held.has(method))) this.#waiting.push(answer);
      else answer();
    });
  });

  async start(): Promise<void> {
    this.url = await listening(this.#server);
  }

  stop(): Promise<void> {
    this.release();
    return closed(this.#server);
  }

  release(): void {
    this.held.clear();
    for (const answer of this.#waiting.splice(0)) answer();
  }

  count(method: string): number {
    return this.calls.filter((call) => call.startsWith(`${method} `)).length;
  }

  #one({ id, method, params = [] }: Call): string {
    const call = `${method} ${JSON.stringify(params)}`;
    this.calls.push(call);
    const known = this.results.get(call) ?? this.results.get(method);
    const healthy = healthyNode[method]?.(params);
    const result = known ?? (healthy === undefined ? undefined : JSON.stringify(healthy));
    const outcome =
      result === undefined
        ? '"error":{"code":-32601,"message":"Method not found"}'
        : `"result":${result}`;
    return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${outcome}}`;
  }
}
