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
