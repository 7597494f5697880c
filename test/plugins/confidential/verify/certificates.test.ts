/** DER, certificate chains and revocation lists, and the text form of bytes. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import * as der from "./der-writer.ts";
import {
  fromBase64,
  fromHex,
  toBase64,
  toHex,
  joinBytes,
  sha256Hex,
  type Bytes,
} from "../../../../plugins/confidential/verify/binary-text.ts";
import {
  EcdsaSignature,
  readAsn1,
  writeAsn1,
} from "../../../../plugins/confidential/verify/asn1.ts";
import {
  readRevocationList,
  revocationListFault,
} from "../../../../plugins/confidential/verify/crl.ts";
import {
  deriveKey,
  createPki,
  revocationList,
  type SigningKey,
} from "../../../../plugins/confidential/evidence/simulated-pki.ts";
import { readCertificate, readPem } from "../../../../plugins/confidential/verify/certificate.ts";
import type { Certificate } from "../../../../plugins/confidential/verify/certificate.ts";
import { chainFault } from "../../../../plugins/confidential/verify/chain.ts";

function hex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(text.replaceAll(" ", ""));
  assert.ok(bytes);
  return bytes;
}

describe("ASN.1", () => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(0xffff), (bytes, number) => {
        const pair = der.sequence(der.smallInteger(number), der.integer(bytes));
        const read = readAsn1(pair, EcdsaSignature);
        assert.equal(read?.r, BigInt(number));
        assert.equal(read.s, BigInt(`0x0${toHex(bytes)}`));
      }),
    );
  });

  test("with more than one value, a length not in its shortest form or a missing end is refused", () => {
    assert.ok(readAsn1(hex("3006 020101 020101"), EcdsaSignature));
    for (const text of [
      "",
      "30",
      "3006 020101 0201",
      "3006 020101 020101 00",
      "3080 020101 020101 0000",
      "308106 020101 020101",
      "30820006 020101 020101",
      "3007 020101 0202 0001",
      "3007 020101 028101 01",
      "3005 020101 0200",
      "3003 020101",
    ]) {
      assert.equal(readAsn1(hex(text), EcdsaSignature), undefined, text);
    }
  });

  test("with a thousand nested levels is refused without a deep stack", () => {
    let nested: Uint8Array<ArrayBuffer> = Uint8Array.of(5, 0);
    for (let depth = 0; depth < 1000; depth++) nested = der.sequence(nested);
    assert.equal(readRevocationList(nested), undefined);
  });
});

describe("the text form of bytes", () => {
  test("has one spelling in base64", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        assert.deepEqual(fromBase64(toBase64(bytes)), Uint8Array.from(bytes));
      }),
    );
    for (const text of ["AA", "AA=", "AB==", "AA==\n", " AAA", "A-_A", "====", "AA==AAAA"]) {
      assert.equal(fromBase64(text), undefined, text);
    }
  });

  test("consists of whole bytes in hex", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        assert.deepEqual(fromHex(toHex(bytes).toUpperCase()), Uint8Array.from(bytes));
      }),
    );
    for (const text of ["0", "0x", "zz", "00 00"]) assert.equal(fromHex(text), undefined, text);
  });
});

const now = Date.UTC(2026, 10, 21);
const day = 24 * 3_600_000;
const seed = new Uint8Array(32).fill(1);
const keys = {
  root: deriveKey(seed, "root"),
  middle: deriveKey(seed, "middle"),
  leaf: deriveKey(seed, "leaf"),
};
const ecdsaSha256 = der.sequence(der.objectId("1.2.840.10045.4.3.2"));
const ecdsaSha384 = der.sequence(der.objectId("1.2.840.10045.4.3.3"));
const p256 = der.sequence(der.objectId("1.2.840.10045.2.1"), der.objectId("1.2.840.10045.3.1.7"));

function signedBy(key: SigningKey, body: Bytes): Bytes {
  const signature = key.sign(body);
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)];
  const pair = der.sequence(der.integer(r), der.integer(s));
  return der.sequence(body, ecdsaSha256, der.bitString(pair));
}

interface Options {
  readonly subject: string;
  readonly issuer: string;
  readonly key: SigningKey;
  readonly by: SigningKey;
  readonly isAuthority: boolean;
  /** Bits of the key usage. Default: no key usage. */
  readonly usage?: number;
  /** Identifier of an unknown critical extension. */
  readonly critical?: string;
  readonly inner?: Bytes;
}

function name(text: string): Bytes {
  const value = der.writeDer(0x0c, new TextEncoder().encode(text));
  return der.sequence(der.writeDer(0x31, der.sequence(der.objectId("2.5.4.3"), value)));
}

function extension(id: string, isCritical: boolean, value: Bytes): Bytes {
  const flag = isCritical ? der.writeDer(1, Uint8Array.of(0xff)) : new Uint8Array(0);
  return der.sequence(der.objectId(id), flag, der.octetString(value));
}

function write(options: Options): Bytes {
  const { isAuthority, usage, critical } = options;
  const constraints = isAuthority ? [der.writeDer(1, Uint8Array.of(0xff))] : [];
  const extensions = [
    extension("2.5.29.19", true, der.sequence(...constraints)),
    ...(usage === undefined
      ? []
      : [extension("2.5.29.15", true, der.writeDer(3, Uint8Array.of(0, usage)))]),
    ...(critical === undefined ? [] : [extension(critical, true, der.sequence())]),
  ];
  const body = der.sequence(
    der.writeDer(0xa0, der.smallInteger(2)),
    der.smallInteger(7),
    options.inner ?? ecdsaSha256,
    name(options.issuer),
    der.sequence(der.utcTime(now - day), der.utcTime(now + day)),
    name(options.subject),
    der.sequence(p256, der.bitString(joinBytes(Uint8Array.of(4), options.key.point))),
    der.writeDer(0xa3, der.sequence(...extensions)),
  );
  return signedBy(options.by, body);
}

const good = {
  leaf: { subject: "leaf", issuer: "middle", key: keys.leaf, by: keys.middle, isAuthority: false },
  middle: { subject: "middle", issuer: "root", key: keys.middle, by: keys.root, isAuthority: true },
  root: { subject: "root", issuer: "root", key: keys.root, by: keys.root, isAuthority: true },
} as const satisfies Record<string, Options>;

function readGood(options: Options): Certificate {
  const certificate = readCertificate(write(options));
  assert.ok(certificate);
  return certificate;
}

/** Returns the fault of a chain of leaf, middle and root with these changes. The root is trusted by default. */
async function chainResult(
  changes: Partial<Record<keyof typeof good, Partial<Options>>> = {},
  at: number = now,
): Promise<string> {
  const roles = ["leaf", "middle", "root"] as const;
  const chain = roles.map((role) => readGood({ ...good[role], ...changes[role] }));
  const root = chain[2];
  assert.ok(root);
  return (await chainFault(chain, 3, new Set([await sha256Hex(root.raw)]), at)) ?? "none";
}

describe("a chain", () => {
  test("is valid from the leaf to a pinned root, while all certificates are valid", async () => {
    assert.equal(await chainResult(), "none");
    assert.equal(await chainResult({ middle: { usage: 0x06 } }), "none");
    assert.match(await chainResult({}, now - 2 * day), /not valid yet/);
    assert.match(await chainResult({}, now + 2 * day), /has expired/);
  });

  test("is not trusted under a root that is not pinned", async () => {
    const chain = [readGood(good.leaf), readGood(good.middle), readGood(good.root)];
    assert.match((await chainFault(chain, 3, new Set(), now)) ?? "", /not a trusted root/);
  });

  test("must have the exact length", async () => {
    const [leaf, middle, root] = [readGood(good.leaf), readGood(good.middle), readGood(good.root)];
    const anchors = new Set([await sha256Hex(root.raw)]);
    assert.match(
      (await chainFault([middle, root], 3, anchors, now)) ?? "",
      /expected a chain of 3 certificates, got 2/,
    );
    assert.match(
      (await chainFault([leaf, middle, root], 2, anchors, now)) ?? "",
      /expected a chain of 2 certificates, got 3/,
    );
    assert.match((await chainFault([], 0, anchors, now)) ?? "", /0 certificates/);
  });

  test("is invalid if an issuer name does not match, although the key signed", async () => {
    assert.match(
      await chainResult({ leaf: { issuer: "root" } }),
      /"leaf" was not issued by "middle"/,
    );
    assert.match(await chainResult({ middle: { issuer: "other" } }), /"middle" was not issued by/);
  });

  test("is invalid if another key signed, although the names match", async () => {
    assert.match(
      await chainResult({ leaf: { by: keys.root } }),
      /"leaf" is not signed by "middle"/,
    );
    assert.match(
      await chainResult({ middle: { by: keys.leaf } }),
      /"middle" is not signed by "root"/,
    );
    assert.match(await chainResult({ root: { by: keys.leaf } }), /"root" is not signed by "root"/);
  });

  test("is invalid if an issuer is not an authority by its constraints or its key usage", async () => {
    assert.match(
      await chainResult({ middle: { isAuthority: false } }),
      /not a certificate authority/,
    );
    assert.match(await chainResult({ middle: { usage: 0x80 } }), /not a certificate authority/);
  });

  test("is invalid if the leaf is an authority", async () => {
    assert.equal(
      await chainResult({ leaf: { isAuthority: true } }),
      "the leaf certificate is a certificate authority",
    );
  });
});

describe("a certificate", () => {
  test("with an unknown critical extension is refused", () => {
    assert.equal(readCertificate(write({ ...good.leaf, critical: "2.5.29.30" })), undefined);
  });

  test("whose inner and outer algorithm differ is refused", () => {
    assert.equal(readCertificate(write({ ...good.leaf, inner: ecdsaSha384 })), undefined);
  });

  test("cannot put control characters or a long text into a report", () => {
    const subject = `\u001b[2J\n${"é".repeat(500)}`;
    const { commonName } = readGood({ ...good.leaf, subject });
    assert.match(commonName, /^\?\[2J\?[?]+$/);
    assert.ok(commonName.length <= 64);
  });

  test("in PEM is refused with other text around it, except for a NUL at the end", () => {
    const body = toBase64(write(good.leaf));
    const pem = `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;
    assert.equal(readPem(pem)?.length, 1);
    assert.equal(readPem(`${pem}${pem}\0`)?.length, 2);
    assert.deepEqual(readPem(""), []);
    for (const text of [` ${pem}`, `${pem} `, `${pem}\0\0`, `${pem}x`, pem.replace("\n", "\r\n")]) {
      assert.equal(readPem(text), undefined, JSON.stringify(text.slice(0, 30)));
    }
  });
});

const pki = createPki(new Uint8Array(32).fill(1));

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
    parts.inner ?? ecdsaSha256,
    writeAsn1(pki.root.name),
    ...(parts.times ?? [der.utcTime(now - day), der.utcTime(now + day)]),
    ...(parts.rest ?? []),
  );
  return signedBy(pki.root.key, body);
}

/** 2.5.29.28: issuing distribution point, which limits a list to a part of the certificates. */
const extensions = (isCritical: boolean): Bytes =>
  der.sequence(extension("2.5.29.28", isCritical, der.sequence()));

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
    const bad: readonly Parts[] = [
      { times: [der.utcTime(now)] },
      { times: [] },
      { version: der.smallInteger(0) },
      { inner: ecdsaSha384 },
      { rest: [der.octetString(new Uint8Array(2))] },
      { rest: [der.sequence(der.octetString(new Uint8Array(2)))] },
      { rest: [der.sequence(der.sequence(der.smallInteger(1)))] },
    ];
    for (const parts of bad) {
      assert.equal(readRevocationList(list(parts)), undefined, JSON.stringify(Object.keys(parts)));
    }
  });
});
