import type { ProductionProblem } from "sluice-gateway/internal/module";

interface Entry {
  readonly kind?: string;
  readonly url?: string;
  readonly evidence?: { readonly kind?: string; readonly image_hashes?: unknown };
}

export function productionProblems(
  sections: Readonly<Record<string, unknown>>,
): ProductionProblem[] {
  // The section has been validated.
  const networks = (sections["networks"] ?? {}) as Readonly<Record<string, Entry | null>>;
  return Object.entries(networks).flatMap(([name, entry]): ProductionProblem[] => {
    const { kind, url, evidence } = entry ?? {};
    if ((kind !== "enclave" && kind !== "sealed") || url === undefined) return [];
    const isSimulated = evidence?.kind === "simulated";
    if (!isSimulated && evidence?.image_hashes !== "any") return [];
    const pointer = `/networks/${name}/evidence`;
    const accepted = isSimulated ? "simulated evidence" : "any image";
    const message = `the network "${name}" accepts enclaves with ${accepted}`;
    return [{ code: "SLUICE_STRICT_EVIDENCE", pointer, message }];
  });
}
