/** Gateways and enclaves that lie to `sluice connect`. Nothing of a prompt leaves, or the answer ends with an error. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { platform, pricing, type Script } from "../client/fake-gateway.ts";
import { policyFor, question, secret, simulated, startLocalGateway } from "./local-gateway.ts";
import type { LocalOptions } from "./local-gateway.ts";
import { describeVerification } from "../../../../plugins/confidential/commands/connect-output.ts";
import type { SealedNetworks } from "../../../../plugins/confidential/sealed-networks/sealed-networks.ts";
import { verificationOf } from "../../../../plugins/confidential/sealed-networks/verification.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { realTdx, skipWithoutShared as skip, tdxEvidence } from "../verify/real-quotes.ts";

const inTime = { timeout: 30_000 };

const before: readonly (readonly [name: string, options: LocalOptions, says: RegExp])[] = [
  [
    "another image",
    { evidence: { ...simulated, image_hashes: ["ab".repeat(32)] } },
    /image_hash: /,
  ],
  [
    "a price above the maximum",
    { env: { SLUICE_MAX_PRICE: "18.74" } },
    /price: the price of a token, 12\.5 nano × 1500\/1000, is above the maximum of 18\.74 nano/,
  ],
  [
    "no policy document",
    { env: { SLUICE_POLICY_KEY: "A".repeat(43) } },
    /policy: the policy document cannot be fetched/,
  ],
];

describe("before a request", () => {
  for (const [name, options, says] of before) {
    test(name, inTime, async (t) => {
      const local = await startLocalGateway(t, options);
      for (const body of [question, { ...question, stream: true }]) {
        const answer = await local.ask(body);
        assert.equal(answer.status, 502);
        const { error } = (await answer.json()) as { error: { code: string; message: string } };
        assert.equal(error.code, "VERIFICATION_FAILED");
        assert.match(error.message, says);
      }
      assert.equal(local.remote.frames, 0, "no encrypted frame was sent");
      assert.ok(!local.sent().includes(secret));
    });
  }

  test("an image that the policy document does not list, if simulated", inTime, async (t) => {
    const signer = createSigner();
    const env = { SLUICE_POLICY_KEY: toBase64Url(signer.publicKey) };
    const local = await startLocalGateway(t, { env });
    const now = local.remote.clock.now();
    local.remote.policy = await policyFor("ab".repeat(32), signer, now);
    const refused = await local.ask();
    assert.equal(refused.status, 502);
    assert.match(await refused.text(), /image_hash: /);
    assert.equal(local.remote.frames, 0);
    local.remote.policy = await policyFor(platform.imageHash, signer, now);
    assert.equal((await local.ask()).status, 200);
  });

  test("a gateway without encrypted models", inTime, async (t) => {
    const local = await startLocalGateway(t, { env: { SLUICE_NETWORK: "other" } });
    const answer = await local.ask();
    assert.equal(answer.status, 404);
    assert.match(await answer.text(), /MODEL_NOT_FOUND/);
    assert.equal(local.remote.upgrades.length, 0);
  });
});

const classes = { prompt: "12.5", cached: "1", completion: "12.5", reasoning: "12.5" };

const after: readonly (readonly [name: string, script: Script, says: RegExp])[] = [
  [
    "a wrong bill",
    { done: (frame) => ({ ...frame, usedCUMilli: 67 }) },
    /bill: 67 milli-CU were charged, but the counts and prices give 66/,
  ],
  [
    "a price that was not offered",
    { done: (frame) => ({ ...frame, pricing: { ...pricing, pricePerTokenNano: "13" } }) },
    /price: 12\.5 nano × 1500\/1000 was offered, and 13 nano × 1500\/1000 was billed/,
  ],
  [
    "prices of classes that were not offered",
    { done: (frame) => ({ ...frame, pricing: { ...pricing, classes } }) },
    /price: /,
  ],
  ["no price", { done: ({ pricing: _, ...frame }) => frame }, /price: the bill has no price/],
  ["a wrong signature", { done: (frame) => ({ ...frame, sig: "A".repeat(86) }) }, /signature/],
  [
    "a cut answer",
    { outgoing: (frames) => [...frames.slice(0, 1), ...frames.slice(-1)] },
    /answer: the frame done arrived before the end/,
  ],
  [
    "an answer that the enclave has cancelled",
    { final: { finish_reason: "cancel" } },
    /answer: it was cut before its end/,
  ],
];

describe("in an answer", () => {
  test("each lie ends the answer with an error, and the session", inTime, async (t) => {
    const local = await startLocalGateway(t);
    const { remote } = local;
    for (const [name, script, says] of after) {
      remote.script = script;
      const [prompts, hellos] = [remote.prompts.length, remote.hellos.length];
      const whole = await local.ask();
      assert.equal(whole.status, 502, name);
      const text = await whole.text();
      assert.match(text, says);
      assert.match(text, /"code":"VERIFICATION_FAILED"/);
      const streamed = await (await local.ask({ ...question, stream: true })).text();
      assert.match(streamed, says);
      assert.match(streamed, /"code":"VERIFICATION_FAILED"/);
      assert.doesNotMatch(streamed, /\[DONE\]/);
      const message = await local.ask({ ...question, max_tokens: 9, stream: true }, "/v1/messages");
      const events = await message.text();
      assert.match(events, says);
      assert.doesNotMatch(events, /message_stop/);
      const item = { model: "demo", input: secret, stream: true };
      const response = await (await local.ask(item, "/v1/responses")).text();
      assert.match(response, says);
      assert.doesNotMatch(response, /response\.completed/);
      assert.equal(remote.prompts.length, prompts + 4, "no request was repeated");
      // The process and the network remain usable.
      remote.script = {};
      assert.equal((await local.ask()).status, 200);
      assert.ok(remote.hellos.length >= hellos + 4, "a failure ended its session");
    }
    assert.ok(!local.sent().includes(secret));
  });

  test("refusals keep their meaning, and nothing is repeated", inTime, async (t) => {
    const local = await startLocalGateway(t);
    const { remote } = local;
    const assertRefused = async (answer: Response, status: number, code: string): Promise<void> => {
      const text = await answer.text();
      assert.equal(answer.status, status, text);
      // Chat has the code in the body, and other APIs have it in a header.
      const header = answer.headers.get("x-sluice-error");
      assert.equal(header ?? /"code":"(\w+)"/.exec(text)?.[1], code);
    };
    for (const [code, status] of [
      ["UNAUTHORIZED", 401],
      ["RATE_LIMITED", 429],
    ] as const) {
      const error = JSON.stringify({ type: "error", error: "no", code });
      const { length } = remote.prompts;
      remote.script = { outgoing: () => [error] };
      await assertRefused(await local.ask(), status, code);
      const message = { ...question, max_tokens: 9 };
      await assertRefused(await local.ask(message, "/v1/messages"), status, code);
      assert.equal(remote.prompts.length, length + 2);
      remote.script = { attestation: () => error };
      await assertRefused(await local.ask(), status, code);
      assert.equal(remote.prompts.length, length + 2, "this session was not opened");
    }
    for (const [status, seen, code] of [
      [402, 402, "INSUFFICIENT_BALANCE"],
      [403, 401, "UNAUTHORIZED"],
      [429, 429, "RATE_LIMITED"],
      [503, 503, "UPSTREAM_ERROR"],
    ] as const) {
      remote.script = {};
      assert.equal((await local.ask()).status, 200, "what was verified is still accepted");
      remote.script = { status, retryAfter: "17" };
      // The idle session has another bound, so that this request needs a connection.
      const answer = await local.ask({ ...question, max_tokens: 32_000 });
      assert.equal(answer.headers.get("retry-after"), seen === 429 || seen === 503 ? "17" : null);
      await assertRefused(answer, seen, code);
    }
  });
});

const withQuotes = { timeout: 30_000, skip };
const image = "b260fa9168ca9f28e7f15f128a45ac31c419705b31a60feac30b322ee06bc752";

describe("real evidence", () => {
  test("a TDX quote of another enclave is refused, and shown", withQuotes, async (t) => {
    const { quote, collateral, now } = realTdx();
    const local = await startLocalGateway(t, {
      at: now,
      evidence: { image_hashes: [image] },
      script: {
        evidence: () => tdxEvidence(quote, collateral),
        keyset: { notAfter: now / 1000 + 3000 },
      },
    });
    // The service has this type.
    const sealed = local.gateway.use("sealed-networks") as SealedNetworks;
    const verification = (await sealed.verify()) ?? assert.fail("nothing was verified");
    const found = verification.checks.filter(({ result }) => result === "fail");
    assert.deepEqual(
      found.map((check) => check.name),
      ["report_data"],
    );
    assert.match(
      describeVerification(verification),
      /machine +811dca2a.*firmware +UpToDate.*image +b260fa91.*passed +.*dcap_qvl.*image_hash/s,
    );
    assert.equal((await local.ask()).status, 502);
    assert.equal(local.remote.frames, 0);
    assert.ok(!local.sent().includes(secret));
  });

  test("a TDX quote of the session's own keys is printed as verified", withQuotes, async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const policy = { imageHashes: [image] };
    const expected = { reportData };
    const report = await verifyEvidence(tdxEvidence(quote, collateral), expected, policy, now);
    const { assurance, checks } = report;
    const about = { network: "confidential-alpha", model: "demo", termination: "worker" } as const;
    const shown = { ...about, assurance, evidence: report, keyset: "sha256:00", checks };
    const session = { ...shown, expiresAt: now + 3_600_000 };
    const text = describeVerification(verificationOf(session, "https://gateway.example", now));
    assert.match(text, /^verified: the answers come from an enclave that hardware attests\./);
    assert.match(text, /machine +tdx 811dca2a26b952e85bb6448b097ba4fd\n +firmware +UpToDate\n/);
    assert.match(text, new RegExp(`image +${image}`));
    assert.match(
      text,
      /since +2025-06-20.*until +2025-06-20T01:00:00\.000Z; checked again before/s,
    );
    assert.doesNotMatch(text, /^ +(failed|accepted) /m);
  });
});
