/** The JSON text of the tool is inserted unchanged, so nothing is parsed or serialized twice. */
import type { ModelUsage, ResourceLink, ToolOutcome } from "sluice-gateway/services";

/** The parts of the result that depend on the revision of the request. */
export interface ResultFrame {
  /** The opening brace and the members before those of the result, with a trailing comma. */
  readonly head: string;
  /** The last members of `_meta`, with a leading comma, and the closing braces. */
  readonly end: string;
  /** True for content other than one text, such as `resource_link` and `structuredContent`. */
  readonly rich: boolean;
}

export const plainFrame: ResultFrame = { head: "{", end: "}}", rich: false };
export const richFrame: ResultFrame = { head: "{", end: "}}", rich: true };

/** `at`: time of the answer (RFC 3339). */
export function toolResult(outcome: ToolOutcome, frame: ResultFrame, at: string): string {
  if (!outcome.ok) {
    const asks = outcome.code === "GATEWAY_CONFIRMATION_REQUIRED";
    const text = asks ? JSON.stringify(outcome.details ?? {}) : outcome.message;
    return failedResult(outcome.code, text, frame);
  }
  const { json, isStructured, tool, usedCUMilli, latencyMs, usage, proof, links, content } =
    outcome;
  const shown =
    content === undefined || !frame.rich
      ? [`{"type":"text","text":${JSON.stringify(json)}}`]
      : content.map((item) => JSON.stringify(item));
  const linked = frame.rich && links !== undefined ? links.map(linkText) : [];
  const structured = frame.rich && isStructured ? `"structuredContent":${json},` : "";
  const proved = proof === undefined ? "" : `"proof":${JSON.stringify(proof)},`;
  const used = usage === undefined ? noUsage : usageText(usage);
  return (
    `${frame.head}"content":[${[...shown, ...linked].join()}],${structured}"_meta":{"usedCUMilli":${usedCUMilli},` +
    // Names of tools are letters, digits and underscores.
    `"toolName":"${tool}","timestamp":"${at}","latencyMs":${latencyMs},${proved}${used}${frame.end}`
  );
}

const noUsage = usageText({ model: "", inputTokens: 0, outputTokens: 0 });

function usageText({ model, inputTokens, outputTokens }: ModelUsage): string {
  return (
    `"genAIRequestModel":${JSON.stringify(model)},` +
    `"genAIUsageInputTokens":${inputTokens},"genAIUsageOutputTokens":${outputTokens}`
  );
}

export function failedResult(code: string, text: string, frame: ResultFrame): string {
  return (
    `${frame.head}"content":[{"type":"text","text":${JSON.stringify(text)}}],"isError":true,` +
    `"_meta":{"errorCode":"${code}"${frame.end}`
  );
}

function linkText({ uri, name, title, mimeType }: ResourceLink): string {
  return JSON.stringify({ type: "resource_link", uri, name, title, mimeType });
}
