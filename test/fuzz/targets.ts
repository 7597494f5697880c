import type { FuzzTarget } from "./target.ts";
import { agentSurfaces } from "./targets/agent-surfaces.ts";
import { blocks } from "./targets/blocks.ts";
import { chatChunks } from "./targets/chat-chunks.ts";
import { connections } from "./targets/connections.ts";
import { enclaveSessions } from "./targets/enclave-sessions.ts";
import { finalityProofs } from "./targets/finality-proofs.ts";
import { hostileModels } from "./targets/hostile-models.ts";
import { http2Frames } from "./targets/http2-frames.ts";
import { jsonScan } from "./targets/json-scan.ts";
import { jsonText } from "./targets/json-text.ts";
import { quotes } from "./targets/quotes.ts";
import { relaySessions } from "./targets/relay-sessions.ts";
import { requestHeads } from "./targets/request-heads.ts";
import { statusDocuments } from "./targets/status-documents.ts";
import { streamClient } from "./targets/stream-client.ts";
import { streamFrames } from "./targets/stream-frames.ts";
import { trieProofs } from "./targets/trie-proofs.ts";

export const targets: readonly FuzzTarget[] = [
  requestHeads,
  connections,
  http2Frames,
  jsonScan,
  jsonText,
  enclaveSessions,
  streamFrames,
  relaySessions,
  streamClient,
  chatChunks,
  hostileModels,
  statusDocuments,
  quotes,
  blocks,
  finalityProofs,
  trieProofs,
  agentSurfaces,
];
