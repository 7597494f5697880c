/**
 * The facts about a machine in its PCK certificate: Intel's SGX extension (Intel SGX PCK Certificate and CRL Profile).
 */
import { OctetString } from "@peculiar/asn1-schema";
import { Fields, octetsHex, readAsn1 } from "./asn1.ts";
import type { Certificate } from "./certificate.ts";

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
  const fields = new Map<string, string>();
  for (const { type, value: field } of (value && readAsn1(value, Fields)) ?? []) {
    if (fields.has(type)) return undefined;
    const octets = field.anyValue && readAsn1(new Uint8Array(field.anyValue), OctetString);
    fields.set(type, octets === undefined ? "" : octetsHex(octets.buffer));
  }
  const ppid = fields.get(`${sgxExtension}.1`);
  const pceId = fields.get(`${sgxExtension}.3`);
  const fmspc = fields.get(`${sgxExtension}.4`);
  if (ppid?.length !== 32 || pceId?.length !== 4 || fmspc?.length !== 12) return undefined;
  return { ppid, fmspc, pceId };
}
