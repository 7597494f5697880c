import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { EventStream } from "../../../../plugins/inference/networks/event-stream.ts";
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

for (const [name, text, events] of [
  ["one event", "data: a\n\n", ["a"]],
  ["several events", "data: a\n\ndata: b\n\ndata: c\n\n", ["a", "b", "c"]],
  ["lines that end with CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]],
  ["both endings", "data: a\r\n\ndata: b\n\r\n", ["a", "b"]],
  ["no space after the colon", "data:a\n\n", ["a"]],
  ["two spaces after the colon", "data:  a\n\n", [" a"]],
  ["data without a colon", "data\n\n", [""]],
  ["data without a value", "data:\n\n", [""]],
  ["data that is one space", "data: \n\n", [""]],
  ["several lines", "data: a\ndata: b\ndata:c\n\n", ["a\nb\nc"]],
  ["empty lines of data", "data\ndata\n\n", ["\n"]],
  ["comments", ": ping\n\ndata: a\n: more\n\n:\n\n", ["a"]],
  ["other fields", "event: x\nid: 1\nretry: 5\ndata: a\nid\n\n", ["a"]],
  ["fields that begin like data", "database: x\ndat: y\ndata x\nDATA: z\n data: q\n\n", []],
  ["empty lines", "\n\n\r\n\ndata: a\n\n\n\n", ["a"]],
  ["an event that is not complete", "data: a\n\ndata: b\n", ["a"]],
  ["a line that is not complete", "data: a\n\ndata: b", ["a"]],
  ["a colon in the value", 'data: {"a": 1}\n\n', ['{"a": 1}']],
] as const) {
  test(`${name}: whole, byte by byte, and split at every byte`, () => {
    assert.deepEqual(cut([text]).events, events);
    assert.deepEqual(cut(bytesOf(text)).events, events);
    for (let at = 1; at < text.length; at++) {
      assert.deepEqual(cut([text.slice(0, at), text.slice(at)]).events, events, `at ${at}`);
    }
  });
}

const lines = fc.constantFrom("data: x", "data:", "data", ": c", "id: 1", "", "", "data: {}", "y");

test("any stream in any pieces gives the same events as the whole stream", () => {
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
      assert.deepEqual(cut([...pieces, rest], 100_000).events, judged);
    }),
  );
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
  const before = process.memoryUsage();
  for (let at = 0; at < piece.length; at++) assert.ok(stream.write(piece, at, at + 1));
  const after = process.memoryUsage();
  const held = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  assert.ok(held < 16 << 20, `${held} bytes are held`);
});
