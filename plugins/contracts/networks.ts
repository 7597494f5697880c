/**
 * The service `networks`: the inference networks and their workers. Implemented in plugins/inference/networks. Other
 * services can add kinds of networks: routes to workers, and attempts to answer a request.
 */
import type { Log, UpstreamFailure } from "sluice-gateway/plugin";
import type {
  AttemptFailure,
  EvidenceKind,
  InferenceRequest,
  ListedPrices,
  ModelEntry,
  ModelOverride,
  Offer,
  PromptOptions,
  TokenUsage,
  WholeMessage,
  WorkerApi,
} from "./inference.ts";
import type { Price, TokenCounts, TokenPrices } from "./pricing.ts";
import type { ChangedBy } from "./principal.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    networks: Networks;
  }
}

export interface Networks {
  /** Names in the order of pipeline.yaml. */
  readonly names: readonly string[];
  /** Returns models in a stable order. Empty for a network that is not configured. */
  models(network?: string): readonly ModelEntry[];
  /**
   * Replaces all overrides of a network with `models`, which must have distinct ids. Returns the models that the
   * network then lists. Undefined if the overrides could not be written or the network does not exist; nothing has
   * changed in that case. The change is durable when the method has returned, or the surrounding transaction has
   * committed. Every gateway on the same store applies it within 1 s.
   */
  override(
    network: string,
    models: readonly ModelOverride[],
    by: ChangedBy,
  ): Promise<readonly ModelEntry[] | undefined>;
  /**
   * Returns true while the models of this network, or of any network if it is not given, are unknown because its
   * status document has never been read.
   */
  unread(network?: string): boolean;
  /**
   * Returns the offer of this network, or if it is not given, that of the first network of pipeline.yaml with an active
   * worker for the model, else of the first that lists the model. Undefined if none lists it.
   */
  find(modelId: string, network?: string): Offer | undefined;
  /** The networks that are open, in the order of pipeline.yaml. */
  readonly open: readonly OpenNetwork[];
  /**
   * Opens the networks of this kind. A service calls it when it starts, so that they are open before any other plugin
   * asks for them.
   */
  addKind(name: string, kind: NetworkKind): void;
}

/** Price of one native token in USD: a fixed decimal, or polled from a JSON document at a JSON Pointer (RFC 6901). */
export type RateConfig =
  | { readonly kind: "fixed"; readonly usd: string }
  | {
      readonly kind: "polled";
      readonly url: string;
      readonly pointer: string;
      readonly everyMs: number;
      /** Time for which the last value counts while the document cannot be read. */
      readonly maxAgeMs: number;
    };

/** A network of pipeline.yaml. Those without a `url` are disabled and not listed. */
export interface NetworkConfig {
  readonly name: string;
  /** Protocol of its workers: `openai`, or a kind that another service adds. */
  readonly kind: string;
  /** `openai`: base URL, with or without `/v1` at the end. Other kinds: URL of the worker. */
  readonly url: string;
  /** Origins, in addition to that of `url`, to which requests for its workers may be sent. */
  readonly origins: readonly string[];
  /** Document with workers and prices. Undefined if the network has none of its own. */
  readonly statusUrl: string | undefined;
  readonly statusMs: number;
  /** Prices if the status has none. */
  readonly prices: TokenPrices;
  /** The rate of the network, else the rate at the top level of the file. */
  readonly rate: RateConfig | undefined;
  /** Headers sent to its servers, such as `Authorization: Bearer …`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  /** Time limit until a streamed answer begins, and between two chunks of any answer. */
  readonly idleMs: number;
  /** Time limit until an answer that is not streamed begins. */
  readonly answerMs: number;
  /** Number of output tokens for which credit is reserved if the request has no limit. */
  readonly maxOutputTokens: number;
  readonly prompt: PromptOptions;
  readonly speaks: readonly WorkerApi[];
  /** `session`: the requests of a session go to the same worker, while it is not too busy. */
  readonly affinity: "session" | "none";
}

export interface NetworkStatus {
  /** Undefined if the network does not state a price. */
  readonly prices: TokenPrices | undefined;
  readonly workers: readonly ListedWorker[];
}

/** Driver for one protocol of inference networks. */
export interface NetworkKind {
  /** URL schemes of the workers that a status document may list, such as `https:`. */
  readonly workerProtocols: readonly string[];
  /**
   * Returns the URL of the status document of a network whose configuration has no `statusUrl`. Without this method,
   * each model that the network's server lists is a worker.
   */
  statusUrl?(config: NetworkConfig): string;
  /** Undefined if that document is not valid. Default: the status document of decisions.md section 8. */
  readStatus?(config: NetworkConfig, document: unknown): NetworkStatus | undefined;
  /** Called when that document could not be read. `reason`: such as `status 401` or `ECONNREFUSED`. */
  statusFailed?(config: NetworkConfig, reason: string): void;
  /** `changed` must be called when a worker becomes available or unavailable. */
  open(config: NetworkConfig, changed: () => void): Transport;
}

/** `busy` counts as active; a draining worker gets no new requests. */
export type WorkerState = "active" | "busy" | "draining";

export interface ListedWorker {
  readonly id: string;
  readonly model: string;
  /** Thousandths. */
  readonly coefficient: number;
  readonly state: WorkerState;
  /** Base URL. Default: that of the network. */
  readonly url: string | undefined;
  /** Prices for lists of models. Default: those of the network. */
  readonly prices?: ListedPrices | undefined;
}

export interface Transport {
  /** The caller closes the route before the transport. */
  routeTo(listed: ListedWorker): WorkerRoute;
  /** Resolves when all running requests have ended. */
  close(): Promise<void>;
}

export interface WorkerRoute {
  /** True if the worker may be offered to callers. */
  readonly admitted: boolean;
  readonly evidence: EvidenceKind;
  /** Resolves when `admitted` has been determined for the first time. */
  readonly settled: Promise<void>;
  attempt(call: AttemptedCall, worker: AttemptedWorker): RunningAttempt;
  /** Resolves to true if the worker answers. Never rejects. `after`: the failure for which the worker was ejected. */
  probe(after: UpstreamFailure): Promise<boolean>;
  /** Called when a new status document still lists the worker. */
  listedAgain(): void;
  /** Running requests are completed. */
  close(): void;
}

export interface AttemptedWorker {
  readonly id: string;
  /** Counts the requests in flight: add 1 at the start of an attempt and -1 at its end. */
  readonly load: { add(requests: number): void };
  succeeded(): void;
  failed(failure: UpstreamFailure): void;
}

export interface PartialAnswer {
  /** Number of chunks with content or reasoning. */
  readonly chunks: number;
  /** Number of UTF-8 bytes of content and reasoning. */
  readonly bytes: number;
  /** The same two numbers for reasoning alone. */
  readonly reasoningChunks: number;
  readonly reasoningBytes: number;
}

export interface AttemptedCall {
  readonly request: InferenceRequest;
  readonly modelId: string;
  readonly network: { readonly config: NetworkConfig; readonly deps: { readonly log: Log } };
  /** The bytes are borrowed. */
  onChoice(bytes: Buffer, start: number, end: number): void;
  /** Called after all data of one read has been passed on. */
  onRead(): void;
  /** `message`: the answer, if it is in one piece. `native`: as in `AnswerReader`. */
  onEnd(message: WholeMessage | undefined, native?: Buffer): void;
  onError(worker: AttemptedWorker, failure: AttemptFailure): void;
}

/** One request to one worker. It reports the answer to its call. */
export interface RunningAttempt {
  readonly worker: AttemptedWorker;
  /** Undefined while the worker has not sent a valid report. */
  readonly reported: TokenUsage | undefined;
  readonly produced: PartialAnswer;
  readonly finishReason: string | undefined;
  /** Default: that of the network. */
  readonly price?: Price | undefined;
  readonly headers?: readonly string[] | undefined;
  /** True after the worker has received the whole request. */
  readonly hasRequest: boolean;
  begin(): void;
  pause(): void;
  resume(): void;
  /** Called when only the worker's usage is still needed. Asks the worker to end the answer, if the protocol can. */
  wrapUp(): void;
  /** The call is not notified any more. */
  abort(): void;
}

export interface NetworkWorker extends AttemptedWorker {
  readonly route: WorkerRoute;
}

export interface NetworkModel extends Offer {
  readonly entry: ModelEntry;
  /** The workers that may get requests. */
  readonly workers: readonly NetworkWorker[];
  /** Undefined if all have been tried. `session`: as in the request. */
  choose(tried: readonly NetworkWorker[], session?: string): NetworkWorker | undefined;
  priceOf(worker: NetworkWorker): Price;
  /** `coefficient`: thousandths. */
  priceAt(coefficient: number): Price;
}

/** Records metrics of a network's requests. Times are monotonic milliseconds, as returned by `now`. */
export interface CallRecords {
  now(): number;
  /** `since`: when the worker received the request. */
  firstToken(model: string, since: number): void;
  /** `why`: empty if the answer is complete. */
  ended(model: string, since: number, why: "" | "broken" | "client_left"): void;
  /** `worker`: the id of the worker that has reported the tokens. */
  used(model: string, tokens: TokenCounts, worker?: string): void;
}

/** An open network, for services that send requests to its workers in their own way. */
export interface OpenNetwork {
  readonly config: NetworkConfig;
  /** The models by id, in a stable order. */
  readonly models: ReadonlyMap<string, NetworkModel>;
  /** Returns the current price of models without prices of their own. */
  priceAt(coefficient: number): Price;
  readonly callMetrics: CallRecords;
}
