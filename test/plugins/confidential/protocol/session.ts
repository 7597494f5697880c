/** A session between our client and our enclave, for tests of its frames. */
import assert from "node:assert/strict";
import type { Channel } from "../../../../plugins/confidential/protocol/channel.ts";
import { isFault } from "../../../../plugins/confidential/protocol/fault.ts";
import type { Fault, StreamCode } from "../../../../plugins/confidential/protocol/fault.ts";
import {
  answerHello,
  clientKeys,
  readAnswer,
  type HandshakeAnswer,
  type Attested,
} from "../../../../plugins/confidential/protocol/handshake.ts";
import { readHello, writeHello } from "../../../../plugins/confidential/protocol/hello.ts";
import type { Hello } from "../../../../plugins/confidential/protocol/hello.ts";
import { writeKeyset, type Keyset } from "../../../../plugins/confidential/protocol/keyset.ts";
import { createNodeChannel } from "../../../../plugins/confidential/protocol/node-channel.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import type { Ephemeral } from "../../../../plugins/confidential/protocol/suite.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";

/** Seconds since 1970. */
export const now = 1_790_000_000;
export const expected = { net: "confidential-alpha", role: "worker", now } as const;
export const handshakeSigner = createSigner();
export const reportSigner = createSigner();

export function unwrap<Value extends object>(value: Value | Fault | undefined): Value {
  assert.ok(value !== undefined && !isFault(value), JSON.stringify(value));
  return value;
}

export function codeOf(value: object | undefined): StreamCode {
  assert.ok(isFault(value), `no fault: ${JSON.stringify(value)}`);
  return value.code;
}

export function helloWith(members: Partial<Hello> = {}): Bytes {
  return writeHello({
    network: "confidential-alpha",
    model: "demo",
    maxOutputTokens: 64,
    maxCoefficient: undefined,
    termination: "worker",
    epk: new Uint8Array(32).fill(9),
    nonce: Uint8Array.from({ length: 32 }, (_, at) => at),
    pad: 256,
    evidence: "full",
    known: [],
    freshness: "cached",
    idempotencyKey: undefined,
    ...members,
  });
}

/** `hello` as JSON with members changed; undefined leaves one out. */
export function helloJson(members: Readonly<Record<string, unknown>>): Bytes {
  const whole = JSON.parse(new TextDecoder().decode(helloWith())) as Record<string, unknown>;
  return new TextEncoder().encode(JSON.stringify({ ...whole, ...members }));
}

export function keysetWith(members: Partial<Keyset> = {}): Bytes {
  return unwrap(
    writeKeyset({
      hs: handshakeSigner.publicKey,
      ur: reportSigner.publicKey,
      net: "confidential-alpha",
      role: "worker",
      notAfter: now + 3000,
      ...members,
    }),
  );
}

export interface TestHandshake {
  readonly ephemeral: Ephemeral;
  readonly hello: Bytes;
  readonly answer: HandshakeAnswer;
}

export async function shake(
  members: Partial<Hello> = {},
  keyset: Bytes = keysetWith(),
): Promise<TestHandshake> {
  const ephemeral = await nodeSuite.createEphemeral();
  const hello = helloWith({ epk: ephemeral.publicKey, ...members });
  const session = new Uint8Array(16).fill(7);
  const enclave = { keyset, signer: handshakeSigner, session };
  const answer = unwrap(await answerHello(nodeSuite, hello, unwrap(readHello(hello)), enclave));
  return { ephemeral, hello, answer };
}

export interface TestSession {
  readonly attested: Attested;
  readonly answer: HandshakeAnswer;
  ends(): { readonly client: Channel; readonly enclave: Channel };
}

export async function openSession(members: Partial<Hello> = {}): Promise<TestSession> {
  const { ephemeral, hello, answer } = await shake(members);
  const attested = unwrap(await readAnswer(nodeSuite, hello, answer.core, answer.sig, expected));
  const keys = unwrap(await clientKeys(nodeSuite, ephemeral, attested));
  assert.deepEqual(keys, answer.keys);
  const { pad } = unwrap(readHello(hello));
  const options = { keys, th: attested.th, pad };
  return {
    attested,
    answer,
    ends: () => ({
      client: createNodeChannel({ ...options, end: "client" }),
      enclave: createNodeChannel({ ...options, end: "enclave" }),
    }),
  };
}

export const bytesOf = (text: string): Bytes => new TextEncoder().encode(text);
export const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

export function withFlippedBit(bytes: Uint8Array, at: number, bit = 0): Bytes {
  const copy = Uint8Array.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ (1 << bit);
  return copy;
}
