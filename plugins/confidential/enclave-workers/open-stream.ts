import type { NetworkModel, NetworkWorker, OpenNetwork } from "sluice-gateway/services";
import { fault, isFault, type Fault, type StreamCode } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import type { AttestedUpstream } from "../confidential-relay/open-enclave.ts";
import { EnclaveRoute } from "./route.ts";

const maxAttempts = 3;

/**
 * Chooses a worker and its price. If a worker fails or refuses, another one is tried, which is safe because no request
 * has been sent yet. `helloBytes`: the `hello` frame as received. Faults that concern all workers were refused before.
 */
export async function openStream(
  network: OpenNetwork,
  helloBytes: Uint8Array,
  hello: Hello,
): Promise<AttestedUpstream | Fault> {
  const tried: NetworkWorker[] = [];
  let failed: Fault = fault("MODEL_NOT_AVAILABLE", "no worker serves the model");
  while (tried.length < maxAttempts) {
    const model = network.models.get(hello.model);
    const worker = model?.choose([...tried, ...tooExpensive(model, hello.maxCoefficient)]);
    if (model === undefined || worker === undefined) {
      const isTooExpensive = tried.length === 0 && (model?.activeWorkers ?? 0) > 0;
      const message = "the coefficient of every worker is above max_coefficient";
      return isTooExpensive ? fault("PRICE_ABOVE_MAX", message) : failed;
    }
    tried.push(worker);
    const serving = await openAt(network, model, worker, helloBytes, hello);
    if (!isFault(serving)) return serving;
    failed = serving;
  }
  return failed;
}

function tooExpensive(
  model: NetworkModel | undefined,
  maxCoefficient: number | undefined,
): readonly NetworkWorker[] {
  if (model === undefined || maxCoefficient === undefined) return [];
  return model.workers.filter(
    (worker) => model.priceOf(worker).pricing.coefficient > maxCoefficient,
  );
}

async function openAt(
  network: OpenNetwork,
  model: NetworkModel,
  worker: NetworkWorker,
  helloBytes: Uint8Array,
  hello: Hello,
): Promise<AttestedUpstream | Fault> {
  const { route } = worker;
  if (!(route instanceof EnclaveRoute)) {
    return fault("TERMINATION_NOT_AVAILABLE", "the worker is not an enclave");
  }
  worker.load.add(1);
  const opened = await route.open(helloBytes, hello).catch((error: unknown) => {
    worker.load.add(-1);
    throw error;
  });
  if (isFault(opened)) {
    worker.load.add(-1);
    if (!isRefusal(opened)) {
      const kind = opened.code === "UPSTREAM_FAILED" ? "refused" : "unusable";
      worker.failed({ kind, code: opened.code });
    }
    return opened;
  }
  return {
    ...opened,
    workerId: worker.id,
    price: model.priceOf(worker),
    records: network.callMetrics,
    onEnd(isHealthy) {
      worker.load.add(-1);
      if (isHealthy === true) worker.succeeded();
      else if (isHealthy === false) worker.failed({ kind: "closed" });
    },
  };
}

/**
 * Returns true if a healthy worker has refused this `hello`. That must not count as a failure of the worker: otherwise
 * a client could make the gateway eject every worker.
 */
function isRefusal({ code }: Fault): boolean {
  return refusals.has(code);
}

const refusals: ReadonlySet<StreamCode> = new Set([
  "BAD_FRAME",
  "SUITE_UNSUPPORTED",
  "LIMIT_EXCEEDED",
  "PRICE_ABOVE_MAX",
  "RATE_LIMITED",
]);
