import type { Explanation } from "../pipeline/observe/explanation.ts";
import type { ExplanationStore } from "../pipeline/observe/explanation-store.ts";
import type { FoundExchanges, Log, Replicas } from "../plugin.ts";

const topic = "explain";

export interface ExplainEverywhere extends Disposable {
  find(requestId: string): Promise<FoundExchanges>;
}

/** `local`: the exchanges of this gateway. `shared`: undefined without a database. */
export function explainEverywhere(
  local: ExplanationStore,
  shared: { readonly replicas: Replicas; readonly name: string } | undefined,
  log: Log,
): ExplainEverywhere {
  const own = (requestId: string): readonly Explanation[] =>
    local
      .find(requestId)
      .map((exchange) => (shared === undefined ? exchange : { ...exchange, replica: shared.name }));
  const receiver = shared?.replicas.receive(topic, (requestId) => own(String(requestId)));
  return {
    async find(requestId) {
      if (shared === undefined) return { exchanges: own(requestId), missing: [] };
      try {
        const answers = await shared.replicas.ask(topic, requestId);
        // The type is right for gateways of the same release. Another release may send other members.
        const others = answers.flatMap(({ answer }) => (answer?.value ?? []) as Explanation[]);
        return {
          exchanges: [...own(requestId), ...others].sort((a, b) => (a.at < b.at ? 1 : -1)),
          missing: answers.flatMap((each) => (each.answer === undefined ? [each.name] : [])),
        };
      } catch (error) {
        log.warn({ err: error }, "the other gateways cannot be asked about a request");
        return { exchanges: own(requestId), missing: ["all other gateways"] };
      }
    },
    [Symbol.dispose]: () => receiver?.[Symbol.dispose](),
  };
}
