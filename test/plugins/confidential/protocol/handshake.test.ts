import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import {
  answerHello,
  clientKeys,
  readAnswer,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { readHello } from "../../../../plugins/confidential/protocol/hello.ts";
import {
  readCore,
  readKeyset,
  writeCore,
} from "../../../../plugins/confidential/protocol/keyset.ts";
import { fromBase64Url, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  evidenceDigest,
  isReserved,
  sessionReportData,
} from "../../../../plugins/confidential/protocol/report-data.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import {
  bytesOf,
  codeOf,
  expected,
  handshakeSigner,
  helloJson,
  helloWith,
  keysetWith,
  shake,
  unwrap,
  textOf,
} from "./session.ts";

const suites = { "node:crypto": nodeSuite, WebCrypto: webSuite };

/** RFC 7748, 6.1 and Bernstein's list: points of low order, and values that reduce to them. */
const lowOrder = [
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
  "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "0000000000000000000000000000000000000000000000000000000000000080",
  "0100000000000000000000000000000000000000000000000000000000000080",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
].map((hex): Bytes => Uint8Array.from(Buffer.from(hex, "hex")));

describe("hello", () => {
  test("a complete hello with unknown members is read", () => {
    const known = [`sha256:${"a".repeat(64)}`];
    const changes = { max_coefficient: 1500, evidence: "known", known, freshness: "quote" };
    const hello = unwrap(readHello(helloJson({ ...changes, idempotency_key: "k", later: [1] })));
    assert.equal(hello.network, "confidential-alpha");
    assert.equal(hello.maxOutputTokens, 64);
    assert.equal(hello.maxCoefficient, 1500);
    assert.equal(hello.epk.length, 32);
    assert.deepEqual(hello.known, known);
    assert.equal(hello.freshness, "quote");
    assert.equal(hello.idempotencyKey, "k");
    assert.deepEqual(unwrap(readHello(helloWith(hello))), hello);
  });

  test("pad, evidence and freshness may be missing", () => {
    const members = { pad: undefined, evidence: undefined, freshness: undefined };
    const { pad, evidence, freshness } = unwrap(readHello(helloJson(members)));
    assert.deepEqual([pad, evidence, freshness], [256, "full", "cached"]);
  });

  test("a different version or suite is not supported, whatever the other members are", () => {
    for (const members of [{ v: 2 }, { v: "1" }, { suite: "xwing-hkdf-sha256-aes256gcm" }]) {
      assert.equal(codeOf(readHello(helloJson(members))), "SUITE_UNSUPPORTED");
      assert.equal(codeOf(readHello(helloJson({ ...members, epk: 1 }))), "SUITE_UNSUPPORTED");
    }
    assert.equal(codeOf(readHello(helloJson({ suite: undefined }))), "SUITE_UNSUPPORTED");
  });

  const text = (length: number): string => "x".repeat(length);
  const bad: readonly Readonly<Record<string, unknown>>[] = [
    { type: "helo" },
    { network: "" },
    { network: text(257) },
    { model: "\ud800" },
    { max_output_tokens: 0 },
    { max_output_tokens: 1.5 },
    { max_output_tokens: "64" },
    { max_output_tokens: 2 ** 53 },
    { max_coefficient: -1 },
    { max_coefficient: null },
    { termination: "relay" },
    { epk: toBase64Url(new Uint8Array(31)) },
    { epk: `${"A".repeat(42)}B` },
    { epk: `${"A".repeat(43)}=` },
    { nonce: toBase64Url(new Uint8Array(16)) },
    { nonce: "+".repeat(43) },
    { pad: 64 },
    { evidence: "none" },
    { freshness: "now" },
    { known: ["sha256:00"] },
    { known: Array.from({ length: 65 }, () => `sha256:${"0".repeat(64)}`) },
    { idempotency_key: 5 },
    { padding: text(17_000) },
  ];
  test("each wrong member is refused", () => {
    for (const members of bad)
      assert.equal(codeOf(readHello(helloJson(members))), "BAD_FRAME", JSON.stringify(members));
  });

  test("duplicate members, a byte order mark, other text and empty text are refused", () => {
    const whole = textOf(helloWith());
    for (const wrong of [
      whole.replace("{", '{"model":"other",'),
      whole.replace("{", '{"mod\\u0065l":"other",'),
      `\u{feff}${whole}`,
      `${whole}{}`,
      `[${whole}]`,
      "null",
      "",
    ]) {
      assert.equal(codeOf(readHello(bytesOf(wrong))), "BAD_FRAME", wrong.slice(0, 40));
    }
    const cut = Uint8Array.of(...bytesOf(whole.slice(0, -2)), 0xc3, 0x22, 0x7d);
    assert.equal(codeOf(readHello(cut)), "BAD_FRAME");
  });
});

for (const [by, suite] of Object.entries(suites)) {
  describe(`the handshake by ${by}`, () => {
    test("a key of low order is refused by both ends", async () => {
      for (const epk of lowOrder) {
        const hello = helloWith({ epk });
        const enclave = {
          keyset: keysetWith(),
          signer: handshakeSigner,
          session: new Uint8Array(16),
        };
        const answer = await answerHello(suite, hello, unwrap(readHello(hello)), enclave);
        assert.equal(codeOf(answer), "BAD_FRAME");
        const ephemeral = await suite.createEphemeral();
        const { hello: mine, answer: theirs } = await shake();
        const attested = unwrap(await readAnswer(suite, mine, theirs.core, theirs.sig, expected));
        const weak = { ...attested, core: { ...attested.core, epk } };
        assert.equal(codeOf(await clientKeys(suite, ephemeral, weak)), "BAD_FRAME");
      }
    });
  });
}

describe("the handshake", () => {
  test("a repeated hello gets different keys, so that old frames are useless", async () => {
    const { hello, answer } = await shake();
    const session = new Uint8Array(16).fill(7);
    const enclave = { keyset: keysetWith(), signer: handshakeSigner, session };
    const again = unwrap(await answerHello(nodeSuite, hello, unwrap(readHello(hello)), enclave));
    assert.notDeepEqual(again.keys, answer.keys);
    const options = { pad: 256 } as const;
    const client = createNodeChannel({ ...options, ...answer, end: "client" });
    const frame = unwrap(client.seal("request", 1, bytesOf("{}"), true));
    unwrap(createNodeChannel({ ...options, ...answer, end: "enclave" }).open(frame));
    const replayed = createNodeChannel({ ...options, ...again, end: "enclave" }).open(frame);
    assert.equal(codeOf(replayed), "BAD_FRAME");
  });

  test("a shared secret of zeros is refused, even if the library accepts it", async () => {
    const zeros = { publicKey: new Uint8Array(32), agree: () => new Uint8Array(32) };
    const careless = { ...nodeSuite, createEphemeral: () => zeros };
    const hello = helloWith();
    const session = new Uint8Array(16);
    const enclave = { keyset: keysetWith(), signer: handshakeSigner, session };
    const answer = await answerHello(careless, hello, unwrap(readHello(hello)), enclave);
    assert.equal(codeOf(answer), "BAD_FRAME");
  });

  test("an incomplete core or keyset is refused with a message", () => {
    const keyset = keysetWith();
    const core = writeCore({ epk: new Uint8Array(32), keyset, session: new Uint8Array(16) });
    const change = (bytes: Bytes, members: object): Bytes =>
      bytesOf(JSON.stringify({ ...(JSON.parse(textOf(bytes)) as object), ...members }));
    for (const members of [
      { epk: "AA" },
      { session: undefined },
      { keyset: 5 },
      { keyset: "*" },
      { upstream: "sha256:1" },
    ]) {
      assert.equal(codeOf(readCore(change(core, members))), "BAD_FRAME");
    }
    assert.equal(codeOf(readCore(change(core, { v: 2 }))), "SUITE_UNSUPPORTED");
    const upstream = `sha256:${"1".repeat(64)}`;
    assert.equal(unwrap(readCore(change(core, { upstream, more: 1 }))).upstream, upstream);
    const { hs } = JSON.parse(textOf(keyset)) as { hs: string };
    for (const members of [
      { ur: hs },
      { hs: "AA" },
      { net: "" },
      { role: "both" },
      { not_after: "soon" },
      { not_after: -1 },
      { models: {} },
      { models: [{ id: 1, hash: "" }] },
      { v: 2 },
    ]) {
      assert.equal(codeOf(readKeyset(change(keyset, members))), "ATTESTATION_UNAVAILABLE");
    }
    const models = [{ id: "demo", hash: "sha256:00" }];
    assert.deepEqual(unwrap(readKeyset(change(keyset, { models, beacon: {} }))).models, models);
  });
});

describe("the report data that evidence binds", () => {
  test("role, nonce and keyset each change the report data, which is reserved", async () => {
    const digest = `sha256:${"1".repeat(64)}`;
    const nonce = new Uint8Array(32);
    const variants = await Promise.all([
      sessionReportData(nodeSuite, digest, nonce, "worker"),
      sessionReportData(nodeSuite, digest, nonce, "gateway"),
      sessionReportData(nodeSuite, digest, undefined, "worker"),
      sessionReportData(nodeSuite, `sha256:${"2".repeat(64)}`, nonce, "worker"),
    ]);
    const texts = variants.map((each) => Buffer.from(each).toString("latin1"));
    assert.equal(new Set(texts).size, 4);
    for (const each of variants) {
      assert.equal(each.length, 64);
      assert.equal(isReserved(each), true);
      assert.ok(each.subarray(40).every((byte) => byte === 0));
    }
  });

  test("a caller's own report data is reserved only with the whole prefix", () => {
    assert.equal(isReserved(bytesOf("CSTRM1RD")), true);
    assert.equal(isReserved(bytesOf("CSTRM1RD and more")), true);
    for (const text of ["CSTRM1R", "cstrm1rd", " CSTRM1RD", "", "CSTRM1RE"]) {
      assert.equal(isReserved(bytesOf(text)), false, text);
    }
  });

  test("evidence has the same digest for every order of its members", async () => {
    const one = await evidenceDigest(nodeSuite, { tee_type: "tdx", quote: "AA==", n: [1, null] });
    const other = await evidenceDigest(webSuite, { n: [1, null], quote: "AA==", tee_type: "tdx" });
    assert.match(one ?? "", /^sha256:[0-9a-f]{64}$/);
    assert.equal(one, other);
    assert.notEqual(one, await evidenceDigest(nodeSuite, { tee_type: "tdx", quote: "AA==" }));
    assert.equal(await evidenceDigest(nodeSuite, { quote: "\ud800" }), undefined);
  });
});

describe("base64url", () => {
  test("has one spelling for the same bytes", () => {
    assert.deepEqual(fromBase64Url("_-8"), Uint8Array.of(0xff, 0xef));
    for (const text of ["_-9", "_-8=", "/+8", "_", "_-8\n", " _-8"]) {
      assert.equal(fromBase64Url(text), undefined, text);
    }
  });
});
