/**
 * Clients of the encrypted stream that make a gateway with a memory limit of 512 MiB work and hold as much as they can.
 * The gateway is the enclave itself, so it also decrypts what they send. See attacks.slow.test.ts.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test, type TestContext } from "node:test";
import { chunkOf, eventOf } from "../plugins/inference/networks/chat-events.ts";
import { startWorker, type Script } from "../plugins/inference/networks/scripted-worker.ts";
import { streamed } from "../plugins/inference/networks/worker-scripts.ts";
import {
  helloOf,
  openStream,
  openWire,
  unwrap,
  type OpenStream,
  type Wire,
} from "../plugins/confidential/confidential-relay/stream-client.ts";
import { writeHello } from "../../plugins/confidential/protocol/hello.ts";
import { until } from "../plugins/ledger/until.ts";
import { mebibyte, startAttacked, type Attacked } from "./attacked-gateway.ts";

const target = { network: "confidential-classic", termination: "gateway" } as const;

interface AttackedStream extends Attacked {
  /** Connects. Undefined if the gateway refuses the connection. */
  wire(): Promise<Wire | undefined>;
  session(): Promise<OpenStream>;
}

/** Starts a gateway in front of a model server. `otherwise`: returns the current script of the model server. */
async function startStream(t: TestContext, otherwise: () => Script): Promise<AttackedStream> {
  const worker = await startWorker({ otherwise: (exchange) => otherwise()(exchange) });
  t.after(() => worker[Symbol.asyncDispose]());
  const env = { CONFIDENTIAL_CLASSIC_URL: worker.url, CONFIDENTIAL_EVIDENCE: "simulated" };
  const attacked = await startAttacked(t, env);
  const headers = { authorization: `Bearer ${attacked.keys[0]}` };
  const opened: Wire[] = [];
  const open = async (): Promise<Wire> => {
    const wire = await openWire(`${attacked.url}/v1/confidential/stream`, { headers });
    wire.socket.on("error", () => {});
    opened.push(wire);
    return wire;
  };
  const session = async (): Promise<OpenStream> => {
    for (;;) {
      const opening = open().then((wire) => openStream(wire, target));
      const one = await opening.catch(() => undefined);
      // The bucket of the key may be empty.
      if (one !== undefined) return one;
    }
  };
  return {
    ...attacked,
    session,
    wire: () => open().catch(() => undefined),
    /** Also shows that the gateway still serves a session. */
    async assertHealthy(part) {
      const one = await session();
      one.ask();
      assert.equal((await one.answer()).final["finish_reason"], "stop");
      await attacked.assertHealthy(part);
      for (const { socket } of opened.splice(0)) socket.terminate();
    },
  };
}

async function wires(attacked: AttackedStream, count: number): Promise<Wire[]> {
  const all = await Promise.all(Array.from({ length: count }, () => attacked.wire()));
  return all.filter((wire) => wire !== undefined);
}

test("a gateway that is the enclave withstands the clients of the encrypted stream", async (whole) => {
  let script: Script = streamed();
  const attacked = await startStream(whole, () => script);

  await whole.test("half handshakes: the first fragment of a hello", async (t) => {
    const open = await wires(attacked, 300);
    for (const { socket } of open) socket.send("{".padEnd(60_000), { fin: false });
    assert.ok(open.length > 100, `${open.length} connections`);
    await attacked.assertHealthy(t);
  });

  await whole.test("many sessions: complete handshakes without a request", async (t) => {
    const open = await wires(attacked, 300);
    const { hello } = await helloOf({ ...target, freshness: "quote" });
    for (const { socket } of open) socket.send(writeHello(hello), { binary: false });
    const answers = await Promise.all(open.map((wire) => wire.next().catch(() => undefined)));
    assert.ok(answers.length > 100 && answers.some((answer) => answer !== undefined));
    await attacked.assertHealthy(t);
  });

  await whole.test("hellos in a loop: a second one in each session", async (t) => {
    const open = await wires(attacked, 300);
    const { hello } = await helloOf(target);
    const bytes = writeHello(hello);
    for (const { socket } of open) {
      for (let count = 0; count < 1000; count++) socket.send(bytes, { binary: false });
    }
    const codes = await Promise.all(open.map(({ closed }) => closed));
    assert.ok(codes.length > 100 && codes.every((code) => code > 1001), [...new Set(codes)].join());
    await attacked.assertHealthy(t);
  });

  await whole.test("huge frames: before the handshake and in a session", async (t) => {
    const open = await wires(attacked, 20);
    const sessions = await Promise.all(Array.from({ length: 20 }, () => attacked.session()));
    const huge = Buffer.alloc(16 * mebibyte, 0x20);
    for (const { socket } of [...open, ...sessions]) socket.send(huge, { binary: true });
    const codes = await Promise.all([...open, ...sessions].map(({ closed }) => closed));
    assert.ok(
      codes.every((code) => code > 1001),
      codes.join(),
    );
    await attacked.assertHealthy(t);
  });

  await whole.test("unfinished requests of 8 MiB in many sessions", async (t) => {
    const sessions = await Promise.all(Array.from({ length: 60 }, () => attacked.session()));
    const piece = Buffer.alloc(65_536, 0x20);
    let closed = 0;
    for (const { socket, channel, closed: end } of sessions) {
      void end.then(() => closed++);
      for (let count = 0; count < 120; count++) {
        socket.send(unwrap(channel.seal("request", 1, piece, false)));
      }
    }
    // One caller may hold half of what all may hold.
    await until(() => closed >= 20);
    for (const { socket } of sessions) socket.terminate();
    await attacked.assertHealthy(t);
  });

  await whole.test("sealed garbage: frames that cannot be decrypted", async (t) => {
    const sessions = await Promise.all(Array.from({ length: 40 }, () => attacked.session()));
    for (const { socket, channel } of sessions) {
      const frame = Buffer.from(unwrap(channel.seal("request", 1, Buffer.alloc(65_536), true)));
      frame[frame.length - 1]! ^= 1;
      for (let count = 0; count < 50; count++) socket.send(frame);
    }
    const codes = await Promise.all(sessions.map(({ closed }) => closed));
    assert.deepEqual(
      [...new Set(codes)].filter((code) => code <= 1001),
      [],
    );
    await attacked.assertHealthy(t);
  });

  await whole.test("slow readers of sealed answers", async (t) => {
    let sentBytes = 0;
    const event = eventOf(chunkOf({ content: "x".repeat(60_000) }));
    script = async (exchange) => {
      exchange.begin();
      while ((await exchange.push(event)) === "taken") sentBytes += event.length;
    };
    const sessions = await Promise.all(Array.from({ length: 60 }, () => attacked.session()));
    for (const session of sessions) {
      session.ask({ model: "Test/Model-1", messages: [{ role: "user", content: "Hello" }] });
      await once(session.socket, "message");
      session.socket.pause();
    }
    // The model server can send no more.
    for (let before = -1; before !== sentBytes;) {
      before = sentBytes;
      await new Promise((resolve) => setTimeout(resolve, 1_000));
    }
    script = streamed();
    await attacked.assertHealthy(t);
  });

  await attacked.assertAnswered();
});
