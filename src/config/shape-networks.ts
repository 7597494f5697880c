/** Converts the networks of pipeline.yaml, with the rate and the evidence policy of each network. */
import type {
  Config,
  EvidencePolicyConfig,
  NetworkConfig,
  RateConfig,
  SnpMinimumsConfig,
} from "./config.ts";
import { fault, type Fault } from "./fault.ts";
import { durationMs, fragmentPointer } from "./formats.ts";
import { find, isDefaulted, keyPositionOf, type LocatedMap, pointerKey } from "./located.ts";

/** A rate as written: `0.25`, `https://host/doc#/price`, or an object with these parts. */
export type RateShape =
  | string
  | { readonly url?: string; readonly pointer?: string; readonly every: string };

export interface NetworkShape {
  readonly kind?: "openai" | "enclave";
  readonly url?: string;
  readonly origins: readonly string[];
  readonly status: { readonly url?: string; readonly every: string };
  readonly price_per_token_nano: string;
  readonly rate?: RateShape;
  readonly evidence: EvidenceShape;
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  readonly idleMs: number;
  readonly answerMs: number;
  readonly maxOutputTokens: number;
}

interface EvidenceShape {
  readonly kind: "hardware" | "simulated";
  readonly roots: readonly string[];
  readonly image_hashes?: "any" | readonly string[];
  readonly mrseam: readonly string[];
  readonly advisories: readonly string[];
  readonly min_tcb_evaluation?: number;
  readonly platforms?: readonly string[];
  readonly sev_snp?: {
    readonly min_tcb: "any" | SnpMinimumsConfig;
    readonly require_crl: boolean;
  };
}

const everyMinute = 60_000;

/** Returns the networks that have a url, in the order of the file. `rate`: the rate at the top level of the file. */
export function shapeNetworks(
  networks: Readonly<Record<string, NetworkShape | null>>,
  rate: RateShape | undefined,
  root: LocatedMap,
): NetworkConfig[] {
  const configured: NetworkConfig[] = [];
  for (const [name, network] of Object.entries(networks)) {
    if (network?.url === undefined) continue;
    const { url, origins, status, price_per_token_nano: pricePerTokenNano, headers } = network;
    const { connectMs, idleMs, answerMs, maxOutputTokens } = network;
    const kind = network.kind ?? "openai";
    const urlNode = find(root, `/networks/${pointerKey(name)}/url`);
    const isDefault = urlNode !== undefined && isDefaulted(urlNode);
    configured.push({
      name,
      kind,
      url,
      origins,
      ...(isDefault && { isDefault }),
      evidence: kind === "enclave" ? shapeEvidence(network.evidence) : undefined,
      statusUrl: status.url,
      statusMs: durationMs(status.every) ?? everyMinute,
      pricePerTokenNano,
      rate: shapeRate(network.rate ?? rate),
      headers,
      connectMs,
      idleMs,
      answerMs,
      maxOutputTokens,
    });
  }
  return configured;
}

/** Also returns undefined if a part of the rate could not be read; its fault has been reported. */
function shapeRate(shape: RateShape | undefined): RateConfig | undefined {
  if (shape === undefined) return undefined;
  if (typeof shape === "string") {
    const pointer = fragmentPointer(shape);
    if (pointer === undefined) return { kind: "fixed", usd: shape };
    const url = shape.slice(0, shape.indexOf("#/"));
    return { kind: "polled", url, pointer, everyMs: everyMinute };
  }
  const { url, pointer, every } = shape;
  if (url === undefined || pointer === undefined) return undefined;
  return { kind: "polled", url, pointer, everyMs: durationMs(every) ?? everyMinute };
}

/** Simulated evidence may have any image, because anyone who has the seed can create evidence for every image. */
function shapeEvidence(shape: EvidenceShape): EvidencePolicyConfig {
  const { kind, roots, mrseam, advisories, platforms, sev_snp: snp } = shape;
  return {
    kind,
    roots,
    imageHashes: shape.image_hashes ?? (kind === "simulated" ? "any" : []),
    mrseam,
    advisories,
    minTcbEvaluation: shape.min_tcb_evaluation,
    platforms,
    sevSnp: snp && { minTcb: snp.min_tcb, requireCrl: snp.require_crl },
  };
}

/** Checks rules that the schema cannot express. `found`: the faults of the shape; a position gets only one fault. */
export function networkFaults(
  { networks, simulatedAllowed }: Config,
  root: LocatedMap,
  found: readonly Fault[],
): Fault[] {
  const faults: Fault[] = [];
  for (const { name, kind, url, evidence } of networks) {
    const refuse = (
      member: string,
      code: "SLUICE_NETWORK_KIND" | "SLUICE_NETWORK_EVIDENCE",
      message: string,
    ): void => {
      const at = keyPositionOf(root, `/networks/${pointerKey(name)}/${member}`);
      if (found.some((one) => one.at?.line === at.line && one.at.col === at.col)) return;
      faults.push(fault(code, `networks.${name} ${message}`, { at }));
    };
    if (kind === "openai" && /^wss?:/i.test(url)) {
      refuse(
        "url",
        "SLUICE_NETWORK_KIND",
        "has kind openai: expected an http or https URL, got a ws or wss URL",
      );
    }
    if (evidence === undefined) continue;
    const { imageHashes } = evidence;
    if (evidence.kind === "simulated" && !simulatedAllowed) {
      refuse(
        "evidence",
        "SLUICE_NETWORK_EVIDENCE",
        "has simulated evidence, which is not allowed in prod",
      );
    } else if (evidence.kind === "hardware" && imageHashes.length === 0) {
      refuse(
        "evidence",
        "SLUICE_NETWORK_EVIDENCE",
        "has no `image_hashes`, which list the accepted images",
      );
    }
  }
  return faults;
}
