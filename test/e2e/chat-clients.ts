/** What the judges of the chat surface share: a gateway over a scripted worker, and keys that fail in each way. */
import {
  startChat,
  type ChatGateway,
  type ChatOptions,
} from "../plugins/inference/chat/gateway.ts";

export const messages = [{ role: "user" as const, content: "Hi" }];

export interface Judged extends ChatGateway {
  /** Base URL as these clients want it: with `/v1`. */
  readonly baseURL: string;
  readonly key: string;
  /** Of no key at all. */
  readonly unknownKey: string;
  /** Of a key without the capability. */
  readonly forbiddenKey: string;
  /** Of a key that may spend nothing. */
  readonly poorKey: string;
}

export async function startJudged(options: ChatOptions = {}): Promise<Judged> {
  const chat = await startChat(options);
  const { gateway } = chat;
  return {
    ...chat,
    baseURL: `${gateway.url}/v1`,
    key: gateway.key,
    unknownKey: `gateway_dev_${"0".repeat(32)}`,
    forbiddenKey: gateway.issue({ capabilities: ["docs:read"] }).key,
    poorKey: gateway.issue({ cuLimit24hMilli: 1 }).key,
  };
}
