/** Tests of the parser of event streams. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { EventStream } from "../../../../plugins/inference/networks/event-stream.ts";
import { collectedMemory } from "../../../memory.ts";
import { bytesOf, dataOf } from "./chat-events.ts";

interface Cut {
  readonly events: readonly string[];
  /** False if the reader gave up on the stream. */
  readonly usable: boolean;
}

/** Splits a stream into these pieces, each in the middle of a buffer that is overwritten afterwards. */
function cut(pieces: readonly (string | Buffer)[], maxBytes = 1_000): Cut {
  const events: string[] = [];
  const stream = new EventStream(
    { event: (bytes, start, end) => void events.push(bytes.toString("utf8", start, end)) },
    maxBytes,
  );
  // One buffer for all pieces, as with a connection.
  const shared = Buffer.alloc(8_192);
  for (const piece of pieces) {
    const size = shared.write(piece.toString("latin1"), 3, "latin1");
    shared.write("\n\ndata: beyond\n\n", 3 + size);
    const usable = stream.write(shared, 3, 3 + size);
    shared.fill("\n");
    if (!usable) return { events, usable };
  }
  return { events, usable: true };
}

// Data, comments, other fields, and some that begin like data.
const lines = fc.constantFrom(
  ...`data: x|data:y|data:  z|data: {"a": 1}|data:|data: |data||||: c|:|id: 1|event: x|retry: 5|y`.split(
    "|",
  ),
  ...`database: x|dat: y|data x|DATA: z| data: q`.split("|"),
);

test("any stream in any pieces, whole and byte by byte, gives the events of the format", () => {
  const streams = fc.array(fc.tuple(lines, fc.constantFrom("\n", "\r\n")));
  fc.assert(
    fc.property(streams, fc.array(fc.integer({ min: 1, max: 9 })), (parts, sizes) => {
      const text = `${parts.map(([line, newline]) => line + newline).join("")}\n`;
      const pieces: string[] = [];
      let rest = text;
      for (const size of sizes) {
        pieces.push(rest.slice(0, size));
        rest = rest.slice(size);
      }
      // `data` without a colon is also a line of data, which the reference does not know.
      const judged = dataOf(text.replaceAll(/^data(\r?)$/gm, "data:$1"));
      for (const cuts of [[...pieces, rest], [text], bytesOf(text)]) {
        assert.deepEqual(cut(cuts, 100_000).events, judged);
      }
    }),
    { numRuns: 500 },
  );
  assert.deepEqual(cut(["data: a\n\ndata: b\n"]).events, ["a"]);
});

test("characters of several bytes may be split", () => {
  const text = Buffer.from("data: ⌘ 漢字 🎈\n\n");
  assert.deepEqual(cut(bytesOf(text)).events, ["⌘ 漢字 🎈"]);
});

test("the reader gives up on an event that is too long, wherever it is split", () => {
  const long = `data: ${"x".repeat(200)}`;
  assert.equal(cut([long], 100).usable, false);
  assert.equal(cut(bytesOf(long), 100).usable, false);
  assert.equal(cut([`${long}\n`, "data: y\n"], 100).usable, false);
  assert.equal(
    cut(
      Array.from({ length: 60 }, () => "data: x\n"),
      100,
    ).usable,
    false,
  );
});

test("lines of data without any data are counted too", () => {
  assert.equal(
    cut(
      Array.from({ length: 200 }, () => "data\n"),
      100,
    ).usable,
    false,
  );
});

test("an event of exactly the maximum size is reported", () => {
  const text = "x".repeat(100 - "data: ".length);
  assert.deepEqual(cut([`data: ${text}`, "\n\n"], 100), { events: [text], usable: true });
});

test("skipped fields take no memory", () => {
  const pings = Array.from({ length: 100 }, () => [": pi", "ng\n", "id: ", "1\n"]).flat();
  assert.deepEqual(cut([...pings, "data: a\n\n"], 100), { events: ["a"], usable: true });
});

test("reported events release their memory", () => {
  const many = Array.from({ length: 50 }, () => ["data: 0123456789\n", "\n"]).flat();
  assert.deepEqual(cut(many, 100).events.length, 50);
});

test("an event may have 1,024 lines; the stream is given up at the next one, before more is held", () => {
  const full = "data:\n".repeat(1024);
  assert.deepEqual(cut([`${full}\n`], 100_000), { events: ["\n".repeat(1023)], usable: true });
  assert.deepEqual(cut([full.slice(0, 3000), full.slice(3000), "data:\n"], 100_000), {
    events: [],
    usable: false,
  });
});

test("an event that arrives byte by byte holds about as much memory as it has bytes", () => {
  const stream = new EventStream({ event() {} }, 1 << 20);
  const piece = Buffer.from("data:".padEnd(600_000, "x"));
  const memory = collectedMemory();
  const before = memory();
  for (let at = 0; at < piece.length; at++) assert.ok(stream.write(piece, at, at + 1));
  const held = memory() - before;
  assert.ok(held < 16 << 20, `${held} bytes are held`);
});
