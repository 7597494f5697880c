/** Results and failures of tools, with the names of the Model Context Protocol. */
import type { CallReport, GatewayCode, UpstreamFailure } from "sluice-gateway/plugin";

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
  /** Keys are chosen by the tool. The method is `elicitation/create`, `sampling/createMessage` or `roots/list`. */
  readonly requests: Readonly<Record<string, { readonly method: string; readonly params: object }>>;
  /**
   * Plain JSON that comes back with the answers. The client keeps it in the meantime. It is signed but not encrypted,
   * so the client can read it.
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

export interface ResourceLink {
  /** Absolute URI. A fragment identifies a part of the resource; the resource is read as a whole. */
  readonly uri: string;
  readonly name: string;
  readonly title?: string;
  readonly mimeType?: string;
}

/** `proof`: the value of the header `X-Sluice-Proof` for this read. */
export interface ReadProof {
  readonly method: string;
  readonly proof: string;
}

/** The `genAI…` members of the usage metadata. */
export interface ModelUsage {
  readonly model: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/**
 * An expected failure, which costs nothing unless it is charged. `message` is sent to the caller, so it must not contain
 * text from an upstream, except text that a remote tool wrote for its callers.
 */
export interface ToolFailure {
  readonly ok: false;
  readonly code: GatewayCode;
  readonly message: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /** True if the call is charged, because its work was done: for example, the result is too large to be sent. */
  readonly isCharged?: boolean;
  /**
   * Questions that must be answered before the call can continue. Not for write tools, whose only question is the
   * confirmation.
   */
  readonly asks?: Questions;
  /** The failure of the backend that the tool asked. It is not sent to callers. */
  readonly upstreamFailure?: UpstreamFailure | undefined;
}

export function toolFailure(
  code: GatewayCode,
  message: string,
  details?: Readonly<Record<string, unknown>>,
): ToolFailure {
  return { ok: false, code, message, ...(details !== undefined && { details }) };
}

export type ToolOutcome =
  | {
      readonly ok: true;
      readonly tool: string;
      readonly json: string;
      /** True if the tool has an output schema. The result is then an object that matches it. */
      readonly isStructured?: boolean;
      /** The price of the call and of the calls that it made. */
      readonly usedCUMilli: number;
      readonly latencyMs: number;
      readonly usage: ModelUsage | undefined;
      readonly proof?: readonly ReadProof[] | undefined;
      readonly links?: readonly ResourceLink[] | undefined;
      readonly content?: readonly Content[] | undefined;
    }
  | (ToolFailure & { readonly tool: string; readonly latencyMs: number });

export function toolReport(outcome: ToolOutcome): CallReport {
  const { tool: name } = outcome;
  if (outcome.ok) return { kind: "tool", name, isListed: true };
  const { code, upstreamFailure } = outcome;
  const isListed = code !== "GATEWAY_TOOL_NOT_FOUND";
  return { kind: "tool", name, isListed, code, upstreamFailure };
}
