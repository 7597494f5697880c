/** A plugin of kind `tools` whose functions fail, or never answer, in the way that their caller names. */
import { channel } from "node:diagnostics_channel";
import { defineTools } from "sluice-gateway/plugin";
import type { Prompt, ResourceTemplate, Tool } from "sluice-gateway/services";

const broken = (): never => {
  throw new Error("secret of the plugin");
};

/** Plugins in JavaScript can return values that the types do not allow. */
export const failures: Readonly<Record<string, () => unknown>> = {
  throws: broken,
  rejects: () => Promise.reject(new Error("secret of the plugin")),
  number: () => 5,
  null: () => null,
  empty: () => ({ ok: true }),
  bigint: () => ({ ok: true, value: 1n, messages: [1n] }),
};

/** Receives a message when a function begins that never answers. The gateway loads this file a second time. */
export const hanging = "broken-tools hang";

const hang = (): Promise<never> => {
  channel(hanging).publish({});
  return new Promise(() => {});
};

const fail = (how: string): never => (how === "hangs" ? hang() : failures[how]?.()) as never;

const tools: Tool<{ readonly how: string }>[] = ["broken", "good"].map((name) => ({
  name,
  description: "Fails if its name says so.",
  inputSchema: { type: "object", properties: { how: { type: "string" } } },
  price: 1,
  capability: undefined,
  call: ({ how }) => (name === "broken" ? fail(how) : { ok: true, value: {} }),
}));

const prompt: Prompt = {
  name: "broken",
  description: "Fails.",
  arguments: [{ name: "how", required: true, complete: fail }],
  capability: undefined,
  get: ({ how = "" }) => fail(how),
};

const template: ResourceTemplate = {
  uriTemplate: "broken://{how}",
  name: "broken",
  mimeType: "text/plain",
  capability: undefined,
  read: (uri) => fail(uri.slice("broken://".length)),
};

export default defineTools({
  name: "broken-tools",
  description: "Fails.",
  start: () => ({ tools, prompts: [prompt], resourceTemplates: [template] }),
});
