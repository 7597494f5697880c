/** Reads a request body whole, up to a cap. */
import type { IncomingMessage } from "node:http";

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "tooLarge" }
  /** The client left before its body was complete. */
  | { readonly kind: "aborted" };

const none: BodyResult = { kind: "body", body: Buffer.alloc(0) };
const tooLarge: BodyResult = { kind: "tooLarge" };
const aborted: BodyResult = { kind: "aborted" };

/**
 * Calls `done` exactly once. The cap is checked against `Content-Length` before a byte is read, and against what
 * really arrives. After `tooLarge` the rest is left unread for the caller to drop.
 */
export function readBody(
  request: IncomingMessage,
  capBytes: number,
  done: (result: BodyResult) => void,
): void {
  const announced = request.headers["content-length"];
  if (announced !== undefined && Number(announced) > capBytes) return done(tooLarge);
  if (announced === "0") return done(none);

  // Nearly every call fits one chunk: it is then handed on as it came, without a copy.
  let first: Buffer | undefined;
  let rest: Buffer[] | undefined;
  let bytes = 0;
  const onData = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > capBytes) return finish(tooLarge);
    if (first === undefined) first = chunk;
    else if (rest === undefined) rest = [first, chunk];
    else rest.push(chunk);
  };
  const onEnd = (): void => {
    if (first === undefined) finish(none);
    else finish({ kind: "body", body: rest === undefined ? first : Buffer.concat(rest, bytes) });
  };
  const onClose = (): void => finish(aborted);
  let finished = false;
  const finish = (result: BodyResult): void => {
    if (finished) return;
    finished = true;
    request.off("data", onData);
    request.off("end", onEnd);
    request.off("close", onClose);
    request.off("error", onClose);
    done(result);
  };
  request.on("data", onData);
  request.on("end", onEnd);
  request.on("close", onClose);
  request.on("error", onClose);
}
