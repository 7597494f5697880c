/**
 * Prometheus metrics. The data path adds to plain numbers held here; prom-client turns them into text when somebody
 * asks, and brings the metrics of the process (CPU, memory, event loop, garbage collection).
 */
import { collectDefaultMetrics, Registry, type Metric } from "prom-client";
import type { Counter, Family, Gauge, Histogram, Metrics } from "./services/metrics.ts";

export interface RenderedMetrics extends Metrics {
  /** Everything in the text exposition format. */
  render(): Promise<string>;
  /** What a family holds now, a histogram as its buckets, sum and count; empty while nothing has declared it. */
  read(name: string): readonly ReadSample[];
  /** Media type of what `render` gives. */
  readonly contentType: string;
}

/** One number of a family: its own name, or that with `_bucket`, `_sum` or `_count` behind it. */
export interface ReadSample {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export function createMetrics(): RenderedMetrics {
  const registry = new Registry();
  const ofProcess = processMetrics();
  const families = new Map<string, SeriesFamily<Series>>();
  // Several plugins, and every generation of a reload, declare the same families: they share one.
  const declare = <S extends Series>(wanted: SeriesFamily<S>): SeriesFamily<S> => {
    const known = families.get(wanted.name);
    if (known === undefined) {
      families.set(wanted.name, wanted);
      // The registry asks a metric for nothing but `name` and `get`, which is all that its own classes share.
      registry.registerMetric(wanted as unknown as Metric);
      return wanted;
    }
    if (known.shape !== wanted.shape) {
      throw new Error(
        `metric ${wanted.name} was declared as ${known.shape}, now as ${wanted.shape}`,
      );
    }
    // The same shape has the same type, and so the same kind of series.
    return known as SeriesFamily<S>;
  };
  return {
    counter: (name, help, labels = []) =>
      declare(new SeriesFamily("counter", name, help, labels, () => new CounterSeries())),
    gauge: (name, help, labels = []) =>
      declare(new SeriesFamily("gauge", name, help, labels, () => new GaugeSeries())),
    histogram: (name, help, buckets, labels = []) =>
      declare(
        new SeriesFamily(
          "histogram",
          name,
          help,
          labels,
          () => new HistogramSeries(buckets),
          buckets,
        ),
      ),
    render: async () => `${await registry.metrics()}\n${await ofProcess.metrics()}`,
    read: (name) => families.get(name)?.get().values ?? [],
    contentType: registry.contentType,
  } satisfies RenderedMetrics;
}

let processRegistry: Registry | undefined;

/** One for the process, from the first gateway on: its observers cannot be taken down again. */
function processMetrics(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
  }
  return processRegistry;
}

/** One line of the exposition. `suffix` follows the family's name (`_bucket`), `le` is a bucket's upper bound. */
interface Sample {
  readonly suffix: string;
  readonly le?: string;
  readonly value: number;
}

interface Series {
  samples(): readonly Sample[];
}

class CounterSeries implements Counter, Series {
  #value = 0;

  add(n: number): void {
    this.#value += n;
  }

  samples(): readonly Sample[] {
    return [{ suffix: "", value: this.#value }];
  }
}

class GaugeSeries implements Gauge, Series {
  #value = 0;

  set(n: number): void {
    this.#value = n;
  }

  samples(): readonly Sample[] {
    return [{ suffix: "", value: this.#value }];
  }
}

class HistogramSeries implements Histogram, Series {
  readonly #bounds: readonly number[];
  /** Observations in each bucket alone; the last has no upper bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    // Most observations fall into the lower buckets, so walking up beats halving.
    while (bucket < bounds.length && value > (bounds[bucket] ?? Infinity)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  samples(): readonly Sample[] {
    let total = 0;
    const buckets = this.#counts.map((count, index): Sample => {
      total += count;
      return { suffix: "_bucket", le: String(this.#bounds[index] ?? "+Inf"), value: total };
    });
    return [...buckets, { suffix: "_sum", value: this.#sum }, { suffix: "_count", value: total }];
  }
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const labelName = /^(?!le$|__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** All series of a name. Throws on names that Prometheus would not read: a bug of whoever declares them. */
class SeriesFamily<S extends Series> implements Family<string, S> {
  readonly name: string;
  /** What must be equal for two declarations to mean the same metric. */
  readonly shape: string;
  readonly #type: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  readonly #create: () => S;
  readonly #series = new Map<string, { labels: Readonly<Record<string, string>>; series: S }>();

  constructor(
    type: "counter" | "gauge" | "histogram",
    name: string,
    help: string,
    labels: readonly string[],
    create: () => S,
    buckets: readonly number[] = [],
  ) {
    if (!metricName.test(name)) throw new Error(`"${name}" is not a metric name`);
    for (const label of labels) {
      if (!labelName.test(label)) throw new Error(`${name}: "${label}" is not a label name`);
    }
    if (buckets.some((bound, index) => !(bound > (buckets[index - 1] ?? -Infinity)))) {
      throw new Error(`${name}: buckets must ascend`);
    }
    this.name = name;
    this.shape = `${type}(${labels.join(", ")})${buckets.length > 0 ? ` of ${buckets.join(", ")}` : ""}`;
    this.#type = type;
    this.#help = help;
    this.#labels = labels;
    this.#create = create;
  }

  with(labels: Readonly<Record<string, string>>): S {
    const values = this.#labels.map((label) => labels[label] ?? "");
    const key = JSON.stringify(values);
    let known = this.#series.get(key);
    if (known === undefined) {
      const own = Object.fromEntries(this.#labels.map((label, at) => [label, values[at] ?? ""]));
      known = { labels: own, series: this.#create() };
      this.#series.set(key, known);
    }
    return known.series;
  }

  /** What prom-client's registry reads when it renders. */
  get(): {
    readonly name: string;
    readonly values: readonly ReadSample[];
    [more: string]: unknown;
  } {
    const values = [...this.#series.values()].flatMap(({ labels, series }) =>
      series.samples().map(({ suffix, le, value }) => ({
        metricName: this.name + suffix,
        labels: le === undefined ? labels : { ...labels, le },
        value,
      })),
    );
    return { name: this.name, help: this.#help, type: this.#type, values };
  }
}
