/** The stateless revision. Every request names it in `params._meta`. */
export const statelessRevision = "2026-07-28";
/** The revision in the answer to `initialize` if the requested one is unknown. */
export const newestSessionRevision = "2025-11-25";
/** The first revision whose clients support `resource_link` content. It removed JSON-RPC arrays. */
export const linksRevision = "2025-06-18";
/** The only revision with JSON-RPC arrays, and the default for clients that name none. */
export const arraysRevision = "2025-03-26";

/** Revisions with `initialize`. 2024-11-05 is older than this transport, but its clients work here. */
export const sessionRevisions: readonly string[] = [
  newestSessionRevision,
  linksRevision,
  arraysRevision,
  "2024-11-05",
];
/**
 * Listed by `server/discover`, error -32022, the discovery document and the server card, newest first (decisions.md
 * section 7).
 */
export const announcedRevisions: readonly string[] = [
  statelessRevision,
  newestSessionRevision,
  linksRevision,
  arraysRevision,
];

/** Revisions are dates, so comparing them as text gives their order. */
export const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/.test(text);

export const metaKeys = {
  version: "io.modelcontextprotocol/protocolVersion",
  capabilities: "io.modelcontextprotocol/clientCapabilities",
  server: "io.modelcontextprotocol/serverInfo",
  logLevel: "io.modelcontextprotocol/logLevel",
} as const;
