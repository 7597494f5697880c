/**
 * Reads the finalized head from the reference node. The answer is not below the floor: if the reference is lost or wrong,
 * the call waits for the next one.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { LedgerAnswer } from "sluice-gateway/services";
import { maxWaitMs } from "../height-waits.ts";
import { finalizedHeight } from "../methods.ts";
import type { NodeRequest } from "../node-pool.ts";
import { ask, blockNumber } from "./probe.ts";
import type { PooledNode } from "./pooled-node.ts";
import type { Reference } from "./reference.ts";

/** Time until a reference that has given no answer is asked again. */
const retryMs = 100;
/** Maximum number of lost references after which a call gets the whole time again. */
const maxLost = 2;

type FailedAnswer = Extract<LedgerAnswer, { kind: "failed" }>;

export interface HeadReadDeps {
  readonly reference: Reference;
  readonly clock: Clock;
  readonly send: (node: PooledNode, request: NodeRequest) => Promise<LedgerAnswer>;
  readonly probe: () => Promise<void>;
}

/** Ends the request. Never rejects. */
export async function readHead(request: NodeRequest, deps: HeadReadDeps): Promise<void> {
  const { reference, clock } = deps;
  let deadline = clock.monotonic() + maxWaitMs;
  let failure: FailedAnswer = { kind: "failed", reason: "unreachable" };
  let lost = 0;
  while (await reference.ready()) {
    const { node } = reference;
    if (node === undefined) break;
    const answer = await answerOf(node, request, deps);
    if (answer === "lost") {
      // The next reference can answer, however long the last one was silent.
      if (++lost <= maxLost) deadline = clock.monotonic() + maxWaitMs;
    } else if (answer.kind === "failed") {
      failure = answer;
      await node.probe();
    } else if (
      answer.kind === "error" ||
      (await isAcceptable(request.method, answer.bytes, node, deps))
    ) {
      return request.onAnswer(answer.kind, answer.bytes, 0, answer.bytes.length);
    }
    if (clock.monotonic() >= deadline) break;
    if (reference.node === node) await new Promise<void>((done) => clock.after(retryMs, done));
  }
  request.onError(failure.reason, failure.cause);
}

/** Does not wait for a node that is not the reference any more, because its answer could not be used. */
async function answerOf(
  node: PooledNode,
  request: NodeRequest,
  { reference, send }: HeadReadDeps,
): Promise<LedgerAnswer | "lost"> {
  const { promise, resolve } = Promise.withResolvers<"lost">();
  using _listener = reference.onChange(() => {
    if (reference.node !== node) resolve("lost");
  });
  return await Promise.race([send(node, request), promise]);
}

/** Raises the floor. Returns false if the answer is below it, or cannot be right. */
async function isAcceptable(
  method: string,
  answer: Buffer,
  node: PooledNode,
  { reference, probe }: HeadReadDeps,
): Promise<boolean> {
  const text = answer.toString("latin1");
  const hash = readHash(text);
  const known =
    hash === undefined ? NaN : (reference.numberOf(hash) ?? (await askNumber(hash, node)));
  const number = method === finalizedHeight ? Number(text) : known;
  // The node has failed in the meantime.
  if (number === undefined) return false;
  const isNumber = Number.isSafeInteger(number) && number >= 0;
  // The other nodes may have got more blocks since they were probed.
  if (isNumber && !reference.believes(node, number)) await probe();
  if (!isNumber || !reference.believes(node, number)) {
    reference.lose(node.label);
    return false;
  }
  reference.announced(node.label, number, hash === undefined ? undefined : { number, hash });
  return reference.node === node && number >= (reference.floor ?? 0);
}

/** Returns NaN if the node does not have the block. Undefined if it does not answer. */
async function askNumber(hash: string, { probeClient }: PooledNode): Promise<number | undefined> {
  const header = await ask(probeClient, "chain_getHeader", [hash]);
  return header.kind === "failed" ? undefined : (blockNumber(header.value) ?? NaN);
}

/** Returns the hash in lower case. Undefined if the JSON text is neither a hash nor a list with one hash. */
export function readHash(text: string): string | undefined {
  const found = /^(?:"(0x[0-9a-f]{1,128})"|\["(0x[0-9a-f]{1,128})"\])$/i.exec(text);
  return (found?.[1] ?? found?.[2])?.toLowerCase();
}
