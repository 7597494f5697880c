/**
 * What a `tools` plugin can offer agents besides tools, with the names of the Model Context Protocol: content other
 * than JSON, prompts, and questions that the client answers. Exported through `sluice-gateway/plugin`.
 */
import type { ToolFailure } from "./plugin.ts";
import type { Capability, KeyPrincipal } from "./services/accounts.ts";

/** One content block as the protocol defines it: `text`, `image`, `audio`, `resource` or `resource_link`. */
export interface Content {
  readonly type: string;
  readonly [member: string]: unknown;
}

/**
 * Questions that the client must answer before a call can continue. The call runs again with the answers. Clients of
 * revision 2026-07-28 can answer, and so can clients with a session that declared the capability (for tools only). For
 * all other clients the call ends with the failure that contains the questions.
 */
export interface Questions {
  /**
   * The questions, by keys that the tool chooses. The method is `elicitation/create`, `sampling/createMessage` or
   * `roots/list`.
   */
  readonly requests: Readonly<Record<string, { readonly method: string; readonly params: object }>>;
  /**
   * Comes back with the answers: plain JSON. It travels with the client, signed but not encrypted, so the client can
   * read it.
   */
  readonly state?: unknown;
}

/** The answers of a client to the questions of a tool. They are not verified. */
export interface Dialogue {
  /** Capabilities of the client, such as `{ elicitation: {} }`. Ask only questions that are listed here. */
  readonly capabilities: Readonly<Record<string, unknown>>;
  /** Answers by the keys of the questions. Empty on the first call. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** `Questions.state` of the previous call. Undefined on the first call. */
  readonly state: unknown;
}

export interface PromptArgument {
  readonly name: string;
  readonly description?: string;
  readonly required?: boolean;
  /** Returns completions of the value, best first. */
  complete?(value: string): readonly string[];
}

/** A prompt that people choose in their client. It is free for every key that has its capability. */
export interface Prompt {
  /** Unique within a deployment. */
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly arguments?: readonly PromptArgument[];
  readonly capability: Capability | undefined;
  /** `values`: the arguments, including every required one. Throwing or rejecting is a bug. */
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

/** Documents whose URIs follow a pattern. They are read like a `Resource`. */
export interface ResourceTemplate {
  /** URI template (RFC 6570), such as `block://{height}`. */
  readonly uriTemplate: string;
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly mimeType: string;
  readonly capability: Capability | undefined;
  /** Returns the document. Undefined if the URI does not match or the document does not exist. Throwing is a bug. */
  read(uri: string): string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>;
}
