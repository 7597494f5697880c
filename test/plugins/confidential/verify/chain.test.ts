import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as der from "../../../../plugins/confidential/evidence/der-writer.ts";
import { deriveKey } from "../../../../plugins/confidential/evidence/simulated-keys.ts";
import type { SigningKey } from "../../../../plugins/confidential/evidence/simulated-keys.ts";
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
  /** Bits of the key usage; none unless given. */
  readonly usage?: number;
  /** Identifier of a critical extension that nobody knows. */
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

/** The fault of leaf, middle and root with the changes given; the root is the trusted one unless said otherwise. */
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
  test("holds from leaf to a pinned root, within the validity of all", async () => {
    assert.equal(await fault(), "none");
    assert.equal(await fault({ middle: { usage: 0x06 } }), "none");
    assert.match(await fault({}, now - 2 * day), /not valid yet/);
    assert.match(await fault({}, now + 2 * day), /has expired/);
  });

  test("under a root that is not pinned is not trusted", async () => {
    const chain = [read(good.leaf), read(good.middle), read(good.root)];
    assert.match((await chainFault(chain, 3, new Set(), now)) ?? "", /not a trusted root/);
  });

  test("must have its length", async () => {
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

  test("breaks where a name does not follow, though the key signed", async () => {
    assert.match(await fault({ leaf: { issuer: "root" } }), /"leaf" was not issued by "middle"/);
    assert.match(await fault({ middle: { issuer: "other" } }), /"middle" was not issued by/);
  });

  test("breaks where another key signed, though the names follow", async () => {
    assert.match(await fault({ leaf: { by: keys.root } }), /"leaf" is not signed by "middle"/);
    assert.match(await fault({ middle: { by: keys.leaf } }), /"middle" is not signed by "root"/);
    assert.match(await fault({ root: { by: keys.leaf } }), /"root" is not signed by "root"/);
  });

  test("breaks at an issuer that is no authority, by its constraints or its key usage", async () => {
    assert.match(await fault({ middle: { isAuthority: false } }), /not a certificate authority/);
    assert.match(await fault({ middle: { usage: 0x80 } }), /not a certificate authority/);
  });

  test("does not end in an authority", async () => {
    assert.equal(
      await fault({ leaf: { isAuthority: true } }),
      "the leaf certificate is a certificate authority",
    );
  });
});

describe("a certificate", () => {
  test("with a critical extension that is not known is refused", () => {
    assert.equal(readCertificate(write({ ...good.leaf, critical: "2.5.29.30" })), undefined);
  });

  test("whose inner and outer algorithm differ is refused", () => {
    assert.equal(readCertificate(write({ ...good.leaf, inner: ecdsaSha384 })), undefined);
  });

  test("cannot bring control characters or a long text into a report", () => {
    const subject = `\u001b[2J\n${"é".repeat(500)}`;
    const { commonName } = read({ ...good.leaf, subject });
    assert.match(commonName, /^\?\[2J\?[?]+$/);
    assert.ok(commonName.length <= 64);
  });

  test("in PEM has nothing around it but a closing NUL", () => {
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
