/** The revisions of the Model Context Protocol that this server speaks, and who it says it is. */

/** The stateless revision: every request names it in `params._meta`. */
export const statelessRevision = "2026-07-28";
/** What `initialize` is answered with when it asks for a revision that is not known. */
export const newestSessionRevision = "2025-11-25";
/** The first revision whose clients know `resource_link` content and dropped JSON-RPC arrays. */
export const linksRevision = "2025-06-18";
/** The only revision with JSON-RPC arrays, and the one of a client that names none. */
export const arraysRevision = "2025-03-26";

/** Revisions with `initialize`. 2024-11-05 is older than this transport, but its clients work here. */
export const sessionRevisions: readonly string[] = [
  newestSessionRevision,
  linksRevision,
  arraysRevision,
  "2024-11-05",
];
/** What `server/discover`, -32022 and the server card announce. */
export const announcedRevisions: readonly string[] = [
  statelessRevision,
  newestSessionRevision,
  linksRevision,
  arraysRevision,
];

/** Revisions are dates: text order is their order. */
export const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text);

/** Members of `_meta` that the stateless revision owns. */
export const metaKeys = {
  version: "io.modelcontextprotocol/protocolVersion",
  capabilities: "io.modelcontextprotocol/clientCapabilities",
  server: "io.modelcontextprotocol/serverInfo",
  logLevel: "io.modelcontextprotocol/logLevel",
} as const;
