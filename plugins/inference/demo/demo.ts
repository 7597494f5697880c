/** The model of `sluice dev`: a demo model, unless CONFIDENTIAL_CLASSIC_URL is set, and an example chat. */
import { exampleRequest, hasSameHost, type Demo } from "sluice-gateway/internal/module";
import { demoModelId, startDemoModel } from "./model.ts";

/** Price in USD of a fictitious native token, so that prices are shown: 12 nano tokens cost 3 milli-CU per token. */
const demoRate = "0.25";

export const demo: Demo = {
  help: {
    text: `The demo model echoes the last user message, unless CONFIDENTIAL_CLASSIC_URL is the address of your own model
server.`,
    variables: {
      CONFIDENTIAL_CLASSIC_URL: `address of your own model server, such as http://127.0.0.1:8000: any server with OpenAI's
chat completions API`,
      TOKEN_USD_RATE: "USD per native token, for the price of your own models",
      PRICE_PER_TOKEN_NANO: "nano native tokens per token, for the price of your own models",
    },
  },

  async start(env, started) {
    if (env["CONFIDENTIAL_CLASSIC_URL"]) return {};
    const model = await startDemoModel();
    started.defer(() => model.close());
    return {
      CONFIDENTIAL_CLASSIC_URL: model.url,
      // Other modules propose requests to this model.
      SLUICE_DEMO_MODEL: demoModelId,
      CONFIDENTIAL_CLASSIC_PASSES: env["CONFIDENTIAL_CLASSIC_PASSES"] || "tools, sampling, format",
      ...(!env["CONFIDENTIAL_CLASSIC_STATUS_URL"] && {
        CONFIDENTIAL_CLASSIC_STATUS_URL: model.statusUrl,
      }),
      ...(!env["TOKEN_USD_RATE"] && { TOKEN_USD_RATE: demoRate }),
    };
  },

  describe({ gateway, key, demoEnv }) {
    const { config, url } = gateway;
    const route = config.routes.find(({ to, path }) => to.name === "chat" && !path.includes("{"));
    const urls = (gateway.use("networks")?.open ?? []).map((network) => network.config.url);
    if (route === undefined || urls.length === 0) {
      return {
        position: 2,
        lines: [["chat", "pipeline.yaml has no route to a model"]],
        json: { model: "" },
      };
    }
    const chatUrl = url + route.path;
    const demoUrl = demoEnv["CONFIDENTIAL_CLASSIC_URL"];
    const isDemo = demoUrl !== undefined && urls.some((each) => hasSameHost(each, demoUrl));
    const hosts = urls.map((each) => new URL(each).host).join(", ");
    const model = isDemo
      ? "demo model (set CONFIDENTIAL_CLASSIC_URL to use your own model server)"
      : hosts;
    const messages = [{ role: "user", content: "One word at a time." }];
    const options = { stream: true, stream_options: { include_usage: true } };
    const body = JSON.stringify({ model: demoModelId, messages, ...options });
    return {
      position: 2,
      lines: [
        ["chat", chatUrl],
        ["models", model],
      ],
      json: { chat_url: chatUrl, model: isDemo ? "demo" : hosts },
      // `curl -N` shows each token when it arrives. The model ids of another server are unknown here.
      requests: isDemo ? [exampleRequest(chatUrl, key, body, "curl -sN")] : [],
    };
  },
};
