/**
 * Prometheus metrics. Requests only add to plain numbers, which are kept here. prom-client renders them as text when
 * they are scraped, and adds the metrics of the process (CPU, memory, event loop, garbage collection).
 */
import { collectDefaultMetrics, Registry, type Metric } from "prom-client";
import type { Counter, Family, Gauge, Histogram, Metrics } from "../contract/metrics.ts";

export interface RenderedMetrics extends Metrics {
  render(): Promise<string>;
  /** Empty if the family has not been declared. A histogram has samples for its buckets, sum and count. */
  read(name: string): readonly ReadSample[];
  /** Declares a gauge whose values are computed each time it is read. Its series can disappear. */
  computed(name: string, help: string, values: () => readonly ComputedValue[]): void;
  /** Returns all families, except the computed ones. */
  dump(): readonly FamilyDump[];
  addUp(others: OtherMetrics): void;
  readonly contentType: string;
}

export interface OtherMetrics {
  readonly families: Iterable<readonly FamilyDump[]>;
  /** Makes `families` the current ones, before all metrics are rendered. Never rejects. */
  refresh(): Promise<void>;
}

/** A family with its samples, which can be sent to another thread. */
export interface FamilyDump {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  /** Whether the samples of several threads are added up. Else that of the first thread which has one counts. */
  readonly addsUp: boolean;
  readonly values: readonly ReadSample[];
}

export type ComputedValue = Pick<ReadSample, "labels" | "value">;

/** One sample of a family. `metricName`: the name of the family, for histograms with `_bucket`, `_sum` or `_count`. */
export interface ReadSample {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export function createMetrics(): RenderedMetrics {
  const registry = new Registry();
  const ofProcess = processMetrics();
  const families = new Map<string, SeriesFamily<Series>>();
  const computed = new Map<string, () => ComputedFamily>();
  let others: OtherMetrics | undefined;
  // Plugins and generations that declare the same family share one object.
  const declare = <S extends Series>(wanted: SeriesFamily<S>): SeriesFamily<S> => {
    const known = families.get(wanted.name);
    if (known === undefined) {
      families.set(wanted.name, wanted);
      // The registry uses only `name` and `get` of a metric.
      registry.registerMetric(wanted as unknown as Metric);
      return wanted;
    }
    if (known.shape !== wanted.shape) {
      throw new Error(
        `metric ${wanted.name} was declared as ${known.shape}, now as ${wanted.shape}`,
      );
    }
    // Families with the same shape have the same type and the same kind of series.
    return known as SeriesFamily<S>;
  };
  const dump = (): FamilyDump[] => [...families.values()].map((family) => family.get());
  return {
    counter: (name, help, labels = []) =>
      declare(new SeriesFamily("counter", name, help, labels, () => new CounterSeries())),
    gauge: (name, help, labels = [], { isSameInThreads = false } = {}) =>
      declare(
        new SeriesFamily(
          "gauge",
          name,
          help,
          labels,
          (end) => new GaugeSeries(end),
          [],
          !isSameInThreads,
        ),
      ),
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
    async render() {
      await others?.refresh();
      const all = others === undefined ? registry : new Registry();
      if (others !== undefined) {
        const sums = addUpFamilies(dump(), others.families);
        for (const family of [...sums, ...Array.from(computed.values(), (get) => get())]) {
          // The registry uses only `name` and `get` of a metric.
          all.registerMetric({ name: family.name, get: () => family } as unknown as Metric);
        }
      }
      return `${await all.metrics()}\n${await ofProcess.metrics()}`;
    },
    read(name) {
      const known = families.get(name);
      const of = (computed.get(name)?.() ?? known?.get())?.values ?? [];
      if (others === undefined || computed.has(name)) return of;
      const only = (each: readonly FamilyDump[]): FamilyDump[] =>
        each.filter((family) => family.name === name);
      const own = known === undefined ? [] : [known.get()];
      return addUpFamilies(own, Array.from(others.families, only))[0]?.values ?? [];
    },
    dump,
    addUp(given) {
      others = given;
    },
    computed(name, help, values) {
      const get = (): ComputedFamily => ({
        name,
        help,
        type: "gauge",
        values: values().map((value) => ({ metricName: name, ...value })),
      });
      computed.set(name, get);
      // The registry uses only `name` and `get` of a metric.
      registry.registerMetric({ name, get } as unknown as Metric);
    },
    contentType: registry.contentType,
  } satisfies RenderedMetrics;
}

type ComputedFamily = Omit<FamilyDump, "addsUp">;

/** Adds up the samples of equal families. Those of `own` come first. */
export function addUpFamilies(
  own: readonly FamilyDump[],
  others: Iterable<readonly FamilyDump[]>,
): readonly FamilyDump[] {
  const families = Map.groupBy([own, ...others].flat(), ({ name }) => name);
  return Array.from(families.values(), (parts) => {
    const samples = new Map<string, ReadSample>();
    for (const { addsUp, values } of parts) {
      for (const sample of values) {
        const key = `${sample.metricName} ${JSON.stringify(sample.labels)}`;
        const { value: before = 0 } = samples.get(key) ?? {};
        if (addsUp) samples.set(key, { ...sample, value: before + sample.value });
        else if (!samples.has(key)) samples.set(key, sample);
      }
    }
    const [first] = parts as [FamilyDump];
    return { ...first, values: [...samples.values()] };
  });
}

let processRegistry: Registry | undefined;

/** Returns the registry of the process, created with the first gateway. Its observers cannot be removed again. */
function processMetrics(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
  }
  return processRegistry;
}

/**
 * One line of the exposition. `suffix`: the text after the family's name (`_bucket`). `le`: upper bound of a bucket.
 */
interface Sample {
  readonly suffix: string;
  readonly le?: string;
  readonly value: number;
}

interface Series {
  /** Called each time that `with` returns it. */
  used?(): void;
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
  #users = 0;
  readonly #end: () => void;

  constructor(end: () => void) {
    this.#end = end;
  }

  used(): void {
    this.#users++;
  }

  set(n: number): void {
    this.#value = n;
  }

  remove(): void {
    if (--this.#users === 0) this.#end();
  }

  samples(): readonly Sample[] {
    return [{ suffix: "", value: this.#value }];
  }
}

class HistogramSeries implements Histogram, Series {
  readonly #bounds: readonly number[];
  /** Observations per bucket, not cumulative. The last bucket has no upper bound. */
  readonly #counts: number[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    // Most observations are in the lower buckets, so a linear search is faster than a binary search.
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

/** All series with the same name. Throws if Prometheus does not accept a name, which is a bug of the declaring code. */
class SeriesFamily<S extends Series> implements Family<string, S> {
  readonly name: string;
  /** Type, labels and buckets. Two declarations of one metric must have the same shape. */
  readonly shape: string;
  readonly #type: string;
  readonly #help: string;
  readonly #labels: readonly string[];
  readonly #create: (end: () => void) => S;
  readonly #addsUp: boolean;
  readonly #series = new Map<string, { labels: Readonly<Record<string, string>>; series: S }>();

  constructor(
    type: "counter" | "gauge" | "histogram",
    name: string,
    help: string,
    labels: readonly string[],
    create: (end: () => void) => S,
    buckets: readonly number[] = [],
    addsUp = true,
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
    this.#addsUp = addsUp;
  }

  with(labels: Readonly<Record<string, string>>): S {
    const values = this.#labels.map((label) => labels[label] ?? "");
    const key = JSON.stringify(values);
    let known = this.#series.get(key);
    if (known === undefined) {
      const own = Object.fromEntries(this.#labels.map((label, at) => [label, values[at] ?? ""]));
      known = { labels: own, series: this.#create(() => this.#series.delete(key)) };
      this.#series.set(key, known);
    }
    known.series.used?.();
    return known.series;
  }

  /** Called by the registry of prom-client when it renders. */
  get(): FamilyDump {
    const values = [...this.#series.values()].flatMap(({ labels, series }) =>
      series.samples().map(({ suffix, le, value }) => ({
        metricName: this.name + suffix,
        labels: le === undefined ? labels : { ...labels, le },
        value,
      })),
    );
    return {
      name: this.name,
      help: this.#help,
      type: this.#type,
      addsUp: this.#addsUp,
      values,
    };
  }
}
