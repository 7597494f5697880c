/** A session of a client's with one of a network's workers: which worker, and at what price. */
import { fault, isFault, type Fault, type StreamCode } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import type { AttestedUpstream } from "../relay/upstream-session.ts";
import type { Model } from "../../inference/networks/model.ts";
import type { Network } from "../../inference/networks/network.ts";
import type { Worker } from "../../inference/networks/worker.ts";
import { EnclaveRoute } from "./route.ts";

/** The first worker and two more. */
const mostAttempts = 3;

/**
 * Until a request is sent nothing is lost: a worker that fails or refuses is replaced by another. `helloBytes` as they
 * came; what is wrong with them for every worker has been refused before.
 */
export async function openStream(
  network: Network,
  helloBytes: Uint8Array,
  hello: Hello,
): Promise<AttestedUpstream | Fault> {
  const tried: Worker[] = [];
  let failed: Fault = fault("MODEL_NOT_AVAILABLE", "no worker serves the model");
  while (tried.length < mostAttempts) {
    const model = network.models.get(hello.model);
    const worker = model?.choose([...tried, ...tooDear(model, hello.maxCoefficient)]);
    if (model === undefined || worker === undefined) {
      const isDear = tried.length === 0 && (model?.activeWorkers ?? 0) > 0;
      return isDear ? fault("PRICE_ABOVE_MAX", "every worker costs more") : failed;
    }
    tried.push(worker);
    const serving = await openAt(network, model, worker, helloBytes, hello);
    if (!isFault(serving)) return serving;
    failed = serving;
  }
  return failed;
}

function tooDear(model: Model | undefined, most: number | undefined): readonly Worker[] {
  if (model === undefined || most === undefined) return [];
  return model.workers.filter((worker) => model.priceOf(worker).pricing.coefficient > most);
}

async function openAt(
  network: Network,
  model: Model,
  worker: Worker,
  helloBytes: Uint8Array,
  hello: Hello,
): Promise<AttestedUpstream | Fault> {
  const { route } = worker;
  if (!(route instanceof EnclaveRoute)) return fault("TERMINATION_NOT_AVAILABLE", "no enclave");
  worker.inFlight++;
  const opened = await route.open(helloBytes, hello).catch((error: unknown) => {
    worker.inFlight--;
    throw error;
  });
  if (isFault(opened)) {
    worker.inFlight--;
    if (!isRefusal(opened)) worker.failed(opened.code === "UPSTREAM_FAILED");
    return opened;
  }
  return {
    ...opened,
    workerId: worker.id,
    price: model.priceOf(worker),
    records: network.records,
    ended(isSound) {
      worker.inFlight--;
      if (isSound === true) worker.succeeded();
      else if (isSound === false) worker.failed(false);
    },
  };
}

/** The worker is well and will not have this `hello`: otherwise a caller could have every worker left out. */
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
