import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Event {
  readonly id: string;
  readonly source: string;
  readonly data: { readonly request_id: string };
}

export interface Sink extends AsyncDisposable {
  readonly url: string;
  readonly batches: readonly (readonly Event[])[];
  /** `answers`: false to keep requests without an answer. */
  readonly mode: { answers: boolean };
  /** Resolves when the condition holds. It is checked for each batch. */
  until(isEnough: () => boolean): Promise<void>;
}

export async function startSink(): Promise<Sink> {
  const batches: (readonly Event[])[] = [];
  const waiting: (() => void)[] = [];
  const mode = { answers: true };
  const held: ServerResponse[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      assert.equal(req.headers.authorization, "Bearer sink");
      // This test checks what the exporter sends.
      batches.push(JSON.parse(Buffer.concat(chunks).toString()) as Event[]);
      if (mode.answers) res.writeHead(204).end();
      else held.push(res);
      for (const wake of waiting.splice(0)) wake();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // The server listens on TCP.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/`,
    batches,
    mode,
    async until(isEnough: () => boolean): Promise<void> {
      while (!isEnough()) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
