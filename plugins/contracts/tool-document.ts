/** The documents and prompts that a `tools` plugin can offer agents in addition to its tools. */
import type { Capability, KeyPrincipal } from "./principal.ts";
import type { Content, Dialogue, ResourceLink, ToolFailure } from "./tool-result.ts";

/** A resource of the Model Context Protocol. Reading it is free for every key that has its capability. */
export interface Resource extends ResourceLink {
  /** Absolute URI without a fragment. Unique within a deployment. */
  readonly uri: string;
  readonly mimeType: string;
  readonly description?: string;
  /** Size of the content in bytes. */
  readonly bytes?: number;
  readonly capability: Capability | undefined;
  /** Returns the content: text, or bytes for a blob. Throwing or rejecting is a bug. */
  read(): string | Uint8Array | Promise<string | Uint8Array>;
}

export interface PromptArgument {
  readonly name: string;
  readonly description?: string;
  readonly required?: boolean;
  /** Returns completions, best first. */
  complete?(value: string): readonly string[];
}

/** People choose a prompt in their client. It is free for every key that has its capability. */
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
  /** Undefined if the URI does not match or the document does not exist. Throwing is a bug. */
  read(uri: string): string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>;
}
