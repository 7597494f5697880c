/** Collects a part of a view from all gateways that use the same database. */
import type { Host, Log, Replicas } from "sluice-gateway/plugin";

export interface GatewayPart<T> {
  /** Name of the gateway. Undefined without a database. */
  readonly name: string | undefined;
  readonly version: string;
  /** True for the gateway that shows the view. */
  readonly isOwn: boolean;
  /** Undefined if the gateway has not answered. */
  readonly value: T | undefined;
  readonly heardMsAgo: number;
}

export interface AllGateways<Question, T> extends Disposable {
  /** The own part is first. `isComplete`: false if the others cannot be asked. Rejects only if `own` throws. */
  ask(question: Question): Promise<{
    readonly parts: readonly GatewayPart<T>[];
    readonly isComplete: boolean;
  }>;
}

type GatewayDeps = Pick<Host, "version"> & {
  readonly replicas: Replicas | undefined;
  readonly name: string | undefined;
  readonly log: Log;
};

/**
 * `own`: returns the part of this gateway. It is also the answer to other gateways. Gateways of other releases have
 * parts of another shape, so `topic` must change whenever the shape changes.
 */
export function askAllGateways<Question, T>(
  { replicas, name, version, log }: GatewayDeps,
  topic: string,
  own: (question: Question) => T,
): AllGateways<Question, T> {
  const receiver = replicas?.receive(topic, (question) => own(question as Question));
  return {
    async ask(question) {
      const ours = { name, version, isOwn: true, value: own(question), heardMsAgo: 0 };
      if (replicas === undefined) return { parts: [ours], isComplete: true };
      try {
        const answers = await replicas.ask(topic, question);
        const others = answers.map(({ answer, ...other }) => ({
          name: other.name,
          version: other.version,
          isOwn: false,
          value: answer?.value as T | undefined,
          heardMsAgo: other.heardMsAgo,
        }));
        return { parts: [ours, ...others], isComplete: true };
      } catch (error) {
        log.warn({ err: error }, "dashboard: the other gateways cannot be asked");
        return { parts: [ours], isComplete: false };
      }
    },
    [Symbol.dispose]: () => receiver?.[Symbol.dispose](),
  };
}
