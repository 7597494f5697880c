import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as der from "./der-writer.ts";
import {
  createPki,
  revocationList,
} from "../../../../plugins/confidential/evidence/simulated-pki.ts";
import { writeAsn1 } from "../../../../plugins/confidential/verify/asn1.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readCertificate } from "../../../../plugins/confidential/verify/certificate.ts";
import {
  readRevocationList,
  revocationListFault,
} from "../../../../plugins/confidential/verify/crl.ts";

const pki = createPki(new Uint8Array(32).fill(1));
const now = Date.UTC(2026, 10, 21);
const day = 24 * 3_600_000;
const algorithm = der.sequence(der.objectId("1.2.840.10045.4.3.2"));

interface Parts {
  readonly version?: Bytes;
  readonly inner?: Bytes;
  readonly times?: readonly Bytes[];
  /** The parts after the times: entries and extensions. */
  readonly rest?: readonly Bytes[];
}

function list(parts: Parts = {}): Bytes {
  const body = der.sequence(
    parts.version ?? der.smallInteger(1),
    parts.inner ?? algorithm,
    writeAsn1(pki.root.name),
    ...(parts.times ?? [der.utcTime(now - day), der.utcTime(now + day)]),
    ...(parts.rest ?? []),
  );
  const signature = pki.root.key.sign(body);
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)];
  const pair = der.sequence(der.integer(r), der.integer(s));
  return der.sequence(body, algorithm, der.bitString(pair));
}

function extensions(isCritical: boolean): Bytes {
  const flag = isCritical ? der.writeDer(1, Uint8Array.of(0xff)) : new Uint8Array(0);
  // 2.5.29.28: issuing distribution point, which limits a list to a part of the certificates.
  return der.sequence(
    der.sequence(der.objectId("2.5.29.28"), flag, der.octetString(der.sequence())),
  );
}

describe("a revocation list", () => {
  const root = readCertificate(pki.root.certificate);
  const fault = (bytes: Bytes, at: number = now): Promise<string | undefined> =>
    revocationListFault(readRevocationList(bytes), root, at);

  test("has serial numbers in the same form as certificates", async () => {
    const bytes = revocationList(pki.root, [pki.authority, pki.signer], now, now + day);
    const read = readRevocationList(bytes);
    const serials = [pki.authority, pki.signer].map(
      (holder) => readCertificate(holder.certificate)?.serial,
    );
    assert.deepEqual([...(read?.revoked ?? [])], serials);
    assert.equal(await fault(bytes), undefined);
  });

  test("is valid from its issue until its next update", async () => {
    assert.equal(await fault(list()), undefined);
    assert.equal(
      await fault(list(), now - 2 * day),
      "the revocation list was issued in the future",
    );
    assert.equal(await fault(list(), now + day), "the revocation list has expired");
    assert.equal(await fault(list(), now + day - 1), undefined);
  });

  test("has times in UTC with seconds, and two-digit years below 50 belong to this century", () => {
    const time = Date.UTC(2026, 10, 21, 3, 4, 5);
    const read = (tag: number, text: string): number | undefined => {
      const written = der.writeDer(tag, new TextEncoder().encode(text));
      return readRevocationList(list({ times: [written, der.utcTime(now + day)] }))?.thisUpdate;
    };
    assert.equal(read(0x17, "261121030405Z"), time);
    assert.equal(read(0x18, "20261121030405Z"), time);
    assert.equal(read(0x17, "991121030405Z"), Date.UTC(1999, 10, 21, 3, 4, 5));
    for (const text of ["2611210304Z", "261121030405+0100", "261321030405Z", "", "x".repeat(99)]) {
      assert.equal(read(0x17, text), undefined, text);
    }
    assert.equal(read(0x04, "20261121030405Z"), undefined);
  });

  test("is refused if its issuer has another name or key", async () => {
    const authority = readCertificate(pki.authority.certificate);
    const read = readRevocationList(list());
    assert.match((await revocationListFault(read, authority, now)) ?? "", /not issued by/);
    const other = createPki(new Uint8Array(32).fill(2));
    const namesake = readCertificate(other.root.certificate);
    assert.match((await revocationListFault(read, namesake, now)) ?? "", /not signed by/);
    assert.match((await revocationListFault(read, undefined, now)) ?? "", /its issuer is missing/);
  });

  test("with a critical extension, its own or an entry's, is refused", async () => {
    const wrapped = (isCritical: boolean): Bytes => der.writeDer(0xa0, extensions(isCritical));
    assert.equal(await fault(list({ rest: [wrapped(false)] })), undefined);
    assert.equal(readRevocationList(list({ rest: [wrapped(true)] })), undefined);
    const entry = (isCritical: boolean): Bytes =>
      der.sequence(der.sequence(der.smallInteger(7), der.utcTime(now), extensions(isCritical)));
    assert.equal(await fault(list({ rest: [entry(false)] })), undefined);
    assert.equal(readRevocationList(list({ rest: [entry(true)] })), undefined);
  });

  test("without a next update, of another version, or with other parts is refused", () => {
    const other = der.sequence(der.objectId("1.2.840.10045.4.3.3"));
    const bad: readonly Parts[] = [
      { times: [der.utcTime(now)] },
      { times: [] },
      { version: der.smallInteger(0) },
      { inner: other },
      { rest: [der.octetString(new Uint8Array(2))] },
      { rest: [der.sequence(der.octetString(new Uint8Array(2)))] },
      { rest: [der.sequence(der.sequence(der.smallInteger(1)))] },
    ];
    for (const parts of bad) {
      assert.equal(readRevocationList(list(parts)), undefined, JSON.stringify(Object.keys(parts)));
    }
  });
});
