/** The sessions that are open, whichever configuration they began with: of each key no more than it may have at once. */
import type { Metrics } from "../../../src/services/metrics.ts";

export interface OpenSessions {
  /** One more of the key, until it is disposed of; undefined: it has `most` already. */
  begin(keyId: string, most: number): Disposable | undefined;
}

export function createOpenSessions(metrics: Metrics): OpenSessions {
  const ofKey = new Map<string, number>();
  let all = 0;
  const gauge = metrics
    .gauge("sluice_stream_sessions", "Open sessions of the encrypted stream.")
    .with({});
  return {
    begin(keyId, most) {
      const others = ofKey.get(keyId) ?? 0;
      if (others >= most) return undefined;
      ofKey.set(keyId, others + 1);
      gauge.set(++all);
      return {
        [Symbol.dispose]() {
          const left = (ofKey.get(keyId) ?? 1) - 1;
          if (left === 0) ofKey.delete(keyId);
          else ofKey.set(keyId, left);
          gauge.set(--all);
        },
      };
    },
  };
}
