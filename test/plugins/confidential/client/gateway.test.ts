/** The client with a whole gateway: sessions with a worker, and with the gateway's own enclave. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import {
  connect,
  ConfidentialError,
  createClientMemory,
} from "../../../../plugins/confidential/client/client.ts";
import type { ConnectOptions } from "../../../../plugins/confidential/client/client.ts";
import { verify } from "../../../../plugins/confidential/commands/verify.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { commandLine } from "../../../commands/command-line.ts";
import { model } from "../confidential-relay/enclave-worker.ts";
import {
  pageOrigin,
  startStreamGateway,
  tokenMilli,
  type StreamGateway,
} from "../confidential-relay/stream-gateway.ts";

const messages = [{ role: "user", content: "Say hello" }];

function optionsFor({ gateway, worker }: StreamGateway): ConnectOptions {
  return {
    url: gateway.url,
    apiKey: gateway.key,
    network: "alpha",
    model,
    maxOutputTokens: 64,
    allowSimulated: true,
    simulatedRoots: [worker.root],
    treatSimulatedAsVerified: true,
    memory: createClientMemory(),
  };
}

async function refusal(options: ConnectOptions): Promise<ConfidentialError> {
  const error = await connect(options).then(
    () => assert.fail("a session was opened"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ConfidentialError, String(error));
  return error;
}

describe("the client with a gateway and a worker", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());

  test("verifies the worker, reads its answer, and computes the same cost as the gateway", async () => {
    const session = await connect(optionsFor(stream));
    assert.equal(session.termination, "worker");
    const answer = session.chat({ messages });
    let text = "";
    for await (const { content } of answer) text += content ?? "";
    assert.equal(text, "Hello world");
    const final = await answer.final;
    assert.equal(final.verified, true, JSON.stringify(final.checks));
    assert.equal(final.usedCUMilli, 7 * tokenMilli);
    assert.equal(final.recomputedCUMilli, 7 * tokenMilli);
    await session.close();
    const path = `/v1/confidential/receipts/${session.id}/1`;
    const receipt = (await (await stream.get(path, stream.gateway.key)).json()) as object;
    assert.ok(final.signedReport !== undefined);
    assert.partialDeepStrictEqual(receipt, {
      session: session.id,
      report: toBase64Url(final.signedReport.report),
      sig: toBase64Url(final.signedReport.sig),
      usedCUMilli: final.usedCUMilli,
    });
  });

  test("connects with a ticket, and is refused without one", async () => {
    const { gateway } = stream;
    const response = await fetch(`${gateway.url}/v1/confidential/tickets`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, origin: pageOrigin }),
    });
    const { ticket } = (await response.json()) as { ticket: string };
    const { apiKey: _, ...options } = optionsFor(stream);
    // The ticket is bound to the origin of a page, which a server does not send.
    assert.equal((await refusal({ ...options, ticket })).code, "CONNECTION_FAILED");
    assert.equal((await refusal({ ...options, ticket: "x" })).code, "CONNECTION_FAILED");
    const wrong = { ...options, apiKey: "gateway_dev_00000000000000000000000000000000" };
    assert.equal((await refusal(wrong)).code, "CONNECTION_FAILED");
  });

  test("gets an error code for a network or model that the gateway does not have", async () => {
    const options = optionsFor(stream);
    assert.equal((await refusal({ ...options, model: "none" })).code, "MODEL_NOT_AVAILABLE");
    assert.equal((await refusal({ ...options, network: "none" })).code, "NETWORK_NOT_AVAILABLE");
    const elsewhere = await refusal({ ...options, termination: "gateway" });
    assert.equal(elsewhere.code, "TERMINATION_NOT_AVAILABLE");
  });

  test("enforces the gateway's policy document", async () => {
    const path = "/.well-known/confidential-policy.json";
    const response = await stream.get(path, stream.gateway.key);
    const { key } = (await response.json()) as { key: string };
    const options = { ...optionsFor(stream), policyKey: key };
    // pipeline.yaml lists no image for the network, so only images that the caller lists are accepted.
    const unnamed = await refusal(options);
    assert.deepEqual(
      unnamed.checks?.filter(({ result }) => result === "fail").map(({ name }) => name),
      ["image_hash"],
    );
    const session = await connect({ ...options, imageHashes: "any" });
    assert.deepEqual(session.checks[0], { name: "policy", result: "pass" });
    await session.close();
    const elsewhere = await refusal({ ...options, termination: "gateway" });
    assert.equal(elsewhere.code, "POLICY_REFUSED");
  });

  test("is available as a command", async (t) => {
    const { gateway, worker } = stream;
    const { run } = commandLine(t);
    const argv = [gateway.url, "--key", gateway.key, "--allow-simulated", "--json"];
    const { code, out } = await run(verify, ...argv, "--simulated-root", worker.root);
    assert.equal(code, 0, out.join("\n"));
    assert.partialDeepStrictEqual(JSON.parse(out[0] ?? ""), { network: "alpha", model });
  });
});

describe("the client of a gateway that terminates the encryption itself", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway({ own: true });
  });
  after(() => stream[Symbol.asyncDispose]());

  test("sees the termination in the keyset, and refuses an enclave whose root is not listed", async () => {
    const own = { ...optionsFor(stream), network: "classic", termination: "gateway" } as const;
    const error = await refusal(own);
    assert.equal(error.code, "EVIDENCE_REFUSED");
    assert.equal(error.evidence?.teeType, "simulated");
  });
});
