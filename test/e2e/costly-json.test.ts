/**
 * Sends JSON that costs more than its size suggests to every surface that reads JSON, through a whole gateway with the
 * shipped pipeline.yaml (decisions.md section 13).
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { capabilities } from "sluice-gateway/services";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { ask as send } from "./ask.ts";
import { shipped as shippedPipeline } from "./shipped-gateway.ts";
import { limitOnThisMachine } from "./slowness.ts";

/**
 * A body within its size limit must not block the event loop for 200 ms. The tests measure CPU time, because on a busy
 * machine a clock also counts the time spent waiting, and allow more, because their client uses the same thread. The
 * bodies that were found blocked the loop for 7 to 15 seconds. For slow machines, see slowness.ts.
 */
const maxGapMs = 1_000;

const mebibyte = 1024 * 1024;

// The log lines would hide the results.
const shipped = shippedPipeline.replaceAll("access-log", "{ access-log: { file: access.log } }");
const validated = `
  - path: /validated
    methods: [POST]
    run: [{ use: ledger }, { validate: { body: { type: object } } }]
    to: { ledger-rpc: { upstream: ledger } }
`;

let gateway: TestGateway;

before(async () => {
  gateway = await startTestGateway({
    pipeline: shipped + validated,
    account: { capabilities: [...capabilities] },
  });
});

after(() => gateway[Symbol.asyncDispose]());

interface Surface {
  readonly name: string;
  readonly method: string;
  readonly path: () => string;
  readonly bytes: number;
}

const workspace = (action: string) => (): string =>
  `/tma/workspaces/${gateway.workspaceId}/${action}`;

const surfaces: readonly Surface[] = [
  surface("/v1/chat/completions", 10 * mebibyte),
  surface("/v1/ledger/rpc", 10 * mebibyte),
  surface("/rpc", mebibyte),
  surface("/mcp", mebibyte),
  surface("/validated", mebibyte),
  surface("/v1/admin/confidential/confidential-classic/models", mebibyte, "PUT"),
  { name: "purchase", method: "POST", path: workspace("cu/purchase"), bytes: mebibyte },
  surface("/v1/confidential/tickets", 4 * 1024),
];

function surface(path: string, bytes: number, method = "POST"): Surface {
  return { name: path, method, path: () => path, bytes };
}

interface Answer {
  readonly status: number;
  readonly body: { readonly error_code?: string; readonly details?: unknown };
  readonly gapMs: number;
}

/** Returns a function that stops watching and returns the longest CPU time in ms between two turns of timers. */
function watchLoop(): () => number {
  let last = process.threadCpuUsage();
  let maxMicros = 0;
  const look = (): void => {
    const now = process.threadCpuUsage();
    maxMicros = Math.max(maxMicros, now.user - last.user + (now.system - last.system));
    last = now;
  };
  const timer = setInterval(look, 5);
  return () => {
    look();
    clearInterval(timer);
    return maxMicros / 1000;
  };
}

async function ask({ method, path }: Surface, body: Uint8Array<ArrayBuffer>): Promise<Answer> {
  const watch = watchLoop();
  const answer = await send(gateway.url + path(), { method, key: gateway.key, body });
  const gapMs = watch();
  return { status: answer.status, body: answer.text === "" ? {} : answer.json, gapMs };
}

function assertShort(gapMs: number, about: string): void {
  const limitMs = limitOnThisMachine(gapMs, maxGapMs);
  assert.ok(gapMs < limitMs, `${about} held the event loop for ${gapMs} ms, above ${limitMs} ms`);
}

/** Repeats a piece between a start and an end, up to a number of bytes. */
function filled(bytes: number, start: string, piece: string, end: string): Buffer<ArrayBuffer> {
  const count = Math.floor((bytes - start.length - end.length - 8) / Buffer.byteLength(piece));
  return Buffer.from(start + piece.repeat(count) + end);
}

function numbered(
  bytes: number,
  piece: (at: number) => string,
  most = Infinity,
): Buffer<ArrayBuffer> {
  const pieces: string[] = [];
  let left = bytes - 64;
  for (let at = 0; at < most; at++) {
    const next = piece(at);
    left -= next.length + 1;
    if (left < 0) break;
    pieces.push(next);
  }
  return Buffer.from(`{"extra_body":{${pieces.join(",")}}}`);
}

const excessive: Readonly<Record<string, (bytes: number) => Buffer<ArrayBuffer>>> = {
  elements: (bytes) =>
    filled(bytes, '{"jsonrpc":"2.0","id":1,"method":"system_chain","params":[0', ",0", "]}"),
  members: (bytes) => numbered(bytes, (at) => `"${at}":1`),
  "members with backslash names": (bytes) => numbered(bytes, (at) => `"\\\\${at}":1`),
  "empty objects": (bytes) => filled(bytes, "[{}", ",{}", "]"),
};

const made = new Map<string, Buffer<ArrayBuffer>>();

/** Returns the body of this name and size, which several surfaces receive. */
function bodyOf(
  name: string,
  bytes: number,
  make: (bytes: number) => Buffer<ArrayBuffer>,
): Buffer<ArrayBuffer> {
  const id = `${name} ${bytes}`;
  const body = made.get(id) ?? make(bytes);
  made.set(id, body);
  return body;
}

/** Bodies within the limits that are as costly as their size allows. */
const costly: Readonly<Record<string, (bytes: number) => Buffer<ArrayBuffer>>> = {
  "one long text": (bytes) => filled(bytes, '{"x":"', "x", '"}'),
  "escaped quotes": (bytes) => filled(bytes, '{"x":"', '\\"', '"}'),
  "escaped letters": (bytes) => filled(bytes, '{"x":"', "\\u0061", '"}'),
  "one long backslash name": (bytes) => filled(bytes, '{"', "\\\\", '":1}'),
  "backslash names": (bytes) =>
    numbered(bytes, (at) => `"${at}${"\\\\".repeat(Math.max(1, bytes / 140_000))}":1`, 65_000),
};

describe("JSON that costs more than its bytes", () => {
  for (const one of surfaces) {
    // A small body cannot hold so many.
    const isSmall = one.bytes < mebibyte;
    test(
      `is refused by ${one.name} when it has too many members or elements`,
      { skip: isSmall },
      async () => {
        for (const [name, make] of Object.entries(excessive)) {
          const { status, body, gapMs } = await ask(one, bodyOf(name, one.bytes, make));
          assert.equal(status, 400, name);
          assert.equal(body.error_code, "GATEWAY_INVALID_PARAMS", name);
          assert.deepEqual(body.details, { reason: "too_many_members" }, name);
          assertShort(gapMs, name);
        }
      },
    );

    test(`is refused by ${one.name} when it is nested too deeply`, async () => {
      const levels = one.bytes / 2 - 100;
      const bodies = [
        "[".repeat(levels),
        `{"jsonrpc":"2.0","id":1,"method":"x","params":${"[".repeat(200)}${"]".repeat(200)}}`,
        `${'{"a":'.repeat(200)}1${"}".repeat(200)}`,
      ];
      for (const text of bodies) {
        const { status, body, gapMs } = await ask(one, Buffer.from(text));
        assert.equal(status, 400, text.slice(0, 40));
        assert.equal(body.error_code, "GATEWAY_INVALID_PARAMS");
        assert.deepEqual(body.details, { reason: "nested_too_deeply" });
        assertShort(gapMs, text.slice(0, 40));
      }
    });

    test(`does not block the event loop on ${one.name} when it is within the bounds`, async () => {
      for (const [name, make] of Object.entries(costly)) {
        const { status, gapMs } = await ask(one, bodyOf(name, one.bytes, make));
        assert.ok(status < 500, `${name}: ${status}`);
        assertShort(gapMs, name);
      }
    });
  }
});
