/** The encrypted stream of `sluice dev`: simulated evidence, unless CONFIDENTIAL_EVIDENCE is set. */
import type { Demo } from "sluice-gateway/internal/module";
import { isObject } from "sluice-gateway/internal/toolkit";

export const demo: Demo = {
  help: {
    text: "The encrypted stream ends in this process. Its evidence is simulated and proves nothing, so clients must opt in.",
    variables: {
      CONFIDENTIAL_EVIDENCE:
        "source of real attestation evidence for this process: auto, tdx, sev-snp or dstack",
    },
  },

  async start(env) {
    return env["CONFIDENTIAL_EVIDENCE"] ? {} : { CONFIDENTIAL_EVIDENCE: "simulated" };
  },

  async describe({ gateway, key, demoEnv }) {
    const nothing = { position: 3, lines: [], json: {} };
    const { config, url } = gateway;
    const route = config.routes.find(({ to }) => to.name === "confidential-stream");
    const networks = gateway.use("networks")?.open ?? [];
    const network = networks.find(({ config: { kind } }) => kind === "openai")?.config;
    if (route === undefined || network === undefined || !isSimulated(route.to.options)) {
      return nothing;
    }
    const root = await gateway.use("attestation")?.simulatedRoot();
    if (root === undefined) return nothing;
    const streamUrl = url + route.path;
    const model = demoEnv["SLUICE_DEMO_MODEL"];
    const target = [
      `${url} --key ${key?.text ?? ""} --network ${network.name} --model ${model}`,
      `--termination gateway --image-hash any --allow-simulated --simulated-root ${root}`,
    ].join(" ");
    return {
      ...nothing,
      lines: [["encrypted", `${streamUrl} (SIMULATED - NOT A TEE)`]],
      json: { stream_url: streamUrl, simulated_root: root },
      // The model ids of a server other than the demo model are unknown here.
      commands:
        model === undefined
          ? []
          : [`npx sluice verify ${target}`, `npx sluice connect ${target} --configure claude`],
    };
  },
};

function isSimulated({ evidence }: Readonly<Record<string, unknown>>): boolean {
  return isObject(evidence) && evidence["kind"] === "simulated";
}
