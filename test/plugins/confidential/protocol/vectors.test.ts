import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import { createWebChannel } from "../../../../plugins/confidential/client/web-channel.ts";
import { createFrameWatch } from "../../../../plugins/confidential/protocol/frame-watch.ts";
import {
  digestName,
  handshakeMessage,
  readAnswer,
  sessionKeys,
  transcript,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { readHello } from "../../../../plugins/confidential/protocol/hello.ts";
import {
  readCore,
  readKeyset,
  writeCore,
  writeKeyset,
} from "../../../../plugins/confidential/protocol/keyset.ts";
import { canonicalBytes, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { verifyUsageReport } from "../../../../plugins/confidential/protocol/verify-usage-report.ts";
import { readReport, writeReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import {
  sessionReportData,
  writeStatement,
} from "../../../../plugins/confidential/protocol/report-data.ts";
import { joinBytes, toHex } from "../../../../plugins/confidential/verify/binary-text.ts";
import { unwrap } from "./session.ts";

const file = fileURLToPath(
  new URL("../../../../../shared/spec/vectors/cstream.json", import.meta.url),
);

const skipWithoutVectors: string | false =
  process.env["CI"] !== "true" && !existsSync(file) ? "needs ../shared" : false;

interface Vectors {
  readonly text: (name: string) => string;
  /** Returns the bytes of the text with that name, which is written in hex. */
  readonly bytes: (name: string) => Uint8Array<ArrayBuffer>;
  readonly utf8: (name: string) => Uint8Array<ArrayBuffer>;
}

function readVectors(): Vectors {
  const vectors = JSON.parse(readFileSync(file, "utf8")) as Record<string, string>;
  const text = (name: string): string => {
    const found = vectors[name];
    if (found === undefined) throw new Error(`no vector ${name}`);
    return found;
  };
  return {
    text,
    bytes: (name) => Uint8Array.from(Buffer.from(text(name), "hex")),
    utf8: (name) => Uint8Array.from(Buffer.from(text(name), "utf8")),
  };
}

const suites = { "node:crypto": nodeSuite, WebCrypto: webSuite };
const frameNames = ["chunk0", "chunk1", "final"] as const;
/** The padding of the vectors is 64, which `hello` cannot request. */
const vectorPad = 64 as 0;

describe("the vectors of the specification", { skip: skipWithoutVectors }, () => {
  const given = skipWithoutVectors === false ? readVectors() : undefined;
  const vectors = (): NonNullable<typeof given> => unwrap(given);

  for (const [by, suite] of Object.entries(suites)) {
    test(`${by}: transcript, signature and the whole key schedule`, async () => {
      const { bytes, utf8, text } = vectors();
      const th1 = await suite.sha256(transcript(utf8("hello"), utf8("core")));
      assert.equal(toHex(th1), text("th1"));
      const message = handshakeMessage(th1);
      assert.equal(await suite.verify(bytes("hs_pub"), message, bytes("hs_sig")), true);
      assert.equal(await suite.verify(bytes("ur_pub"), message, bytes("hs_sig")), false);
      const th = await suite.sha256(joinBytes(th1, bytes("hs_sig")));
      assert.equal(toHex(th), text("th2"));
      const keys = await sessionKeys(suite, th, bytes("ikm"));
      assert.equal(toHex(keys.c2s.key), text("c2s_key"));
      assert.equal(toHex(keys.c2s.iv), text("c2s_iv"));
      assert.equal(toHex(keys.s2c.key), text("s2c_key"));
      assert.equal(toHex(keys.s2c.iv), text("s2c_iv"));
      assert.equal(toHex(keys.exporter), text("exporter"));
    });

    test(`${by}: keyset, statement and report data`, async () => {
      const { bytes, utf8, text } = vectors();
      const digest = await digestName(suite, utf8("keyset"));
      assert.equal(digest, text("keyset_digest"));
      const hello = unwrap(readHello(utf8("hello")));
      assert.deepEqual(writeStatement(digest, hello.nonce, "worker"), utf8("statement"));
      const reportData = await sessionReportData(suite, digest, hello.nonce, "worker");
      assert.deepEqual(reportData, bytes("report_data"));
    });

    test(`${by}: the enclave's answer is read as given, and the report verifies`, async () => {
      const { bytes, utf8, text } = vectors();
      const notAfter = unwrap(readKeyset(utf8("keyset"))).notAfter;
      const now = notAfter - 60;
      const expected = { net: "confidential-alpha", role: "worker", now } as const;
      const answer = [utf8("hello"), utf8("core"), bytes("hs_sig"), expected] as const;
      const attested = unwrap(await readAnswer(suite, ...answer));
      assert.equal(toHex(attested.th), text("th2"));
      assert.equal(attested.keysetDigest, text("keyset_digest"));
      assert.equal(toHex(attested.core.epk), text("worker_epk"));

      const watch = createFrameWatch(suite.newHash);
      unwrap(watch.observe("c2s", bytes("req")));
      for (const frame of frameNames) unwrap(watch.observe("s2c", bytes(frame)));
      const signed = { report: utf8("report"), sig: bytes("report_sig") };
      const { checks } = await verifyUsageReport(suite, signed, {
        evidence: "accepted",
        keysetDigest: attested.keysetDigest,
        reportKey: attested.keyset.ur,
        notAfter,
        now,
        session: toBase64Url(attested.core.session),
        th: attested.th,
        exchange: watch.take(1),
        net: "confidential-alpha",
        model: "demo",
        maxOutputTokens: 64,
        claimCounter: () => true,
      });
      // The report of the vectors has a different time than their keyset.
      const failed = checks.filter(({ result }) => result === "fail").map((check) => check.name);
      assert.deepEqual(failed, ["fresh"]);
    });

    test(`${by}: frames open, seal again to the same bytes, and give the digests`, async () => {
      const { bytes, text } = vectors();
      const keys = await sessionKeys(suite, bytes("th2"), bytes("ikm"));
      const options = { keys, th: bytes("th2"), pad: vectorPad };
      const create = suite === nodeSuite ? createNodeChannel : createWebChannel;
      const client = await create({ ...options, end: "client" });
      const enclave = await create({ ...options, end: "enclave" });
      const asked = unwrap(await enclave.open(bytes("req")));
      assert.deepEqual(asked.header, { type: "request", isEnd: true, rid: 1, seq: 0 });
      assert.equal(typeof JSON.parse(new TextDecoder().decode(asked.data)), "object");
      assert.equal(toHex(unwrap(await client.seal("request", 1, asked.data, true))), text("req"));
      const types: string[] = [];
      for (const name of frameNames) {
        const { header, data } = unwrap(await client.open(bytes(name)));
        types.push(header.type);
        assert.equal(toHex(unwrap(await enclave.seal(header.type, 1, data))), text(name));
      }
      assert.deepEqual(types, ["chunk", "chunk", "final"]);
      for (const { watch } of [client, enclave]) {
        const exchange = unwrap(watch.take(1));
        assert.equal(exchange.reqDigest, text("req_digest"));
        assert.equal(exchange.resDigest, text("res_digest"));
        assert.equal(exchange.hasEnded, true);
      }
    });
  }

  test("keyset, core and report are written as given", () => {
    const { utf8 } = vectors();
    const keyset = unwrap(readKeyset(utf8("keyset")));
    assert.deepEqual(writeKeyset(keyset), utf8("keyset"));
    assert.deepEqual(writeCore(unwrap(readCore(utf8("core")))), utf8("core"));
    const report = unwrap(readReport(utf8("report")));
    assert.deepEqual(writeReport(report), utf8("report"));
    for (const name of ["keyset", "core", "report", "statement"]) {
      const value: unknown = JSON.parse(vectors().text(name));
      assert.deepEqual(canonicalBytes(value), utf8(name), name);
    }
  });
});
