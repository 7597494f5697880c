/** Incomplete requests: the memory that an enclave holds for them, and for how long (finding 4). */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { UnfinishedBytes } from "../../../../src/memory/unfinished-bytes.ts";
import { unwrap } from "../protocol/session.ts";
import { ending } from "./client.ts";
import { startEnclave, type Connected, type TestEnclave } from "./enclave.ts";

const pieceBytes = 32_768;
const limits = { maxBytes: 4 * pieceBytes, maxBytesPerOwner: 2 * pieceBytes };

/** Sends one piece of request 1 that is not its last. */
function send({ wire, client }: Connected, bytes = pieceBytes): void {
  wire.binary(unwrap(client.channel.seal("request", 1, Buffer.alloc(bytes, 0x20), false)));
}

interface Bounded {
  readonly enclave: TestEnclave;
  readonly held: () => number;
  readonly connect: (owner: string) => Promise<Connected>;
}

async function startBounded(): Promise<Bounded> {
  const enclave = await startEnclave();
  let held = 0;
  const unfinished = new UnfinishedBytes((bytes) => {
    held = bytes;
  });
  return {
    enclave,
    held: () => held,
    connect: (owner) => enclave.connect({}, { hold: () => unfinished.hold(owner, limits) }),
  };
}

describe("a request that arrives too slowly", () => {
  test("ends its session if less than 64 KiB arrive in 10 s, and after one minute", async () => {
    const enclave = await startEnclave();
    const slow = await enclave.connect();
    const steady = await enclave.connect();
    send(slow, 1);
    send(steady);
    enclave.clock.advance(1_000);
    for (let seconds = 1; seconds < 11; seconds++) {
      send(slow, 1);
      send(steady, 6_600);
      enclave.clock.advance(1_000);
    }
    assert.deepEqual(await ending(slow.wire), { code: 4408, error: "TIMEOUT" });
    for (let seconds = 11; seconds < 60; seconds++) {
      send(steady, 8_192);
      enclave.clock.advance(1_000);
    }
    assert.deepEqual(await ending(steady.wire), { code: 4408, error: "TIMEOUT" });
  });
});

describe("the memory of requests that have not arrived completely", () => {
  test("is released when a request is complete, cancelled or broken", async () => {
    const { enclave, held, connect } = await startBounded();
    const complete = await connect("a");
    send(complete);
    assert.equal(held(), pieceBytes);
    const answered = complete.client.answer(1);
    complete.wire.binary(
      unwrap(complete.client.channel.seal("request", 1, Buffer.from("x"), true)),
    );
    await answered;
    assert.equal(held(), 0);
    const cancelled = await connect("a");
    send(cancelled);
    const report = cancelled.client.answer(1);
    cancelled.wire.binary(
      unwrap(cancelled.client.channel.seal("cancel", 1, Buffer.alloc(0), false)),
    );
    assert.equal((await report).report.finish, "cancel");
    assert.equal(held(), 0);
    // The time limit of the request ends with the request.
    enclave.clock.advance(60_000);
    const broken = await connect("a");
    send(broken);
    broken.wire.binary(Buffer.alloc(64));
    await ending(broken.wire);
    assert.equal(held(), 0);
  });
});

describe("the memory of a whole request", () => {
  test("stays counted while the model is silent, and is released with the first chunk or the end", async () => {
    const { enclave, held, connect } = await startBounded();
    const ask = async (): Promise<Connected> => {
      const session = await connect("a");
      for (const frame of session.client.request(1, {
        model: "Demo/Echo-1",
        messages: [{ role: "user", content: "x".repeat(pieceBytes - 1_000) }],
      })) {
        session.wire.binary(frame);
      }
      return session;
    };
    const one = await ask();
    const two = await ask();
    assert.equal(enclave.model.asked.length, 2);
    const full = held();
    assert.ok(full > 2 * (pieceBytes - 1_000), `${full} bytes`);
    const three = await connect("a");
    send(three);
    assert.deepEqual(await ending(three.wire), { code: 4429, error: "RATE_LIMITED" });
    enclave.model.asked[0]?.end();
    assert.equal(held(), full / 2);
    two.wire.session.abort();
    assert.equal(held(), 0);
    one.wire.session.abort();
  });
});

describe("an exception in a callback", () => {
  test("ends only its own session and is logged", async () => {
    const enclave = await startEnclave();
    const other = await enclave.connect();
    const thrown = new Error("the catalogue broke");
    const find = enclave.model.offer;
    let calls = 0;
    const session = await enclave.connect(
      {},
      {
        find() {
          // The handshake calls it first, and the request second.
          if (++calls > 1) throw thrown;
          return find;
        },
      },
    );
    for (const frame of session.client.request(1, { model: "Demo/Echo-1", messages: [{}] })) {
      session.wire.binary(frame);
    }
    assert.deepEqual(await ending(session.wire), { code: 1011, error: undefined });
    assert.ok(
      enclave.lines.some((line) => line.startsWith("a session of the encrypted stream failed")),
    );
    const answered = other.client.ask({ model: "Demo/Echo-1", messages: [{ role: "user" }] });
    enclave.model.asked[0]?.end();
    assert.equal((await answered).report.finish, "stop");
  });
});
