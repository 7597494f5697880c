/** The prompts that the shipped plugins offer: their arguments, and which ones they refuse. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Prompt, PromptResult } from "sluice-gateway/services";
import { testTools } from "../../../plugins/contracts/testing.ts";
import docsSearch from "../../../plugins/tools/docs-search/index.ts";
import { keyPrincipal } from "../fakes.ts";
import { scriptedTools } from "../ledger/ledger-tools/chain.ts";
import { address } from "../wrong-inputs.ts";

const context = { principal: keyPrincipal({}), dialogue: undefined };

function textOf(got: PromptResult): string {
  assert(got.ok, JSON.stringify(got));
  assert.deepEqual(
    got.messages.map(({ role, content }) => [role, content.type]),
    [["user", "text"]],
  );
  return String(got.messages[0]?.content["text"]);
}

function named(prompts: readonly Prompt[], name: string): Prompt {
  const found = prompts.find((prompt) => prompt.name === name);
  assert(found !== undefined);
  return found;
}

const toolsIn = (text: string): string[] => text.match(/\b(?:ledger|docs)_\w+/g) ?? [];

test("a block is selected by height or hash, and anything else is refused", async () => {
  const { prompts, catalogue } = await scriptedTools();
  const prompt = named(prompts, "ledger_explainBlock");
  assert.equal(prompt.capability, "ledger:read");
  const hash = `0x${"aB".repeat(32)}`;
  for (const [block, input] of [
    ["0", '{"height":0}'],
    [" 12345 ", '{"height":12345}'],
    [hash, `{"hash":"${hash}"}`],
  ] as const) {
    const text = textOf(await prompt.get({ block }, context));
    assert.ok(text.includes(`ledger_getBlockDecoded ${input}`), text);
    for (const tool of toolsIn(text)) {
      assert.ok(
        catalogue.list.some(({ name }) => name === tool),
        tool,
      );
    }
  }
  for (const block of ["", "latest", "-1", "1.5", "1e3", "0x12", hash.slice(0, -1), `${hash}0`]) {
    const got = await prompt.get({ block }, context);
    assert.equal(got.ok ? "ok" : got.code, "GATEWAY_INVALID_PARAMS", block);
  }
});

test("an account is selected by an address of the chain", async () => {
  const { prompts } = await scriptedTools();
  const prompt = named(prompts, "ledger_explainAccount");
  const text = textOf(await prompt.get({ address }, context));
  assert.ok(text.includes(address));
  assert.deepEqual(toolsIn(text), ["ledger_getAccount", "ledger_getChainStats"]);
  for (const wrong of ["", "x", `${address}x`]) {
    const got = await prompt.get({ address: wrong }, context);
    assert.equal(got.ok ? "ok" : got.code, "GATEWAY_INVALID_PARAMS", wrong);
  }
});

test("the prompt for a question explains how to answer it from the documentation", async () => {
  await using tested = await testTools(docsSearch, { options: { own: false } });
  const prompt = named(tested.catalogue.prompts, "docs_answer");
  assert.equal(prompt.capability, "docs:read");
  const text = textOf(await prompt.get({ question: "What is lag?" }, context));
  assert.deepEqual(toolsIn(text), ["docs_search"]);
  assert.ok(text.endsWith("\nWhat is lag?"));
});
