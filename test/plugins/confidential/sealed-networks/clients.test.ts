/** Clients of the APIs for models, unchanged, over a local gateway, a gateway that relays, and a worker's enclave. */
import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText } from "ai";
import OpenAI from "openai";
import { until } from "../confidential-relay/wait.ts";
import { demoModelId } from "../worker/fixture.ts";
import { startChain } from "./chain.ts";
import { localKey } from "./local-gateway.ts";

const inTime = { timeout: 60_000 };
const prompt = "one two three";

interface PageState {
  readonly verifications: readonly { readonly keyset?: string }[];
  readonly requests: readonly { readonly billedMilliCu: number; readonly price: string }[];
}
const messages = [{ role: "user" as const, content: prompt }];

test("SDKs chat, stream and use tools, and the bills add up", inTime, async (t) => {
  const { url, relay } = await startChain(t);
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: localKey, maxRetries: 0 });
  const streamed = await openai.chat.completions.create({
    model: demoModelId,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let billed = 0;
  for await (const { choices, usage } of streamed) {
    text += choices[0]?.delta.content ?? "";
    billed += usedBy(usage);
  }
  assert.equal(text, prompt);
  const whole = await openai.chat.completions.create({ model: "another", messages });
  assert.equal(whole.model, demoModelId);
  billed += usedBy(whole.usage);
  const response = await openai.responses.create({ model: demoModelId, input: prompt });
  assert.equal(response.output_text, prompt);
  const anthropic = new Anthropic({ baseURL: url, apiKey: localKey, maxRetries: 0 });
  const message = anthropic.messages.stream({ model: demoModelId, messages, max_tokens: 50 });
  assert.equal(await message.finalText(), prompt);
  const listed = await anthropic.models.list();
  assert.deepEqual(
    listed.data.map(({ id }) => id),
    [demoModelId],
  );
  const provider = createOpenAICompatible({
    name: "local",
    baseURL: `${url}/v1`,
    apiKey: localKey,
  });
  const generated = await generateText({ model: provider(demoModelId), prompt, maxRetries: 0 });
  assert.equal(generated.text, prompt);
  assert.ok(billed > 0);
  const page = (await (await fetch(url)).json()) as PageState;
  assert.equal(page.requests.length, 5);
  assert.equal(
    billed,
    page.requests.slice(-2).reduce((sum, one) => sum + one.billedMilliCu, 0),
  );
  assert.match(page.requests[0]?.price ?? "", /"cached":"1","completion":"20"/);
  await relay.gateway.stop();
  await assert.rejects(openai.chat.completions.create({ model: demoModelId, messages }), {
    status: 502,
    code: "VERIFICATION_FAILED",
    message: /connection/,
  });
});

test("a worker that leaves, or has new keys, causes no error", inTime, async (t) => {
  const { url, relay, workers } = await startChain(t, { count: 2 });
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: localKey, maxRetries: 0 });
  const ask = async (): Promise<{
    keyset: string | undefined;
    used: (typeof workers)[number];
  }> => {
    const { choices } = await openai.chat.completions.create({ model: demoModelId, messages });
    assert.equal(choices[0]?.message.content, prompt);
    const { verifications, requests } = (await (await fetch(url)).json()) as PageState;
    const price = requests[0]?.price ?? "";
    const used = workers.find(({ coefficient }) => price.endsWith(` ${coefficient}/1000`));
    assert.ok(used !== undefined, price);
    return { keyset: verifications[0]?.keyset, used };
  };
  const stop = async (worker: (typeof workers)[number]): Promise<void> => {
    await worker.stop(0);
    // The idle session has ended at both gateways.
    await until(async () => {
      const metrics = await (await fetch(`${relay.adminUrl}/metrics`)).text();
      return /^sluice_stream_sessions 0$/m.test(metrics);
    });
  };
  const first = await ask();
  await stop(first.used);
  const second = await ask();
  assert.notEqual(second.used, first.used);
  await first.used.replace();
  await stop(second.used);
  const third = await ask();
  assert.equal(third.used, first.used);
  assert.notEqual(third.keyset, first.keyset);
});

function usedBy(usage: unknown): number {
  return (usage as { usedCUMilli?: number } | null | undefined)?.usedCUMilli ?? 0;
}
