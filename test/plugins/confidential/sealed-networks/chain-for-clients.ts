/** Puts a local gateway, a relay and an enclave between client tests and their worker. `SLUICE_TEST_CHAT` loads it. */
import type { StartChatGateway } from "../../inference/chat/gateway.ts";
import { startChain } from "./chain.ts";
import { localKey } from "./local-gateway.ts";

const start: StartChatGateway = async (upstream) => {
  const closing = new AsyncDisposableStack();
  const t = { after: (close: () => unknown) => closing.defer(async () => void (await close())) };
  // The model and the price of those tests.
  const served = { model: "Test/Model-1", coefficient: 1000, price: "12", isDefault: false };
  const { url, relay } = await startChain(t, { upstream, ...served });
  return { ...relay, url, key: localKey, [Symbol.asyncDispose]: () => closing.disposeAsync() };
};

export default start;
