import {
  checkWord,
  optionText,
  optionTexts,
  UsageError,
  type CommandContext,
  type OptionValues,
} from "sluice-gateway/internal/module";
import type { ConnectOptions } from "../client/client.ts";
import { readSevSnp } from "../protocol/sev-snp-policy.ts";
import type { SnpMinimums, SnpPolicy } from "../verify/policy.ts";

export const evidenceOptions = {
  termination: { type: "string" },
  "policy-key": { type: "string" },
  "image-hash": { type: "string", multiple: true },
  "min-tcb": { type: "string", multiple: true },
  "without-crl": { type: "boolean" },
  "allow-simulated": { type: "boolean" },
  "simulated-root": { type: "string", multiple: true },
} as const;

export const evidenceHelp = `\
--termination WHERE     worker or gateway: where encryption ends (default: as in the policy document, else worker)
--policy-key KEY        public key of the operator's policy document, in base64url. The document lists what may run
--image-hash HEX        image that may run; may be given several times. "any" accepts every image
--min-tcb PRODUCT=LIST  SEV-SNP: minimum TCB of a product, such as Genoa=snp:27,microcode:84 (default: the minimum in
                        the policy document); may be given several times. "any" accepts every TCB
--without-crl           SEV-SNP: accept evidence without AMD's revocation list
--allow-simulated       accept simulated evidence, which no hardware attests
--simulated-root B64    test root of simulated evidence, as printed by sluice dev and sluice worker`;

/** Reads the argument URL and the option `--key`. Throws a UsageError if one of them is not valid. */
export function readGateway(
  { env }: CommandContext,
  values: OptionValues,
  [url, extra]: readonly string[],
): { readonly url: string; readonly apiKey: string } {
  if (url === undefined) throw new UsageError("missing argument URL");
  if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
  if (!URL.canParse(url)) throw new UsageError(`expected a URL, got "${url}"`);
  const apiKey = optionText(values, "key") ?? env["SLUICE_API_KEY"] ?? "";
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError("missing or invalid --key (or SLUICE_API_KEY)");
  }
  return { url, apiKey };
}

/** Throws a UsageError if a value is not valid. */
export function readEvidenceOptions(
  values: OptionValues,
): Pick<
  ConnectOptions,
  "termination" | "policyKey" | "imageHashes" | "sevSnp" | "allowSimulated" | "simulatedRoots"
> {
  const images = optionTexts(values, "image-hash");
  const termination = optionText(values, "termination");
  const policyKey = optionText(values, "policy-key");
  return {
    ...(termination !== undefined && {
      termination: checkWord(termination, ["worker", "gateway"] as const, "termination"),
    }),
    ...(policyKey !== undefined && { policyKey }),
    ...(images !== undefined && {
      imageHashes: images.includes("any") ? "any" : images.map(readImageHash),
    }),
    sevSnp: readSnpPolicy(values),
    allowSimulated: values["allow-simulated"] === true,
    simulatedRoots: (optionTexts(values, "simulated-root") ?? []).map(readRoot),
  };
}

function readImageHash(text: string): string {
  const hash = text.toLowerCase();
  if (/^[0-9a-f]{64}$/.test(hash)) return hash;
  throw new UsageError(`--image-hash: expected a SHA-256 in hex, or any; got "${text}"`);
}

function readRoot(text: string): string {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return text;
  throw new UsageError("--simulated-root: expected a certificate in base64");
}

function readSnpPolicy(values: OptionValues): SnpPolicy {
  const given = optionTexts(values, "min-tcb");
  const minTcb = given?.includes("any") === true ? "any" : given && readMinimums(given);
  return {
    ...(minTcb !== undefined && { minTcb }),
    ...(values["without-crl"] === true && { requireCrl: false }),
  };
}

/** `given`: such as `Genoa=snp:27,microcode:84`. */
function readMinimums(given: readonly string[]): SnpMinimums {
  const products = given.map((each) => {
    const [product = "", list = ""] = each.split("=", 2);
    const parts = list.split(",").map((part) => {
      const [name = "", level = ""] = part.split(":", 2);
      return [name, /^\d{1,3}$/.test(level) ? Number(level) : level] as const;
    });
    return [product, Object.fromEntries(parts)] as const;
  });
  const read = readSevSnp({ min_tcb: Object.fromEntries(products) });
  if (typeof read === "string" || read.min_tcb === "any") {
    const wanted = "expected PRODUCT=PART:LEVEL,…, such as Genoa=snp:27,microcode:84";
    throw new UsageError(`--min-tcb: ${wanted}, got "${given.join(" ")}"`);
  }
  return read.min_tcb;
}
