/** Limits the open sessions of each key, across configurations. */
import type { Metrics } from "sluice-gateway/plugin";

export interface OpenSessions {
  /** Counts one more session of the key until the result is disposed of. Undefined if the key has `max` sessions. */
  begin(keyId: string, max: number): Disposable | undefined;
}

export function createOpenSessions(metrics: Metrics): OpenSessions {
  const perKey = new Map<string, number>();
  let total = 0;
  const gauge = metrics
    .gauge("sluice_stream_sessions", "Open sessions of the encrypted stream.")
    .with({});
  return {
    begin(keyId, max) {
      const others = perKey.get(keyId) ?? 0;
      if (others >= max) return undefined;
      perKey.set(keyId, others + 1);
      gauge.set(++total);
      return {
        [Symbol.dispose]() {
          const left = (perKey.get(keyId) ?? 1) - 1;
          if (left === 0) perKey.delete(keyId);
          else perKey.set(keyId, left);
          gauge.set(--total);
        },
      };
    },
  };
}
