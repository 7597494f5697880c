/**
 * The facts about a machine in its PCK certificate: Intel's SGX extension (Intel SGX PCK Certificate and CRL Profile).
 */
import { toHex } from "./binary-text.ts";
import type { Certificate } from "./certificate.ts";
import { derObjectId, derTags, readDer } from "./der.ts";

/** Facts about a machine, in lower-case hex. */
export interface PckPlatform {
  /** Identifier of the machine, 16 bytes. */
  readonly ppid: string;
  /** Family of the machine, 6 bytes. The TCB info must be for the same family. */
  readonly fmspc: string;
  /** Identifier of the provisioning certification enclave (PCE), 2 bytes. */
  readonly pceId: string;
}

const sgxExtension = "1.2.840.113741.1.13.1";

export function readPckPlatform(certificate: Certificate | undefined): PckPlatform | undefined {
  const value = certificate?.extensions.get(sgxExtension);
  const list = value && readDer(value);
  const fields = new Map<string, string>();
  for (const { children } of list?.children ?? []) {
    const id = derObjectId(children[0]);
    const field = children[1];
    if (id === undefined || field === undefined || fields.has(id)) return undefined;
    if (field.tag === derTags.octetString) fields.set(id, toHex(field.content));
  }
  const ppid = fields.get(`${sgxExtension}.1`);
  const pceId = fields.get(`${sgxExtension}.3`);
  const fmspc = fields.get(`${sgxExtension}.4`);
  if (ppid?.length !== 32 || pceId?.length !== 4 || fmspc?.length !== 12) return undefined;
  return { ppid, fmspc, pceId };
}
