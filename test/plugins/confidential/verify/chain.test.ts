import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as der from "./der-writer.ts";
import { deriveKey } from "../../../../plugins/confidential/evidence/simulated-pki.ts";
import type { SigningKey } from "../../../../plugins/confidential/evidence/simulated-pki.ts";
import {
  joinBytes,
  sha256Hex,
  toBase64,
} from "../../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readCertificate, readPem } from "../../../../plugins/confidential/verify/certificate.ts";
import type { Certificate } from "../../../../plugins/confidential/verify/certificate.ts";
import { chainFault } from "../../../../plugins/confidential/verify/chain.ts";

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
  const signature = options.by.sign(body);
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)];
  const pair = der.sequence(der.integer(r), der.integer(s));
  return der.sequence(body, ecdsaSha256, der.bitString(pair));
}

const good = {
  leaf: { subject: "leaf", issuer: "middle", key: keys.leaf, by: keys.middle, isAuthority: false },
  middle: { subject: "middle", issuer: "root", key: keys.middle, by: keys.root, isAuthority: true },
  root: { subject: "root", issuer: "root", key: keys.root, by: keys.root, isAuthority: true },
} as const satisfies Record<string, Options>;

function read(options: Options): Certificate {
  const certificate = readCertificate(write(options));
  assert.ok(certificate);
  return certificate;
}

/** Returns the fault of a chain of leaf, middle and root with these changes. The root is trusted by default. */
async function fault(
  changes: Partial<Record<keyof typeof good, Partial<Options>>> = {},
  at: number = now,
): Promise<string> {
  const roles = ["leaf", "middle", "root"] as const;
  const chain = roles.map((role) => read({ ...good[role], ...changes[role] }));
  const root = chain[2];
  assert.ok(root);
  return (await chainFault(chain, 3, new Set([await sha256Hex(root.raw)]), at)) ?? "none";
}

describe("a chain", () => {
  test("is valid from the leaf to a pinned root, while all certificates are valid", async () => {
    assert.equal(await fault(), "none");
    assert.equal(await fault({ middle: { usage: 0x06 } }), "none");
    assert.match(await fault({}, now - 2 * day), /not valid yet/);
    assert.match(await fault({}, now + 2 * day), /has expired/);
  });

  test("is not trusted under a root that is not pinned", async () => {
    const chain = [read(good.leaf), read(good.middle), read(good.root)];
    assert.match((await chainFault(chain, 3, new Set(), now)) ?? "", /not a trusted root/);
  });

  test("must have the exact length", async () => {
    const [leaf, middle, root] = [read(good.leaf), read(good.middle), read(good.root)];
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
    assert.match(await fault({ leaf: { issuer: "root" } }), /"leaf" was not issued by "middle"/);
    assert.match(await fault({ middle: { issuer: "other" } }), /"middle" was not issued by/);
  });

  test("is invalid if another key signed, although the names match", async () => {
    assert.match(await fault({ leaf: { by: keys.root } }), /"leaf" is not signed by "middle"/);
    assert.match(await fault({ middle: { by: keys.leaf } }), /"middle" is not signed by "root"/);
    assert.match(await fault({ root: { by: keys.leaf } }), /"root" is not signed by "root"/);
  });

  test("is invalid if an issuer is not an authority by its constraints or its key usage", async () => {
    assert.match(await fault({ middle: { isAuthority: false } }), /not a certificate authority/);
    assert.match(await fault({ middle: { usage: 0x80 } }), /not a certificate authority/);
  });

  test("is invalid if the leaf is an authority", async () => {
    assert.equal(
      await fault({ leaf: { isAuthority: true } }),
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
    const { commonName } = read({ ...good.leaf, subject });
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
