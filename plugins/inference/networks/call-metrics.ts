import type { Clock, Counter, Family, Histogram, Log, Metrics } from "sluice-gateway/plugin";
import type {
  AttemptedWorker,
  InferenceFailure,
  TokenCounts,
  TokenUsage,
} from "sluice-gateway/services";
import type { UsageLimit } from "./token-usage.ts";

/** Maximum number of separate series. A network chooses the names of models and workers. */
const maxNames = 200;
const otherNames = "_other";
/** Minimum time between two log lines about the same worker. */
const minLogIntervalMs = 60_000;

/**
 * Metrics of OpenTelemetry's conventions for generative AI
 * (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/), with their Prometheus names and the recommended
 * buckets.
 */
const tokenBuckets = Array.from({ length: 14 }, (_, power) => 4 ** power);
const durationBuckets = Array.from({ length: 14 }, (_, power) => 0.01 * 2 ** power);
const firstTokenBuckets = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
];
const modelLabels = [
  "gen_ai_operation_name",
  "gen_ai_provider_name",
  "gen_ai_request_model",
  "network",
] as const;
type ModelLabel = (typeof modelLabels)[number];

interface ModelHistograms {
  readonly input: Histogram;
  readonly output: Histogram;
  readonly firstToken: Histogram;
  /** Histograms by the reason why the answer is missing or incomplete, empty for a complete answer. */
  readonly durations: Map<string, Histogram>;
  readonly labels: Readonly<Record<ModelLabel, string>>;
}

/** Values of the label `error_type`. */
type CallEnd = InferenceFailure | "client_left";

export class CallMetrics {
  readonly #log: Log;
  readonly #network: string;
  readonly #clock: Clock;
  readonly #tokens: Family<ModelLabel | "gen_ai_token_type", Histogram>;
  readonly #durations: Family<ModelLabel | "error_type", Histogram>;
  readonly #firstTokens: Family<ModelLabel, Histogram>;
  readonly #implausibleReports: (worker: string) => Counter;
  readonly #cappedStreams: (worker: string) => Counter;
  readonly #reportedPrompts: (worker: string) => Counter;
  readonly #cachedTokens: (worker: string) => Counter;
  readonly #models = new Map<string, ModelHistograms>();
  readonly #quietUntil = new WeakMap<AttemptedWorker, number>();

  constructor(
    network: string,
    {
      clock,
      log,
      metrics,
    }: { readonly clock: Clock; readonly log: Log; readonly metrics: Metrics },
  ) {
    this.#log = log;
    this.#network = network;
    this.#clock = clock;
    this.#tokens = metrics.histogram(
      "gen_ai_client_token_usage",
      "Charged tokens of a chat completion, by prompt (`input`) and completion (`output`).",
      tokenBuckets,
      [...modelLabels, "gen_ai_token_type"],
    );
    this.#durations = metrics.histogram(
      "gen_ai_server_request_duration_seconds",
      "Time from sending a chat completion to a worker to the end of its answer, including retries.",
      durationBuckets,
      [...modelLabels, "error_type"],
    );
    this.#firstTokens = metrics.histogram(
      "gen_ai_server_time_to_first_token_seconds",
      "Time from sending a streamed chat completion to a worker to the first token.",
      firstTokenBuckets,
      modelLabels,
    );
    const byWorker = (name: string, help: string): ((worker: string) => Counter) => {
      const family = metrics.counter(name, help, ["network", "worker"]);
      const known = new Map<string, Counter>();
      return (worker) =>
        seriesOf(known, worker, (label) => family.with({ network, worker: label }));
    };
    this.#implausibleReports = byWorker(
      "sluice_inference_disbelieved_usage_total",
      "Usage reports of a worker that exceeded the limits of the request. The gateway estimated the tokens instead.",
    );
    this.#reportedPrompts = byWorker(
      "sluice_inference_reported_prompt_tokens_total",
      "Charged prompt tokens of a worker's answers whose usage report states how many of them were cached.",
    );
    this.#cachedTokens = byWorker(
      "sluice_inference_cached_tokens_total",
      "Cached tokens among `sluice_inference_reported_prompt_tokens_total`.",
    );
    this.#cappedStreams = byWorker(
      "sluice_inference_capped_streams_total",
      "Streams that the gateway ended because the worker wrote more tokens than the request allows.",
    );
  }

  now(): number {
    return this.#clock.monotonic();
  }

  firstToken(model: string, since: number): void {
    this.#of(model).firstToken.observe((this.now() - since) / 1000);
  }

  ended(model: string, since: number, why: CallEnd | ""): void {
    const { durations, labels } = this.#of(model);
    let duration = durations.get(why);
    if (duration === undefined) {
      duration = this.#durations.with({ ...labels, error_type: why });
      durations.set(why, duration);
    }
    duration.observe((this.now() - since) / 1000);
  }

  used(model: string, tokens: TokenCounts, worker?: string): void {
    const { promptTokens, completionTokens, cachedTokens } = tokens;
    const { input, output } = this.#of(model);
    input.observe(promptTokens);
    output.observe(completionTokens);
    if (worker === undefined || cachedTokens === undefined) return;
    this.#reportedPrompts(worker).add(promptTokens);
    this.#cachedTokens(worker).add(cachedTokens);
  }

  implausibleUsage(worker: AttemptedWorker, reported: TokenUsage, limit: UsageLimit): void {
    this.#implausibleReports(worker.id).add(1);
    const { estimated: _, ...counts } = reported;
    this.#warn(
      worker,
      {
        reported: counts,
        max: { promptTokens: limit.promptTokens, completionTokens: limit.completionTokens },
      },
      "a worker reported more usage than the request allows; its tokens were estimated instead",
    );
  }

  streamCapped(worker: AttemptedWorker, { completionTokens }: UsageLimit): void {
    this.#cappedStreams(worker.id).add(1);
    const message = "a worker produced more tokens than the request allows; its stream was ended";
    this.#warn(worker, { maxTokens: completionTokens }, message);
  }

  #warn(worker: AttemptedWorker, about: object, message: string): void {
    const now = this.now();
    if (now < (this.#quietUntil.get(worker) ?? 0)) return;
    this.#quietUntil.set(worker, now + minLogIntervalMs);
    this.#log.warn({ network: this.#network, worker: worker.id, ...about }, message);
  }

  #of(model: string): ModelHistograms {
    return seriesOf(this.#models, model, (name) => {
      const labels = {
        gen_ai_operation_name: "chat",
        gen_ai_provider_name: "openai",
        gen_ai_request_model: name,
        network: this.#network,
      };
      return {
        labels,
        input: this.#tokens.with({ ...labels, gen_ai_token_type: "input" }),
        output: this.#tokens.with({ ...labels, gen_ai_token_type: "output" }),
        firstToken: this.#firstTokens.with(labels),
        durations: new Map(),
      };
    });
  }
}

/** Names beyond the maximum share one series. */
function seriesOf<S>(known: Map<string, S>, name: string, make: (label: string) => S): S {
  const label = known.has(name) || known.size < maxNames ? name : otherNames;
  let series = known.get(label);
  if (series === undefined) {
    series = make(label);
    known.set(label, series);
  }
  return series;
}
