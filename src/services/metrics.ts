/** The service `host.metrics`: implemented in src/metrics.ts. */

/**
 * Prometheus metrics. Bind label values once, at start: the data path only adds numbers. Labels never from user input.
 */
export interface Metrics {
  counter<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
  ): Family<L, Counter>;
  gauge<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
  ): Family<L, Gauge>;
  /** `buckets`: upper bounds in the metric's unit (seconds for latencies), ascending. */
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly L[],
  ): Family<L, Histogram>;
}
export interface Family<L extends string, M> {
  /** The series with these label values; the same object for the same values. */
  with(labels: Readonly<Record<L, string>>): M;
}
export interface Counter {
  add(n: number): void;
}
export interface Gauge {
  set(n: number): void;
}
export interface Histogram {
  observe(value: number): void;
}
