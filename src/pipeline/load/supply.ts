/**
 * What plugins get from their host in one generation. It remembers what each plugin asked for while it started, so that
 * a reload hands over only plugins for which all of that is still the same.
 */
import { randomUUID } from "node:crypto";
import type { Config } from "../../config/config.ts";
import type {
  Confidential,
  Decoder,
  DocumentedRoute,
  EvidenceSource,
  ForwardOptions,
  Forwarder,
  Host,
  Ledger,
  Networks,
  Plugin,
  ServiceHooks,
  ServiceName,
  ServiceTypes,
  Tools,
} from "../../plugin.ts";
import { simulatedRefusal } from "../../../plugins/confidential/evidence/open-provider.ts";
import { createNetworks, type OpenNetwork } from "../../../plugins/inference/networks/networks.ts";
import { createForwarder } from "../../http/upstream/forward.ts";
import { readRequest } from "../../http/json/request.ts";
import { UpstreamPools } from "../../http/upstream/upstream.ts";
import { version } from "../../version.ts";
import { healthRoutes } from "./document.ts";
import type { HandOver, Needs } from "./hand-over.ts";
import { instanceId } from "./instance-id.ts";
import type { Services } from "./services.ts";
import { stableJson } from "./stable-json.ts";

type OpenLedger = ReturnType<Services["openLedger"]>;

export class Supply {
  /** Node pools in use, by upstream name. */
  readonly ledgers = new Map<string, OpenLedger>();
  /** Plain upstreams in use, by name. */
  readonly upstreams = new Map<string, UpstreamPools>();
  /** Services that have started, by name, each after those that it uses. */
  readonly services = new Map<string, ServiceHooks<unknown>>();
  /** Networks in use. */
  networksInUse: readonly OpenNetwork[] = [];
  /** What the routes say of themselves, filled as they are compiled. */
  readonly documented: DocumentedRoute[] = [...healthRoutes];
  /** Every load documents anew, and nothing tells it from another: whoever reads it starts anew, too. */
  readonly #loading = randomUUID();
  #networks: Networks | undefined;
  #confidential: Confidential | undefined;
  readonly #config: Config;
  readonly #services: Services;
  readonly #parts: HandOver;
  readonly #tools: Tools;
  /** Which instances the catalogue was made of; see `catalogueIs`. Until then like that of no other generation. */
  #catalogue = `incomplete ${randomUUID()}`;

  constructor(config: Config, services: Services, parts: HandOver, tools: Tools) {
    this.#config = config;
    this.#services = services;
    this.#parts = parts;
    this.#tools = tools;
  }

  /** Names the instances that make up the catalogue, once all have started. */
  catalogueIs(instances: string): void {
    this.#catalogue = instances;
  }

  /** A host for one plugin instance; `needs` fills as the plugin asks. */
  hostFor(plugin: Pick<Plugin, "name" | "uses">, mode: Host["mode"]): { host: Host; needs: Needs } {
    const { log, clock, metrics, accounts, workspaces, idempotency, meter } = this.#services;
    const { seal, claims, tickets, evidence } = this.#services;
    const { environment, upstreams, file } = this.#config;
    const needs = new Map<string, string>();
    const asked = <T>(need: string, give: () => T): T => {
      needs.set(need, this.#state(need));
      return give();
    };
    const networks = () => asked("networks", () => this.#openNetworks());
    const confidential = () => asked("networks", () => this.#openConfidential());
    const tools = () => asked("tools", () => this.#tools);
    const routes = () => asked("routes", () => this.documented);
    const host: Host = {
      environment,
      mode,
      log: log.child({ plugin: plugin.name }),
      clock,
      metrics,
      accounts,
      workspaces,
      idempotency,
      meter,
      seal,
      claims,
      tickets,
      get networks() {
        return networks();
      },
      get confidential() {
        return confidential();
      },
      get tools() {
        return tools();
      },
      get routes() {
        return routes();
      },
      evidence: (source) => {
        this.#refuseSimulated(source);
        return evidence.evidence(source);
      },
      use: (name) => asked(`service ${name}`, () => this.#service(name, plugin)),
      version,
      folder: file.slice(0, file.lastIndexOf("/") + 1) || ".",
      readJsonRpc: readRequest,
      upstream: (name) => asked(`upstream ${name}`, () => upstreams.get(name)),
      ledger: (name) => asked(`ledger ${name}`, () => this.#ledger(name)),
      decoder: (name) => asked(`decoder ${name}`, () => this.#decoder(name)),
      forwarder: (name, options = {}) =>
        asked(`forwarder ${name}`, () => this.#forwarder(name, options)),
    };
    return { host, needs };
  }

  /** True when all that was asked for is the same now; then this generation holds it, too. */
  renew(needs: Needs): boolean {
    for (const [need, state] of needs) if (this.#state(need) !== state) return false;
    for (const need of needs.keys()) {
      const [kind, name = ""] = need.split(" ");
      if (kind === "ledger") this.#ledger(name);
      if (kind === "decoder") this.#decoder(name);
      if (kind === "forwarder") this.#pools(name);
      if (kind === "networks") this.#openNetworks();
    }
    return true;
  }

  #state(need: string): string {
    if (need === "tools") return this.#catalogue;
    if (need === "routes") return this.#loading;
    if (need === "networks") return this.#networkSettings();
    if (need.startsWith("service ")) return this.#serviceId(need.slice("service ".length));
    return this.#settings(need.slice(need.indexOf(" ") + 1));
  }

  #service<Name extends ServiceName>(
    name: Name,
    plugin: Pick<Plugin, "name" | "uses">,
  ): ServiceTypes[Name] {
    const running = this.services.get(name);
    if (plugin.uses?.includes(name) !== true || running === undefined) {
      throw new Error(`plugin "${plugin.name}" must list the service "${name}" under \`uses\``);
    }
    // The plugin that declares the type of a service under a name is the one that provides it.
    return running.service as ServiceTypes[Name];
  }

  #serviceId(name: string): string {
    const running = this.services.get(name);
    return running === undefined ? "none" : instanceId(running);
  }

  #networkSettings(): string {
    return stableJson(this.#config.networks);
  }

  /** Each network lives on through reloads that do not change it: its workers are not asked anew who they are. */
  #openNetworks(): Networks {
    if (this.#networks !== undefined) return this.#networks;
    this.networksInUse = this.#config.networks.map((config) =>
      this.#parts.acquireNow(`network ${stableJson(config)}`, undefined, () => {
        const value = this.#services.openNetwork(config);
        return { value, stop: () => value.close() };
      }),
    );
    this.#networks = createNetworks(this.networksInUse, this.#services.storeOverrides);
    return this.#networks;
  }

  /** Its streams belong to the plugins that open them. */
  #openConfidential(): Confidential {
    if (this.#confidential !== undefined) return this.#confidential;
    this.#openNetworks();
    const { networks } = this.#config;
    const opened = this.#services.openConfidential(this.networksInUse, networks);
    this.#confidential = {
      ...opened,
      stream: (options) => {
        this.#refuseSimulated(options.evidence);
        return opened.stream(options);
      },
    };
    return this.#confidential;
  }

  #refuseSimulated(source: EvidenceSource | undefined): void {
    if (source !== "simulated" || this.#config.simulatedAllowed) return;
    throw new Error(simulatedRefusal);
  }

  #settings(upstream: string): string {
    const found = this.#config.upstreams.get(upstream);
    if (found === undefined) return "";
    const { at: _, isDefault: __, ...settings } = found;
    return stableJson(settings);
  }

  #forwarder(name: string, options: ForwardOptions): Forwarder | undefined {
    const pools = this.#pools(name);
    return pools === undefined
      ? undefined
      : createForwarder(pools, options, this.#services.metrics);
  }

  #pools(name: string): UpstreamPools | undefined {
    const upstream = this.#config.upstreams.get(name);
    if (upstream === undefined) return undefined;
    const { clock } = this.#services;
    const key = `upstream ${name} ${this.#settings(name)}`;
    const pools = this.#parts.acquireNow(key, undefined, () => {
      const value = new UpstreamPools(upstream, clock);
      return { value, stop: () => value.close() };
    });
    this.upstreams.set(name, pools);
    return pools;
  }

  #ledger(name: string): Ledger | undefined {
    const opened = this.ledgers.get(name);
    if (opened !== undefined) return opened;
    const upstream = this.#config.upstreams.get(name);
    if (upstream === undefined) return undefined;
    const key = `ledger ${name} ${this.#settings(name)}`;
    const ledger = this.#parts.acquireNow(key, undefined, () => {
      const value = this.#services.openLedger(upstream);
      return { value, stop: () => value.close() };
    });
    this.ledgers.set(name, ledger);
    return ledger;
  }

  /** Lives as long as its ledger, so that a reload forgets no runtime that it has read. */
  #decoder(name: string): Decoder | undefined {
    const ledger = this.#ledger(name);
    if (ledger === undefined) return undefined;
    const key = `decoder ${name} ${this.#settings(name)}`;
    return this.#parts.acquireNow(key, undefined, () => ({
      value: this.#services.openDecoder(ledger),
      stop: () => undefined,
    }));
  }
}
