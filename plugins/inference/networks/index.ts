import { plaintextProblems, type ProductionProblem } from "sluice-gateway/internal/module";
import { pointerKey } from "sluice-gateway/internal/toolkit";
import { defineService } from "sluice-gateway/plugin";
import type { Networks } from "sluice-gateway/services";
import { kindFaults, type Options } from "./options.ts";
import { networksSchema, rateSchema } from "./schema.ts";

export default defineService<Options, Networks>({
  name: "networks",
  description: "The inference networks, with their workers, models and prices.",
  sections: { networks: networksSchema, rate: rateSchema },
  usesIfInstalled: ["accounts"],
  checkSections: kindFaults,
  dryRun: ({ networks }) => ({
    names: Object.keys(networks),
    open: [],
    models: () => [],
    unread: () => true,
    override: () => Promise.resolve(undefined),
    find: () => undefined,
    addKind() {},
  }),
  async start(options, host, context) {
    const { openNetworks } = await import("./open-networks.ts");
    return openNetworks(options, host, context);
  },
});

type Sections = Readonly<Record<string, unknown>>;
type Entry = NonNullable<Options["networks"][string]>;

function networksIn(sections: Sections): [name: string, network: Partial<Entry> | null][] {
  // The section has been validated, with its defaults. Members with faults may be missing.
  return Object.entries((sections["networks"] ?? {}) as Record<string, Partial<Entry> | null>);
}

/** Prompts to enclaves are encrypted by the client, so only the URLs of other networks need TLS. */
export function productionProblems(sections: Sections): ProductionProblem[] {
  return networksIn(sections).flatMap(([name, network]) => {
    const { kind = "openai", url, status } = network ?? {};
    if (url === undefined) return [];
    const what = `the network "${name}"`;
    const at = `/networks/${pointerKey(name)}`;
    const own = kind === "openai" ? plaintextProblems(what, `${at}/url`, [url]) : [];
    const statusUrls = status?.url === undefined ? [] : [status.url];
    return [...own, ...plaintextProblems(`the status of ${what}`, `${at}/status/url`, statusUrls)];
  });
}

/** Prices must be equal on all gateways that share credit. URLs may differ: a network can have several addresses. */
export function pricesOfNetworks(sections: Sections): Sections {
  const prices = networksIn(sections).map(([name, network]) => [
    name,
    { price: network?.price_per_token_nano, rate: network?.rate },
  ]);
  return { networks: Object.fromEntries(prices) as object, rate: sections["rate"] };
}
