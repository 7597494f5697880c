/** Tests the test kit, as authors of plugins use it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineStep, defineSurface, defineTools, refuse } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import { scriptedUpstream, testStep, testSurface, testTools } from "sluice-gateway/testing";
import { StartError } from "../../src/start-error.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    shade: string;
    seen: string;
  }
  interface ServiceTypes {
    shades: { nameOf(code: number): string };
  }
}

const step = defineStep<{ readonly header: string }>({
  name: "shade-step",
  description: "Reads a shade.",
  options: {
    type: "object",
    properties: { header: { type: "string", default: "x-shade" } },
    additionalProperties: false,
  },
  needs: { shade: "requestHeaders" },
  provides: { seen: "requestHeaders" },
  start: ({ header }) => ({
    requestHeaders(x) {
      const wanted = x.request.headers[header];
      if (wanted === undefined) return refuse("GATEWAY_INVALID_PARAMS");
      x.set("seen", `${x.get("shade")} ${String(wanted)}`);
      return undefined;
    },
    responseHeaders: (_, head) => head.set("x-shaded", "yes"),
  }),
});

test("a step runs with its slots, and its answer has the slots that it set", async () => {
  await using tested = await testStep(step, { slots: { shade: "light" } });
  const answer = await tested.send({ headers: { "X-Shade": "red" } });
  assert.equal(answer.status, 200);
  assert.equal(answer.body, "ok");
  assert.equal(answer.headers["x-shaded"], "yes");
  assert.equal(answer.outcome, "complete");
  assert.deepEqual(answer.slots, { seen: "light red" });
  const refused = await tested.send();
  assert.deepEqual(
    [refused.status, refused.code, refused.outcome],
    [400, "GATEWAY_INVALID_PARAMS", "replied"],
  );
});

test("a missing slot and an unknown option are faults, as in a gateway", async () => {
  await assert.rejects(testStep(step), /SLUICE_SLOT_MISSING/);
  const options = { heder: "x" } as object;
  await assert.rejects(testStep(step, { options, slots: { shade: "light" } }), StartError);
});

test("a surface streams, reads JSON and uses stand-ins for services", async () => {
  const surface = defineSurface({
    name: "shade-surface",
    description: "Names a shade.",
    uses: ["shades", "networks"],
    start: (_, host) => ({
      body: { bytes: 100, types: ["application/json"] },
      async answer(x) {
        const parsed = x.json();
        const sink = await x.stream(200, ["content-type", "text/plain"]);
        sink.write(host.use("shades").nameOf(parsed.ok ? Number(parsed.value) : -1));
        sink.write(` of ${host.use("networks").names.join()}!`);
        await sink.end();
        return undefined;
      },
    }),
  });
  const services = {
    shades: { nameOf: (code: number) => `shade ${code}` },
    networks: { names: ["sepia"] },
  };
  await using tested = await testSurface(surface, { services });
  const headers = { "content-type": "application/json" };
  const answer = await tested.send({ method: "PUT", headers, body: "7" });
  assert.equal(answer.body, "shade 7 of sepia!");
  assert.equal(answer.outcome, "complete");
});

test("tools are called through the catalogue, which checks their input and the caller", async () => {
  const tools = defineTools({
    name: "shade-tools",
    description: "Adds shade_of.",
    start: () => ({
      tools: [
        {
          name: "shade_of",
          description: "Returns a shade.",
          inputSchema: { type: "object", properties: { code: { type: "integer" } } },
          price: 5,
          capability: "docs:read" as const,
          call: ({ code }: { code: number }) => ({ ok: true, value: { shade: code * 2 } }),
        },
      ],
    }),
  });
  await using tested = await testTools(tools);
  assert.deepEqual(
    tested.catalogue.list.map(({ name }) => name),
    ["shade_of"],
  );
  const outcome = await tested.call("shade_of", { code: 4 });
  assert.ok(outcome.ok);
  const wrong = await tested.call("shade_of", { code: "x" });
  assert.equal(wrong.ok, false);
  const refused = await tested.call("shade_of", { code: 4 }, { capabilities: [] });
  assert.equal(!refused.ok && refused.code, "GATEWAY_PERMISSION_DENIED");
});

test("the fetch of host.upstream reaches a scripted upstream", async () => {
  await using upstream = await scriptedUpstream([{ body: { 7: "seven" } }, { status: 204 }]);
  const tools = defineTools<{ readonly url: string }>({
    name: "shade-fetch",
    description: "Reads shades.",
    options: {
      type: "object",
      properties: { url: { type: "string" } },
      required: ["url"],
      additionalProperties: false,
    },
    permissions: { hosts: ["*"] },
    start({ url }, host) {
      const { fetch } = host.upstream(url);
      const tool: Tool<{ readonly path: string }> = {
        name: "acme_shade",
        description: "Reads a shade.",
        inputSchema: { type: "object" },
        price: 0,
        capability: undefined,
        async call({ path }, { signal }) {
          const response = await fetch(url + path, { method: "POST", body: "7", signal });
          return { ok: true, value: [response.status, await response.text()] };
        },
      };
      return { tools: [tool] };
    },
  });
  await using tested = await testTools(tools, { options: { url: `${upstream.url}/all` } });
  for (const value of ['[200,"{\\"7\\":\\"seven\\"}"]', '[204,""]']) {
    const outcome = await tested.call("acme_shade", { path: "/dark" });
    assert.equal(outcome.ok && outcome.json, value);
  }
  const refused = await tested.call("acme_shade", { path: "/../other" });
  assert.equal(!refused.ok && refused.code, "GATEWAY_INTERNAL_ERROR");
  assert.ok(tested.lines.some((line) => line.includes(`only reaches ${upstream.url}/all`)));
  assert.deepEqual(
    upstream.requests.map(({ method, path, body }) => `${method} ${path} ${body}`),
    ["POST /all/dark 7", "POST /all/dark 7"],
  );
});
