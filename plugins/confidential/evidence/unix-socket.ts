import { request } from "node:http";
import { parseOrUndefined } from "sluice-gateway/internal/toolkit";

const timeoutMs = 15_000;
const maxBytes = 4 * 1024 * 1024;

/** Undefined if there is no answer, it is not JSON, or its status is not 200. Never rejects. */
export function postJson(
  socketPath: string,
  path: string,
  body: object,
  signal: AbortSignal,
): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const fail = (): void => resolve(undefined);
  const text = JSON.stringify(body);
  const outgoing = request(
    {
      socketPath,
      path,
      method: "POST",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      headers: {
        host: "dstack",
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      },
    },
    (response) => {
      const pieces: Buffer[] = [];
      let bytes = 0;
      response.on("data", (piece: Buffer) => {
        bytes += piece.length;
        if (bytes > maxBytes) response.destroy();
        else pieces.push(piece);
      });
      response.on("end", () => {
        resolve(
          response.statusCode === 200
            ? parseOrUndefined(Buffer.concat(pieces).toString())
            : undefined,
        );
      });
      // Has no effect after `end`.
      response.on("close", fail);
      response.on("error", fail);
    },
  );
  outgoing.on("error", fail);
  // Without a listener node:http closes the connection and reports neither an answer nor an error.
  outgoing.on("upgrade", (_, socket) => {
    socket.destroy();
    fail();
  });
  outgoing.end(text);
  return promise;
}
