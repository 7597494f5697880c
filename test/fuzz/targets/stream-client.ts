/**
 * The client of the encrypted stream with a gateway that may send anything: no session without a proof, no errors
 * except its own, and no answer that was changed on its way.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  connect,
  ConfidentialError,
  createClientMemory,
} from "../../../plugins/confidential/client/client.ts";
import { bytesOf, textOf, withFlippedBit } from "../../plugins/confidential/protocol/session.ts";
import { startFakeGateway, tokens } from "../../plugins/confidential/client/fake-gateway.ts";
import type {
  FakeGateway,
  Json,
  Outgoing,
} from "../../plugins/confidential/client/fake-gateway.ts";
import type { FuzzTarget, Random } from "../target.ts";

const messages = [{ role: "user", content: "a secret" }];

async function isRefused(connecting: Promise<unknown>): Promise<void> {
  await assert.rejects(connecting, (error) => {
    assert.ok(error instanceof ConfidentialError, String(error));
    return true;
  });
}

export const streamClient: FuzzTarget = {
  name: "stream-client",
  async run(random) {
    using stack = new DisposableStack();
    for (const part of [
      opensNothingElse,
      refusesAttestations,
      refusesEvidence,
      verifiesBills,
      verifiesDone,
    ]) {
      const gateway = await startFakeGateway({ after: (close) => stack.defer(close) });
      await part(random, gateway);
    }
  },
};

async function opensNothingElse(random: Random, gateway: FakeGateway): Promise<void> {
  const title = "nothing but an attestation opens a session";
  const anything = fc.oneof(
    fc.string(),
    fc.uint8Array({ maxLength: 4096 }).map((bytes) => Uint8Array.from(bytes)),
    fc.json(),
    fc
      .constantFrom("attestation", "error", "done", "report")
      .chain((type) =>
        fc
          .dictionary(fc.constantFrom("core", "sig", "evidence", "code", "rid"), fc.jsonValue())
          .map((members) => JSON.stringify({ ...members, type })),
      ),
  );
  await random.check(title, anything, 120, async (sent) => {
    gateway.script = { attestation: () => sent };
    await isRefused(connect({ ...gateway.options, memory: createClientMemory() }));
  });
  assert.equal(gateway.frames, 0);
}

async function refusesAttestations(random: Random, gateway: FakeGateway): Promise<void> {
  const title = "an attestation of which one member is something else opens none";
  const member = fc.constantFrom("type", "core", "sig", "evidence");
  await random.check(title, fc.tuple(member, fc.jsonValue()), 80, async ([name, value]) => {
    gateway.script = { attestation: (frame) => ({ ...frame, [name]: value }) };
    await isRefused(connect({ ...gateway.options, memory: createClientMemory() }));
  });
}

async function refusesEvidence(random: Random, gateway: FakeGateway): Promise<void> {
  const title = "evidence of which one member is something else opens none";
  const member = fc.constantFrom("tee_type", "quote", "collateral", "simulated");
  await random.check(title, fc.tuple(member, fc.jsonValue()), 80, async ([name, value]) => {
    fc.pre(JSON.stringify(value) !== "true");
    gateway.script = { evidence: (evidence) => ({ ...evidence, [name]: value }) };
    await isRefused(connect({ ...gateway.options, memory: createClientMemory() }));
  });
}

async function verifiesBills(random: Random, gateway: FakeGateway): Promise<void> {
  const title = "a bill is verified only with the answer and the tokens that the enclave signed";
  const change = fc.record({
    what: fc.constantFrom("turn", "drop", "double", "swap"),
    at: fc.nat(3),
    byte: fc.nat(5000),
    bit: fc.nat(7),
  });
  let verified = 0;
  await random.check(title, change, 150, async ({ what, at, byte, bit }) => {
    gateway.script = {
      outgoing(frames) {
        const list = [...frames];
        const [frame] = list.splice(at, 1);
        assert.ok(frame !== undefined);
        if (what === "turn") list.splice(at, 0, turned(frame, byte, bit));
        if (what === "double") list.splice(at, 0, frame, frame);
        if (what === "swap") list.splice((at + 1) % 4, 0, frame);
        return [...list, ""];
      },
    };
    const session = await connect(gateway.options);
    const answer = session.chat({ messages });
    let text = "";
    try {
      for await (const { content } of answer) text += content ?? "";
      const final = await answer.final;
      if (!final.verified) return;
      verified++;
      assert.equal(text, "Hello");
      assert.deepEqual(final.report?.tokens, tokens);
      assert.equal(final.usage.completion_tokens, tokens.completion);
    } catch (error) {
      assert.ok(error instanceof ConfidentialError, String(error));
    } finally {
      await session.close();
    }
  });
  // Unsigned parts may differ: the price, and a frame after the end.
  assert.ok(verified < 75);
}

function turned(frame: Outgoing, byte: number, bit: number): Outgoing {
  if (typeof frame !== "string") return withFlippedBit(frame, byte % frame.length, bit);
  const bytes = bytesOf(frame);
  return textOf(withFlippedBit(bytes, byte % bytes.length, bit));
}

async function verifiesDone(random: Random, gateway: FakeGateway): Promise<void> {
  const title = "a done frame of which one member is something else is not verified";
  const member = fc.constantFrom("type", "rid", "usage", "report", "sig");
  await random.check(title, fc.tuple(member, fc.jsonValue()), 80, async ([name, value]) => {
    fc.pre(JSON.stringify(value) !== "1");
    gateway.script = { done: (frame: Json) => ({ ...frame, [name]: value }) };
    const session = await connect(gateway.options);
    const outcome = await session.chat({ messages }).final.catch((error: unknown) => error);
    await session.close();
    if (outcome instanceof ConfidentialError) return;
    assert.equal((outcome as { verified: unknown }).verified, false);
  });
}
