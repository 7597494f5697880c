/**
 * The contract of what a `tools` plugin offers agents beside plain tools, by the names of the Model Context Protocol:
 * content other than JSON, prompts, and questions that a client answers. Exported through `sluice-gateway/plugin`.
 */
import type { Capability, KeyPrincipal } from "./services/accounts.ts";
import type { ToolFailure } from "./tool.ts";

/** One piece of content in the protocol's own shape: `text`, `image`, `audio`, `resource` or `resource_link`. */
export interface Content {
  readonly type: string;
  readonly [member: string]: unknown;
}

/**
 * Questions that must be answered before a call can go on: it runs again with the answers. Clients of revision
 * 2026-07-28 can give them, and to tools those with a session that declared it; for all others the failure that carries
 * the questions is the end of it.
 */
export interface Questions {
  /** By a key of the tool's choice: `elicitation/create`, `sampling/createMessage` or `roots/list`, and its params. */
  readonly requests: Readonly<Record<string, { readonly method: string; readonly params: object }>>;
  /**
   * Comes back with the answers: plain JSON. It travels with the client, signed but not encrypted, so the client can
   * read it.
   */
  readonly state?: unknown;
}

/** What a client that takes part in a dialogue has said. Its answers are its own claims. */
export interface Dialogue {
  /** The client's capabilities, such as `{ elicitation: {} }`: ask only for what stands here. */
  readonly capabilities: Readonly<Record<string, unknown>>;
  /** By the keys of the questions; empty on a first call. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** `Questions.state` of the call before; undefined on a first call. */
  readonly state: unknown;
}

export interface PromptArgument {
  readonly name: string;
  readonly description?: string;
  readonly required?: boolean;
  /** Values that begin as this one does, best first. */
  complete?(value: string): readonly string[];
}

/** A prompt that people pick in their client. Getting one is free, for keys with its capability. */
export interface Prompt {
  /** Unique on a deployment. */
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly arguments?: readonly PromptArgument[];
  readonly capability: Capability | undefined;
  /** `values`: every required argument is there. A throw or a rejection is a bug. */
  get(
    values: Readonly<Record<string, string>>,
    context: { readonly principal: KeyPrincipal; readonly dialogue: Dialogue | undefined },
  ): PromptResult | Promise<PromptResult>;
}

export type PromptResult =
  | {
      readonly ok: true;
      readonly messages: readonly {
        readonly role: "user" | "assistant";
        readonly content: Content;
      }[];
    }
  | ToolFailure;

/** Documents by a pattern of URIs, read like a `Resource`. */
export interface ResourceTemplate {
  /** RFC 6570, such as `block://{height}`. */
  readonly uriTemplate: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType: string;
  readonly capability: Capability | undefined;
  /** Undefined: the URI is none of its own, or nothing is there. A throw or a rejection is a bug. */
  read(uri: string): string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>;
}
