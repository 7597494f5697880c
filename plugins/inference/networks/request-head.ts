/** What stands in the head of every request to a network's workers. */

/** A base URL without slashes or `/v1` at its end: people write it either way. */
export function baseOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/** How a message is framed, and where it goes, is not for the configuration to say. */
const ownFields = ["host", "content-length", "transfer-encoding", "connection"];

/** The lines of all fields but host and length; `configured` wins over ours. */
export function requestFields(configured: Readonly<Record<string, string>>): string {
  const fields = new Map([
    ["content-type", "application/json"],
    ["accept", "text/event-stream, application/json"],
    // Coded tokens would have to wait for each other.
    ["accept-encoding", "identity"],
  ]);
  for (const [name, value] of Object.entries(configured)) fields.set(name.toLowerCase(), value);
  for (const name of ownFields) fields.delete(name);
  return Array.from(fields, ([name, value]) => `${name}: ${value}\r\n`).join("");
}
