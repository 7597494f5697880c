/** Removes slashes and `/v1` at the end of the base URL, because both forms are in use. */
export function baseOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(/\/+$/, "").replace(/\/v1$/, "");
}

/** Fields that the configuration cannot set: the gateway decides how a message is framed and where it is sent. */
const ownFields = ["host", "content-length", "transfer-encoding", "connection"];

/** Returns all fields except host and length, by their names in lower case. `configured` replaces the defaults. */
export function requestFields(
  configured: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> {
  const fields = new Map([
    ["content-type", "application/json"],
    ["accept", "text/event-stream, application/json"],
    // With a content coding, tokens would be delayed until others arrive.
    ["accept-encoding", "identity"],
  ]);
  for (const [name, value] of Object.entries(configured)) fields.set(name.toLowerCase(), value);
  for (const name of ownFields) fields.delete(name);
  return fields;
}
