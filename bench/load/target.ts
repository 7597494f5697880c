/** One row of the tables of `npm run bench`. */
import type { Api } from "./chat-client.ts";
import type { Revision } from "./mcp-calls.ts";
import type { Peer } from "./process.ts";

export interface Started {
  readonly peer: Peer;
  readonly headers: readonly string[];
}

export interface Target {
  readonly name: string;
  /** The reason why the target cannot run here. */
  readonly missing?: string | undefined;
  /** Default: 2025-11-25. */
  readonly revision?: Revision;
  /** Default: `chat`. */
  readonly api?: Api;
  /** Whether the target is only measured if it is named. */
  readonly isExtra?: boolean;
  /** `folder`: for this run alone. The process ends when the peer is disposed of. */
  start(backend: Peer, folder: string): Promise<Started>;
}
