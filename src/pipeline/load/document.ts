import type { JsonSchema } from "../../contract/json.ts";
import type {
  DocumentedOperation,
  DocumentedRefusal,
  DocumentedRoute,
  Host,
  Operation,
  OperationPlace,
  Plugin,
  Step,
  Surface,
} from "../../plugin.ts";
import { excessReasons, statusReasons } from "../../base/errors.ts";
import { maxJsonDepth, maxJsonParts } from "../../base/json-bounds.ts";
import type { CompiledRoute } from "../run/compile.ts";

/** The methods that are documented for `methods: ["*"]`: those that OpenAPI can describe and clients commonly send. */
const anyMethod = ["GET", "POST", "PUT", "PATCH", "DELETE"];

type HostOf = (plugin: string, mode: Host["mode"]) => Host;

/** Throws what a plugin's `operation` throws. */
export function documentRoute(
  compiled: CompiledRoute,
  plugins: ReadonlyMap<string, Plugin>,
  hostOf: HostOf,
): DocumentedRoute {
  const { config } = compiled;
  const { path, websocket, to } = config;
  const methods = config.methods.includes("*") ? anyMethod : config.methods;
  const operations = methods.map((method) => ({
    method,
    parts: partsOf(compiled, { method, path }, plugins, hostOf),
  }));
  const description = plugins.get(to.name)?.description ?? "";
  return { path, websocket, surface: { name: to.name, description }, operations };
}

function partsOf(
  compiled: CompiledRoute,
  place: OperationPlace,
  plugins: ReadonlyMap<string, Plugin>,
  hostOf: HostOf,
): DocumentedOperation["parts"] {
  const { config } = compiled;
  const parts: Operation[] = [];
  for (const { name, mode, when, options } of config.run) {
    const plugin = plugins.get(name);
    if (plugin?.kind !== "step" || plugin.operation === undefined) continue;
    const part = describe(plugin, options, place, hostOf(name, mode));
    if (mode === "shadow") parts.push(withoutRefusals(part));
    else parts.push(when === undefined ? part : withoutAccess(part));
  }
  parts.push(corePart(compiled));
  const surface = plugins.get(config.to.name);
  if (surface?.kind === "surface" && surface.operation !== undefined) {
    parts.push(describe(surface, config.to.options, place, hostOf(config.to.name, "enforce")));
  }
  return parts;
}

function describe(
  plugin: Step<never> | Surface<never>,
  options: unknown,
  place: OperationPlace,
  host: Host,
): Operation {
  // The options were checked against the plugin's schema, which matches its `Options` type.
  return plugin.operation?.(options as never, place, host) ?? {};
}

/** Leaves out the refusals and requirements of a step in shadow mode, which clients never see. */
function withoutRefusals({ answerHeaders, headers }: Operation): Operation {
  return { ...(answerHeaders && { answerHeaders }), ...(headers && { headers }) };
}

/** Removes the access requirement of a step with a `when`, because it does not apply to every request. */
function withoutAccess({ access: _, ...part }: Operation): Operation {
  return part;
}

/** The refusals of the core itself between the steps and the surface (src/pipeline/run/run.ts). */
function corePart(compiled: CompiledRoute): Operation {
  const { config, bodyBytes, tooLargeStatus, mediaTypes, readsJson } = compiled;
  const refusals: DocumentedRefusal[] = [
    { code: "GATEWAY_INTERNAL_ERROR", description: "The gateway failed to handle the request." },
  ];
  const invalid = (status: number, description: string, ...reasons: readonly string[]): void => {
    const details = reasonSchema(reasons.length > 0 ? reasons : [statusReasons[status] ?? ""]);
    refusals.push({ code: "GATEWAY_INVALID_PARAMS", status, description, details });
  };
  if (bodyBytes !== undefined) {
    invalid(tooLargeStatus, `The body is larger than ${bodyBytes} bytes.`, bodyTooLarge);
    invalid(408, "The body stopped arriving.");
    if (readsJson) {
      const { parts, depth } = excessReasons;
      const bounds = `${maxJsonParts} members and elements or ${maxJsonDepth} levels`;
      invalid(400, `The body has more than ${bounds}.`, parts, depth);
    }
  }
  if (mediaTypes !== undefined) invalid(415, `The content type is not ${mediaTypes.join(" or ")}.`);
  if (config.websocket) invalid(426, "The request does not ask for a WebSocket.");
  return { refusals };
}

const bodyTooLarge = statusReasons[413] ?? "";

function reasonSchema(reasons: readonly string[]): JsonSchema {
  return {
    type: "object",
    properties: { reason: { enum: reasons } },
    required: ["reason"],
  };
}
