import { plaintextProblems, type ProductionProblem } from "sluice-gateway/internal/module";

interface Entry {
  readonly kind?: string;
  readonly url?: string;
  readonly status?: { readonly url?: string };
}

/** Prompts to enclaves are encrypted by the client, so only the URLs of other networks need TLS. */
export function productionProblems(
  sections: Readonly<Record<string, unknown>>,
): ProductionProblem[] {
  // The section has been validated.
  const networks = (sections["networks"] ?? {}) as Readonly<Record<string, Entry | null>>;
  return Object.entries(networks).flatMap(([name, entry]) => {
    const { kind = "openai", url, status } = entry ?? {};
    if (url === undefined) return [];
    const what = `the network "${name}"`;
    const own = kind === "openai" ? plaintextProblems(what, `/networks/${name}/url`, [url]) : [];
    const statusUrls = status?.url === undefined ? [] : [status.url];
    const pointer = `/networks/${name}/status/url`;
    return [...own, ...plaintextProblems(`the status of ${what}`, pointer, statusUrls)];
  });
}
