/** Third-party plugins for tests of what the gateway reports about plugins: a package of tools, and a service in a file. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const manifest = {
  kind: "tools",
  name: "acme-dice",
  description: "Throws dice.",
  contract: "^1.1",
  permissions: { hosts: ["dice.acme.com:443"], env: ["ACME_KEY"] },
};

const code = `
const tool = (name, call, more) => ({
  name,
  description: "A tool of a test.",
  inputSchema: { type: "object" },
  price: 1,
  capability: undefined,
  call,
  ...more,
});
export default {
  ...${JSON.stringify(manifest)},
  start: () => ({
    tools: [
      tool("acme_roll", () => ({ ok: true, value: 4 })),
      tool("acme_break", () => {
        throw new Error("the dice are broken");
      }),
      tool("acme_refuse", () => ({ ok: false, code: "GATEWAY_CONFLICT", message: "taken" })),
      tool("acme_secret", () => ({ ok: true, value: 6 }), { capability: "chat:write" }),
      tool("acme_wait", () => new Promise(() => {})),
    ],
  }),
};
`;

/** A service whose timer fails every second, and which reports something that the contract does not allow. */
const service = `
export default {
  kind: "service",
  name: "acme-clock",
  description: "Fails in the background.",
  start(_, host) {
    host.every(1000, () => {
      throw new Error("the clock is broken");
    });
    return {
      service: {},
      initialized: () => Promise.resolve(),
      ready: () => true,
      backends() {
        throw new Error("no backends");
      },
      admin(request, response) {
        if (request.url.endsWith("/broken")) throw new Error("no page");
        response.end("tick");
      },
    };
  },
};
`;

const surface = `
export default {
  kind: "surface",
  name: "acme-plugins",
  description: "Lists the plugins.",
  uses: ["gateway", "acme-clock"],
  start: (_, host) => ({
    answer: () => ({
      status: 200,
      body: JSON.stringify(host.use("gateway").running().plugins),
    }),
  }),
};
`;

export const thirdParty =
  "{ acme-dice: { from: acme-kit/dice, grants: { hosts: ['dice.acme.com:443'], env: [ACME_KEY] } }, acme-clock: ./acme-clock.js, acme-plugins: ./acme-plugins.js }";

export function writeThirdParty(folder: string): void {
  const files = {
    "acme-clock.js": service,
    "acme-plugins.js": surface,
    "package.json": '{ "type": "module" }',
    "node_modules/acme-kit/package.json": JSON.stringify({
      name: "acme-kit",
      version: "2.3.4",
      type: "module",
      exports: { "./dice": "./dice.js" },
    }),
    "node_modules/acme-kit/dice.js": code,
  };
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
}
