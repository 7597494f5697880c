/**
 * A gateway that charges in a loop until it is killed. In every turn it makes calls of several keys, with one line and
 * with several, streamed and not. It prints each call when it is sent and when it is answered, at once and unbuffered.
 */
import { writeSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { embeddedStore, openGatewaysOn, principalOf } from "./gateways.ts";
import type { LoggedCall } from "./kill.slow.test.ts";

const [folder = "", round = "", ...texts] = process.argv.slice(2);
const { one } = await openGatewaysOn({ after() {} }, folder, embeddedStore);
const principals = await Promise.all(texts.map((text) => principalOf(one, { text })));
const line = { surface: "ledger-rpc", method: "chain_getBlock", costMilliCu: 30 };
const part = { ...line, costMilliCu: 10 };

/** Waits while the pipe is full, because a line that is not written would hide a call. */
function log(logged: LoggedCall): void {
  const bytes = Buffer.from(`${JSON.stringify({ ...logged, at: Date.now() })}\n`);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

async function callOnce(n: number): Promise<void> {
  const principal = principals[n % principals.length]!;
  // Every seventh call is a batch: its three lines are charged together or not at all.
  const lines = n % 7 === 0 ? [part, part, part] : [line];
  const id = `${round}-${n}`;
  log({ id, keyId: principal.key.id, lines: lines.length, status: 0, at: 0 });
  const about = { requestId: id, surface: line.surface, streamed: n % 5 === 0 };
  const taken = await one.metering.reserve(principal, 30, about);
  if (taken.kind === "reserved") {
    // Some end when their intent is on disk, and most before it is.
    if (n % 50 === 0) await wait(5);
    await taken.settle(lines);
  }
  const status = taken.kind === "reserved" ? 200 : taken.kind === "refused" ? 429 : 503;
  log({ id, keyId: principal.key.id, lines: lines.length, status, at: 0 });
}

for (let n = 0; ;) {
  const turn: Promise<void>[] = [];
  for (let i = 0; i < 8; i++) turn.push(callOnce(n++));
  await Promise.all(turn);
}
