import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import {
  refuse,
  type Exchange,
  type Host,
  type Reply,
  type SurfaceHooks,
} from "sluice-gateway/plugin";
import type { Confidential, SignedPolicy } from "sluice-gateway/services";
import { parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { ConfidentialOptions } from "./options.ts";

export const digestPattern = /^(?:sha256:)?([0-9a-f]{64})$/;

/** The digest in the URL may lack `sha256:`. */
export function showEvidence(x: Exchange, confidential: Confidential): Reply {
  const hex = digestPattern.exec(x.request.params["digest"] ?? "")?.[1];
  const evidence = hex === undefined ? undefined : confidential.evidence(`sha256:${hex}`);
  if (evidence === undefined) return refuse("GATEWAY_NOT_FOUND");
  // The URL contains the digest, so the content never changes.
  return documentReply(evidence, "public, max-age=3600, immutable");
}

/** Throws if the document in the options cannot be served. */
export async function servePolicy(
  host: Host,
  { document }: ConfidentialOptions,
): Promise<SurfaceHooks> {
  const relay = host.use("confidential-relay");
  if (document === undefined) {
    return { answer: async () => policyReply(await relay.policy()) };
  }
  const text = await readFile(resolve(host.folder, document), "utf8");
  const signed = await relay.readPolicy(parseOrUndefined(text));
  if (typeof signed === "string") throw new Error(`${document}: ${signed}`);
  const reply = policyReply(signed);
  return { answer: () => reply };
}

function policyReply(policy: SignedPolicy): Reply {
  // The document is signed, and pages of any origin may read it.
  return documentReply(policy, "public, max-age=60", "access-control-allow-origin", "*");
}

function documentReply(document: unknown, cache: string, ...more: readonly string[]): Reply {
  const headers = ["content-type", "application/json", "cache-control", cache, ...more];
  return { status: 200, headers, body: JSON.stringify(document) };
}
