import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createWebChannel } from "../../../../plugins/confidential/client/web-channel.ts";
import { requestPieces, type Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import { maxFrameBytes, readHeader } from "../../../../plugins/confidential/protocol/frames.ts";
import type { FrameHeader } from "../../../../plugins/confidential/protocol/frames.ts";
import { createFrameWatch } from "../../../../plugins/confidential/protocol/frame-watch.ts";
import {
  maxFrameDataBytes,
  maxFrames,
  maxRequests,
} from "../../../../plugins/confidential/protocol/limits.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { nobleSeal, nobleSealRaw, type NobleFrame } from "./noble-stream.ts";
import { bytesOf, codeOf, openSession, unwrap, withFlippedBit } from "./session.ts";

const session = await openSession();
const { keys, th } = session.answer;
const nothing = new Uint8Array(0);
const body = bytesOf('{"model":"demo"}');

function sessionWithRequest(): { client: Channel; enclave: Channel } {
  const ends = session.ends();
  unwrap(ends.enclave.open(unwrap(ends.client.seal("request", 1, body, true))));
  return ends;
}

/** A frame that is encrypted with the session's keys but has a wrong header. */
function forged(direction: "c2s" | "s2c", frame: Partial<NobleFrame>, data: Bytes = body): Bytes {
  const head = { type: direction === "c2s" ? 1 : 2, flags: 0, rid: 1, seq: 0n, ...frame };
  return nobleSeal(keys[direction], th, head, data, 256);
}

describe("a session", () => {
  test("a cancel may cross the final, but only one is allowed", () => {
    const { client, enclave } = sessionWithRequest();
    const final = unwrap(enclave.seal("final", 1, nothing));
    unwrap(enclave.open(unwrap(client.seal("cancel", 1, nothing))));
    unwrap(client.open(final));
    assert.equal(codeOf(client.seal("cancel", 1, nothing)), "BAD_FRAME");
  });

  test("a frame with a different transcript cannot be decrypted", async () => {
    const other = await openSession();
    const foreign = unwrap(other.ends().client.seal("request", 1, body, true));
    assert.equal(codeOf(session.ends().enclave.open(foreign)), "BAD_FRAME");
    const head = { type: 1, flags: 1, rid: 1, seq: 0n };
    const sameKeys = nobleSeal(keys.c2s, withFlippedBit(th, 5), head, body, 256);
    assert.equal(codeOf(session.ends().enclave.open(sameKeys)), "BAD_FRAME");
  });

  test("a reflected frame is refused", () => {
    const mine = unwrap(session.ends().client.seal("request", 1, body, true));
    assert.equal(codeOf(sessionWithRequest().client.open(mine)), "BAD_FRAME");
  });

  test("after a fault, both directions are refused with the same fault", () => {
    const { client, enclave } = sessionWithRequest();
    const good = unwrap(client.seal("cancel", 1, nothing));
    const reason = enclave.open(withFlippedBit(good, 40));
    assert.equal(codeOf(reason), "BAD_FRAME");
    assert.equal(enclave.open(good), reason);
    assert.equal(enclave.seal("final", 1, nothing), reason);
  });

  test("a request's digests are kept for its report while the next request runs", () => {
    const { client, enclave } = sessionWithRequest();
    unwrap(client.open(unwrap(enclave.seal("final", 1, nothing))));
    unwrap(client.seal("request", 2, body, true));
    assert.equal(client.watch.rid(), 2);
    assert.equal(client.watch.take(1)?.hasEnded, true);
    assert.equal(client.watch.take(1), undefined);
    assert.equal(client.watch.take(2)?.hasEnded, false);
    assert.equal(client.watch.take(3), undefined);
  });
});

describe("authentic frames that violate the rules", () => {
  const wrong: readonly (readonly [string, "c2s" | "s2c", Bytes, string])[] = [
    ["another version", "c2s", forged("c2s", { version: 2 }), "BAD_FRAME"],
    ["epoch 1", "c2s", forged("c2s", { epoch: 1 }), "BAD_FRAME"],
    ["an unknown flag", "c2s", forged("c2s", { flags: 2 }), "BAD_FRAME"],
    ["an unknown type", "c2s", forged("c2s", { type: 5 }), "BAD_FRAME"],
    ["type 0", "c2s", forged("c2s", { type: 0 }), "BAD_FRAME"],
    ["a chunk to the enclave", "c2s", forged("c2s", { type: 2 }), "BAD_FRAME"],
    ["rid 0", "c2s", forged("c2s", { rid: 0 }), "BAD_FRAME"],
    ["rid 2 first", "c2s", forged("c2s", { rid: 2 }), "BAD_FRAME"],
    ["a cancel of nothing", "c2s", forged("c2s", { type: 4 }, nothing), "BAD_FRAME"],
    ["seq 1 first", "c2s", forged("c2s", { seq: 1n }), "REPLAY"],
    ["seq 2^32", "c2s", forged("c2s", { seq: 2n ** 32n }), "REPLAY"],
    ["the last seq of all", "c2s", forged("c2s", { seq: 2n ** 64n - 1n }), "REPLAY"],
    ["a chunk with END", "s2c", forged("s2c", { flags: 1 }), "BAD_FRAME"],
    ["a final without END", "s2c", forged("s2c", { type: 3 }), "BAD_FRAME"],
    ["a chunk of another rid", "s2c", forged("s2c", { rid: 2 }), "BAD_FRAME"],
    ["a request to the client", "s2c", forged("s2c", { type: 1 }), "BAD_FRAME"],
  ];
  for (const [name, direction, frame, code] of wrong) {
    test(`${name} is refused`, () => {
      const { client, enclave } = direction === "c2s" ? session.ends() : sessionWithRequest();
      assert.equal(codeOf((direction === "c2s" ? enclave : client).open(frame)), code);
      // A relay sees the same fault without having the keys.
      const watch = createFrameWatch(nodeSuite.newHash);
      if (direction === "s2c") unwrap(watch.observe("c2s", forged("c2s", { flags: 1 })));
      assert.equal(codeOf(watch.observe(direction, frame)), code);
    });
  }

  test("a response without a request, or before the request's END, is refused", () => {
    const first = session.ends();
    assert.equal(codeOf(first.enclave.seal("chunk", 1, nothing)), "BAD_FRAME");
    const { client, enclave } = session.ends();
    unwrap(enclave.open(unwrap(client.seal("request", 1, body))));
    assert.equal(codeOf(client.open(forged("s2c", {}))), "BAD_FRAME");
    assert.equal(codeOf(enclave.seal("final", 1, nothing)), "BAD_FRAME");
  });

  test("no frame of a request or response is accepted after its END", () => {
    const again = sessionWithRequest();
    assert.equal(codeOf(again.enclave.open(forged("c2s", { seq: 1n }))), "BAD_FRAME");
    const { client, enclave } = sessionWithRequest();
    unwrap(client.open(unwrap(enclave.seal("final", 1, nothing))));
    assert.equal(codeOf(client.open(forged("s2c", { seq: 1n }))), "BAD_FRAME");
  });

  test("only one request at a time, with the next rid, is accepted", () => {
    const open = sessionWithRequest();
    assert.equal(codeOf(open.enclave.open(forged("c2s", { rid: 2, seq: 1n }))), "BAD_FRAME");
    for (const [rid, code] of [
      [1, "BAD_FRAME"],
      [3, "BAD_FRAME"],
    ] as const) {
      const { client, enclave } = sessionWithRequest();
      unwrap(client.open(unwrap(enclave.seal("final", 1, nothing))));
      assert.equal(codeOf(enclave.open(forged("c2s", { rid, seq: 1n }))), code);
    }
  });

  test("a cancel with data, and padding that is not zero, are refused", () => {
    const cancel = forged("c2s", { type: 4, seq: 1n });
    assert.equal(codeOf(sessionWithRequest().enclave.open(cancel)), "BAD_FRAME");
    const head = { type: 1, flags: 1, rid: 1, seq: 0n };
    for (const [at, byte] of [
      [100, 1],
      [255, 1],
      // The length prefix is larger than the data after it.
      [2, 1],
    ] as const) {
      const plaintext = new Uint8Array(256);
      plaintext[at] = byte;
      const frame = nobleSealRaw(keys.c2s, th, head, plaintext);
      assert.equal(codeOf(session.ends().enclave.open(frame)), "BAD_FRAME", `byte ${at}`);
    }
    const longer = nobleSealRaw(keys.c2s, th, head, new Uint8Array(2048));
    assert.equal(unwrap(session.ends().enclave.open(longer)).data.length, 0);
  });
});

describe("limits", () => {
  test("a frame contains at most 64 KiB", () => {
    const most = new Uint8Array(maxFrameDataBytes);
    const { client, enclave } = session.ends();
    const frame = unwrap(client.seal("request", 1, most));
    assert.equal(unwrap(enclave.open(frame)).data.length, maxFrameDataBytes);
    const more = new Uint8Array(maxFrameDataBytes + 1);
    assert.equal(codeOf(client.seal("request", 1, more)), "LIMIT_EXCEEDED");
    const beyond = forged("c2s", { seq: 1n }, more);
    assert.equal(codeOf(enclave.open(beyond)), "LIMIT_EXCEEDED");
    const huge = new Uint8Array(maxFrameBytes + 1);
    assert.equal(codeOf(readHeader(huge, "c2s")), "LIMIT_EXCEEDED");
    assert.equal(codeOf(readHeader(forged("c2s", {}).subarray(0, 35), "c2s")), "BAD_FRAME");
  });

  test("a request contains at most 8 MiB", () => {
    const { client, enclave } = session.ends();
    const pieces = requestPieces(new Uint8Array(8 * 1024 * 1024));
    for (const piece of pieces) unwrap(enclave.open(unwrap(client.seal("request", 1, piece))));
    assert.equal(codeOf(client.seal("request", 1, Uint8Array.of(0))), "LIMIT_EXCEEDED");
    const next = forged("c2s", { seq: BigInt(pieces.length) }, Uint8Array.of(0));
    assert.equal(codeOf(enclave.open(next)), "LIMIT_EXCEEDED");
  });

  test("a relay limits the size of a request too, except for its padding", () => {
    const watch = createFrameWatch(nodeSuite.newHash);
    let refused: object | undefined;
    let bytes = 0;
    for (let seq = 0; refused === undefined && seq < 200; seq++) {
      const header: FrameHeader = { type: "request", isEnd: false, rid: 1, seq };
      refused = watch.admit("c2s", header, maxFrameBytes);
      bytes += maxFrameBytes;
    }
    assert.equal(codeOf(refused), "LIMIT_EXCEEDED");
    assert.ok(bytes > 8 * 1024 * 1024 && bytes < 9 * 1024 * 1024);
  });

  test("a session has at most 256 requests", () => {
    const watch = createFrameWatch(nodeSuite.newHash);
    for (let rid = 1; rid <= maxRequests + 1; rid++) {
      const header: FrameHeader = { type: "request", isEnd: true, rid, seq: rid - 1 };
      const refused = watch.admit("c2s", header, 288);
      if (rid > maxRequests) assert.equal(codeOf(refused), "LIMIT_EXCEEDED");
      else assert.equal(refused, undefined);
      watch.admit("s2c", { type: "final", isEnd: true, rid, seq: rid - 1 }, 288);
    }
  });

  test("a direction has at most 2^20 frames and 2^32 bytes", () => {
    for (const [length, frames] of [
      [288, maxFrames],
      [65_536 + 32, 65_536],
    ] as const) {
      const watch = createFrameWatch(nodeSuite.newHash);
      watch.admit("c2s", { type: "request", isEnd: true, rid: 1, seq: 0 }, 288);
      let seq = 0;
      const next = (): object | undefined =>
        watch.admit("s2c", { type: "chunk", isEnd: false, rid: 1, seq: seq++ }, length);
      while (seq < frames) if (next() !== undefined) break;
      assert.equal(seq, frames);
      assert.equal(codeOf(next()), "LIMIT_EXCEEDED");
    }
  });
});

describe("the channel with WebCrypto", () => {
  test("processes overlapping calls in the order of the calls", async () => {
    const options = { keys, th, pad: 256 } as const;
    const client = await createWebChannel({ ...options, end: "client" });
    const enclave = await createWebChannel({ ...options, end: "enclave" });
    const large = new Uint8Array(60_000);
    const sealed = await Promise.all([
      client.seal("request", 1, large),
      client.seal("request", 1, body),
      client.seal("request", 1, body, true),
    ]);
    const opened = await Promise.all(sealed.map((frame) => enclave.open(unwrap(frame))));
    const lengths = opened.map((each) => unwrap(each).data.length);
    assert.deepEqual(lengths, [large.length, body.length, body.length]);
    const relay = createFrameWatch(nodeSuite.newHash);
    for (const frame of sealed) unwrap(relay.observe("c2s", unwrap(frame)));
    const account = relay.take(1);
    assert.deepEqual(client.watch.take(1), account);
    assert.deepEqual(enclave.watch.take(1), account);
  });

  test("refuses the same frames as the channel with node:crypto", async () => {
    const frame = unwrap(session.ends().client.seal("request", 1, body, true));
    const options = { keys, th, pad: 256, end: "enclave" } as const;
    for (let at = 0; at < frame.length; at++) {
      const enclave = await createWebChannel(options);
      const reason = await enclave.open(withFlippedBit(frame, at, at % 8));
      assert.ok(isFault(reason), `byte ${at}`);
      assert.equal(await enclave.open(frame), reason);
    }
    const enclave = await createWebChannel(options);
    assert.equal(codeOf(await enclave.seal("final", 1, nothing)), "BAD_FRAME");
  });
});
