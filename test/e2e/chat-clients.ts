/** Shared by the tests of chat clients: a gateway with a scripted worker, and keys that fail in each way. */
import {
  startChat,
  type ChatGateway,
  type ChatOptions,
} from "../plugins/inference/chat/gateway.ts";

export const messages = [{ role: "user" as const, content: "Hi" }];

export interface ChatTestGateway extends ChatGateway {
  /** Base URL as these clients want it: with `/v1`. */
  readonly baseURL: string;
  readonly key: string;
  /** A key that does not exist. */
  readonly unknownKey: string;
  /** A key without the capability. */
  readonly forbiddenKey: string;
  /** A key whose limit is too low for any chat. */
  readonly poorKey: string;
}

export async function startChatGateway(options: ChatOptions = {}): Promise<ChatTestGateway> {
  const chat = await startChat(options);
  const { gateway } = chat;
  return {
    ...chat,
    baseURL: `${gateway.url}/v1`,
    key: gateway.key,
    unknownKey: `gateway_dev_${"0".repeat(32)}`,
    forbiddenKey: (await gateway.issue({ capabilities: ["docs:read"] })).key,
    poorKey: (await gateway.issue({ cuLimit24hMilli: 1 })).key,
  };
}
