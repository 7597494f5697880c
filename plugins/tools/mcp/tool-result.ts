/** The result object of `tools/call`, spliced from the tool's own JSON text: nothing of it is parsed or built twice. */
import type { ModelUsage, ResourceLink, ToolOutcome } from "sluice-gateway/plugin";

/** What the revision of a request puts around every result. */
export interface ResultFrame {
  /** The brace and the members before the result's own, with a comma behind. */
  readonly head: string;
  /** The members at the end of `_meta`, with a comma before, and the braces. */
  readonly end: string;
  /** Whether the client knows content other than one text: `resource_link` and the rest. */
  readonly rich: boolean;
}

export const plainFrame: ResultFrame = { head: "{", end: "}}", rich: false };
export const richFrame: ResultFrame = { head: "{", end: "}}", rich: true };

/** `at`: when the answer was produced, RFC 3339. */
export function toolResult(outcome: ToolOutcome, frame: ResultFrame, at: string): string {
  if (!outcome.ok) {
    const asks = outcome.code === "GATEWAY_CONFIRMATION_REQUIRED";
    const text = asks ? JSON.stringify(outcome.details ?? {}) : outcome.message;
    return failedResult(outcome.code, text, frame);
  }
  const { json, tool, usedCUMilli, latencyMs, usage, links, content } = outcome;
  const shown =
    content === undefined || !frame.rich
      ? `{"type":"text","text":${JSON.stringify(json)}}`
      : content.map((item) => JSON.stringify(item)).join();
  const linked = frame.rich && links !== undefined ? links.map(linkText).join("") : "";
  const used = usage === undefined ? noUsage : usageText(usage);
  return (
    `${frame.head}"content":[${shown}${linked}],"_meta":{"usedCUMilli":${usedCUMilli},` +
    // Names of tools are letters, digits and underscores.
    `"toolName":"${tool}","timestamp":"${at}","latencyMs":${latencyMs},${used}${frame.end}`
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
  return `,${JSON.stringify({ type: "resource_link", uri, name, title, mimeType })}`;
}
