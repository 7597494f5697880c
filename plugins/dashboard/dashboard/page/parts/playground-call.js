/** Calls of the gateway by the view Playground, and the code that makes the same calls. */
import { ApiError, ask } from "./api.js";

/** The key is stored only here, and is removed when the user leaves the view or reloads the page. */
let key = "";

/** @param {string} value */
export function setKey(value) {
  key = value.trim();
}

/**
 * `costMilliCu`: undefined if the answer does not report it.
 *
 * @typedef {{ status: number, requestId: string, costMilliCu: number | undefined, text: string }} CallAnswer
 */

/**
 * `took`: called with the text so far whenever more of the answer has arrived. Throws ApiError if the gateway does not
 * answer.
 * @param {"chat" | "models" | "tools" | "node"} kind
 * @param {object | undefined} body
 * @param {(text: string) => void} [took]
 * @returns {Promise<CallAnswer>}
 */
export async function callGateway(kind, body, took = () => {}) {
  if (key === "") throw new ApiError(0, "", "enter an API key first");
  /** @type {Response} */
  const response = await ask("playground", {
    method: "POST",
    body: { kind, key, body },
    read: (whole) => whole,
  });
  const cost = response.headers.get("x-playground-cost-milli-cu");
  let text = "";
  try {
    const decoded = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = (await decoded?.read()) ?? { done: true, value: "" };
      if (done) break;
      text += value;
      took(text);
    }
  } catch {
    throw new ApiError(0, "", "the answer broke off");
  }
  return {
    status: Number(response.headers.get("x-playground-status")),
    requestId: response.headers.get("x-request-id") ?? "",
    costMilliCu: cost === null ? undefined : Number(cost),
    text,
  };
}

/**
 * An event that is not complete yet is ignored. A text that is not a stream has no content.
 * @param {string} text
 * @returns {{ content: string, costMilliCu: number | undefined }}
 */
export function readChat(text) {
  let content = "";
  let costMilliCu;
  for (const line of text.split("\n")) {
    if (!line.startsWith("data: {")) continue;
    const part = parsed(line.slice("data: ".length));
    content += part?.choices?.[0]?.delta?.content ?? "";
    costMilliCu = part?.usage?.usedCUMilli ?? costMilliCu;
  }
  return { content, costMilliCu };
}

/**
 * Undefined if the text is not JSON.
 * @param {string} text
 */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @typedef {object} PlaygroundCall
 * @property {"chat" | "tools" | "node"} kind
 * @property {string} url
 * @property {{ stream?: unknown }} body
 */

/** @param {PlaygroundCall} call */
export function curlCode({ kind, url, body }) {
  const isStream = kind === "chat" && body.stream === true;
  return [
    `curl ${isStream ? "-N " : ""}-X POST ${shellText(url)}`,
    '-H "Authorization: Bearer $SLUICE_API_KEY"',
    "-H 'Content-Type: application/json'",
    `--data-raw ${shellText(JSON.stringify(body, undefined, 2))}`,
  ].join(" \\\n  ");
}

/** @param {PlaygroundCall} call */
export function clientCode({ kind, url, body }) {
  return kind === "chat" ? openAiCode(url, body) : fetchCode(url, body);
}

/** The client for chats is OpenAI's, because the route has the same wire format. */
function openAiCode(url, body) {
  return `import OpenAI from "openai";

const client = new OpenAI({
  baseURL: ${JSON.stringify(url.replace(/\/chat\/completions$/, ""))},
  apiKey: process.env.SLUICE_API_KEY,
});
const stream = await client.chat.completions.create(${JSON.stringify(body, undefined, 2)});
for await (const { choices } of stream) {
  process.stdout.write(choices[0]?.delta?.content ?? "");
}`;
}

function fetchCode(url, body) {
  const value = JSON.stringify(body, undefined, 2).replaceAll("\n", "\n  ");
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: {
    Authorization: \`Bearer \${process.env.SLUICE_API_KEY}\`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify(${value}),
});
console.log(response.status, await response.json());`;
}

function shellText(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
