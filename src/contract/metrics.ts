/** The service `host.metrics`. Implemented in src/base/metrics.ts. */

/**
 * Prometheus metrics. Bind label values once, in `start`, so that requests only add numbers. Never take a label value
 * from user input, because each value is a time series of its own.
 */
export interface Metrics {
  counter<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
  ): Family<L, Counter>;
  /**
   * With several threads, the values of all threads are added up, unless `isSameInThreads` says that each thread shows
   * the same fact, such as whether a backend can be used.
   */
  gauge<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
    options?: { readonly isSameInThreads?: boolean },
  ): Family<L, Gauge>;
  /** `buckets`: ascending upper bounds in the unit of the metric (seconds for latencies). */
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly L[],
  ): Family<L, Histogram>;
}
export interface Family<L extends string, M> {
  /** Returns the series with these label values. Equal values return the same object. */
  with(labels: Readonly<Record<L, string>>): M;
}
export interface Counter {
  add(n: number): void;
}
export interface Gauge {
  set(n: number): void;
  /**
   * Says that the value describes nothing any more, such as a backend that a reload has removed. The series ends when
   * this was called as often as `with` returned it.
   */
  remove(): void;
}
export interface Histogram {
  observe(value: number): void;
}
