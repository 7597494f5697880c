/**
 * The two catalogues of errors: `GATEWAY_*` codes, which clients see, and `SLUICE_*` codes, which operators see when a
 * configuration or a start fails. A code is never reused for another meaning.
 */
import type { Reply } from "./plugin.ts";

interface GatewayError {
  readonly status: number;
  readonly message: string;
  /** Seconds; sent as `Retry-After`. A floor: callers add jittered backoff. */
  readonly retryAfter?: number;
}

/** gateway.md, "Codes": status, default message and the floor for a retry. */
export const gatewayErrors = {
  GATEWAY_INVALID_PARAMS: { status: 400, message: "invalid parameters" },
  GATEWAY_SCHEMA_VIOLATION: { status: 400, message: "the request does not match its schema" },
  GATEWAY_BATCH_TOO_LARGE: { status: 400, message: "too many calls in one batch" },
  GATEWAY_WRITE_IN_BATCH: { status: 400, message: "a write tool cannot be part of a batch" },
  GATEWAY_INVALID_IDEMPOTENCY_KEY: { status: 400, message: "invalid idempotency key" },
  GATEWAY_UNAUTHORIZED: { status: 401, message: "unauthorized" },
  GATEWAY_PERMISSION_DENIED: { status: 403, message: "permission denied" },
  GATEWAY_NOT_FOUND: { status: 404, message: "not found" },
  GATEWAY_TOOL_NOT_FOUND: { status: 404, message: "unknown tool" },
  GATEWAY_CONFLICT: { status: 409, message: "conflict" },
  GATEWAY_CONFIRMATION_EXPIRED: { status: 410, message: "the confirmation token has expired" },
  GATEWAY_IDEMPOTENCY_KEY_MISMATCH: {
    status: 422,
    message: "the idempotency key was used with another body",
  },
  GATEWAY_CONFIRMATION_REQUIRED: { status: 202, message: "confirmation required" },
  GATEWAY_RATE_LIMITED: { status: 429, message: "too many requests", retryAfter: 1 },
  GATEWAY_CU_LIMIT_EXCEEDED: { status: 429, message: "credit limit exceeded", retryAfter: 60 },
  GATEWAY_INTERNAL_ERROR: { status: 500, message: "internal error" },
  GATEWAY_TOOL_EXECUTION_ERROR: { status: 500, message: "the tool failed" },
  GATEWAY_SERVICE_UNAVAILABLE: {
    status: 503,
    message: "temporarily unavailable",
    retryAfter: 5,
  },
} as const satisfies Record<string, GatewayError>;

export type GatewayCode = keyof typeof gatewayErrors;

/**
 * Value of `details.reason` for the statuses that share GATEWAY_INVALID_PARAMS, so that a program can tell them apart
 * (decisions.md section 4 fixes their code). A reason never changes its meaning.
 */
export const statusReasons: Readonly<Partial<Record<number, string>>> = {
  405: "method_not_allowed",
  408: "request_timeout",
  413: "body_too_large",
  415: "unsupported_media_type",
  417: "unsupported_expectation",
  426: "upgrade_required",
  431: "head_too_large",
  501: "unsupported_transfer_coding",
  505: "unsupported_http_version",
};

/** Values of `details.reason` where a JSON body exceeds a bound (decisions.md section 13); the status is 400. */
export const excessReasons = { parts: "too_many_members", depth: "nested_too_deeply" } as const;

export interface RefuseOptions {
  readonly message?: string;
  /** Omitted from the body when empty. `reason` is added for the statuses in `statusReasons`. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Another status for the same code: 413, 415 and 405 are all GATEWAY_INVALID_PARAMS. */
  readonly status?: number;
  /** Further headers, flat name, value … */
  readonly headers?: readonly string[];
}

/** An error in the canonical envelope `{ error, error_code, details? }`, as a value to return from a hook. */
export function refuse(code: GatewayCode, options: RefuseOptions = {}): Reply {
  const entry: GatewayError = gatewayErrors[code];
  const { message = entry.message, status = entry.status } = options;
  const reason = code === "GATEWAY_INVALID_PARAMS" ? statusReasons[status] : undefined;
  const details = { ...(reason !== undefined && { reason }), ...options.details };
  const hasDetails = Object.keys(details).length > 0;
  const headers = ["content-type", "application/json"];
  if (entry.retryAfter !== undefined) headers.push("retry-after", String(entry.retryAfter));
  if (options.headers !== undefined) headers.push(...options.headers);
  return {
    status,
    headers,
    body: JSON.stringify({ error: message, error_code: code, ...(hasDetails && { details }) }),
    code,
  };
}

/**
 * What can be wrong with a configuration or a start: one code a kind of fault, with the remedy that `sluice check`
 * prints where the place itself says nothing more precise.
 */
export const sluiceErrors = {
  SLUICE_FILE_MISSING:
    "Run `sluice init` to write a pipeline.yaml, or name an existing one with --config or SLUICE_CONFIG.",
  SLUICE_FILE_UNREADABLE:
    "Allow this user to read the file, or name another with --config or SLUICE_CONFIG.",
  SLUICE_FILE_EMPTY: "Start the file with `version: 1` and `routes:`.",

  SLUICE_YAML_SYNTAX:
    "Correct the YAML here or on the line above: the indentation, a missing bracket or quote.",
  SLUICE_YAML_TAB: "Indent with spaces: YAML allows no tabs there.",
  SLUICE_YAML_DUPLICATE_KEY: "Keep one of the two keys.",
  SLUICE_YAML_ALIAS: "Define the anchor (&name) before the alias (*name), and never around it.",
  SLUICE_YAML_TAG: "Remove the tag (the word after !).",
  SLUICE_YAML_KEY: "Write the key as a plain word, or put it in quotes.",
  SLUICE_YAML_DOCUMENTS: "Keep one document: remove what follows the line `---`.",

  SLUICE_ENV_UNSET: "Set the variable, or give it a default: ${NAME:-default}.",
  SLUICE_ENV_UNQUOTED: 'Write "${NAME:-default}" with the quotes.',
  SLUICE_ENV_SYNTAX: "Write ${NAME} or ${NAME:-default}; $${ is a literal ${.",

  SLUICE_KEY_UNKNOWN: "Correct or remove the key.",
  SLUICE_KEY_MISSING: "Add the key.",
  SLUICE_VALUE_TYPE: "Write a value of that type.",
  SLUICE_VALUE_RANGE: "Write a value within those bounds.",
  SLUICE_VALUE_CHOICE: "Write one of those values.",
  SLUICE_VALUE_FORM: "Write the value in that form.",

  SLUICE_NOT_SUPPORTED: "Remove it: this release has nothing that would use it.",

  SLUICE_STEP_FORM:
    "Write a name, { name: { options } } (with mode: and when: beside the name), or { use: list }.",
  SLUICE_SURFACE_FORM: "Write `to: name`, or `to: { name: { options } }`.",
  SLUICE_LIST_UNKNOWN: "Define it under `lists:`, or correct the name.",
  SLUICE_LIST_CYCLE: "Remove one `use` of the circle.",
  SLUICE_LIST_UNUSED: "Use it (`{ use: name }`), or remove it.",

  SLUICE_PLUGIN_UNKNOWN: "Correct the name, or declare the plugin under `plugins:`.",
  SLUICE_PLUGIN_UNUSED: "Use it in a list or at `to:`, or remove it.",
  SLUICE_PLUGIN_NOT_FOUND:
    "Install the package beside pipeline.yaml, or correct the path (it starts with ./ and counts from pipeline.yaml).",
  SLUICE_PLUGIN_IMPORT: "Correct the plugin's module: it must load without an error.",
  SLUICE_PLUGIN_EXPORT: "Export the plugin as default: `export default defineStep({ … })`.",
  SLUICE_PLUGIN_SHAPE: "Correct the plugin's manifest: see sluice-gateway/plugin.",
  SLUICE_PLUGIN_NAME: "Use the plugin's own name as the key under `plugins:`.",
  SLUICE_PLUGIN_SHADOWS: "Rename the plugin: that name belongs to one that ships with Sluice.",
  SLUICE_PLUGIN_KIND: "Put steps into lists and surfaces at `to:`.",
  SLUICE_PLUGIN_SCHEMA: "Correct the plugin's `options`: they must be a JSON Schema of an object.",
  SLUICE_OPTION_INVALID: "Correct the option.",
  SLUICE_PLUGIN_OPERATION: "Correct the `operation` of the surface or of one of the steps.",
  SLUICE_PLUGIN_START: "Correct what the plugin could not start with.",

  SLUICE_SERVICE_UNKNOWN: "Declare the plugin that provides the service under `plugins:`.",
  SLUICE_SERVICE_CYCLE: "Remove one of these names from `uses` in a plugin's manifest.",

  SLUICE_SLOT_MISSING: "Add a step that provides it, above.",
  SLUICE_SLOT_LATE: "Move the step that provides it up.",
  SLUICE_SLOT_UNSURE: "Move the step that provides it above the one that needs it.",
  SLUICE_SLOT_TWICE: "Keep one of the two.",
  SLUICE_SLOT_CONDITION: "Give both the same `when`, or remove it from the one that provides.",

  SLUICE_ROUTE_PATH:
    "Write a path of literal segments, {name} segments and, as the last one, *: such as /v1/{network}/models.",
  SLUICE_ROUTE_METHOD: 'Write an HTTP method in upper case, or "*" for any.',
  SLUICE_ROUTE_WEBSOCKET: "Remove `methods`: an upgrade is always a GET.",
  SLUICE_ROUTE_DEAD: "Remove this route, or move it above the other.",
  SLUICE_WHEN_NEVER: "Correct the `when`, or remove the step.",

  SLUICE_UPSTREAM_UNKNOWN: "Define it under `upstreams:`, or correct the name.",
  SLUICE_UPSTREAM_UNUSED: "Name it in a surface's options, or remove it.",

  SLUICE_TOOL_INVALID: "Correct the tool, or remove the plugin from `tools:`.",
  SLUICE_NETWORK_KIND:
    "Write the http(s) address of the server, or `kind: enclave` for a worker's stream.",
  SLUICE_NETWORK_EVIDENCE:
    "Write `image_hashes` with the images that you trust, or outside prod `kind: simulated` (in prod with CONFIDENTIAL_ALLOW_SIMULATED=1).",
  SLUICE_STORE_MISPLACED:
    "Set store.data (DATA_DIR) to a folder outside node_modules: npm deletes what it finds there.",
  SLUICE_SECRET_MISSING:
    "Set GATEWAY_SECRET (`secret` in pipeline.yaml) to a long random text, the same on every replica.",
  SLUICE_LISTEN_FAILED:
    "Stop what uses the address, or choose another: `server` and `admin` in pipeline.yaml, PORT and ADMIN_PORT in the environment.",
  SLUICE_START_FAILED: "Read the message: nothing was left running.",
  SLUICE_STOPPING: "Start the gateway again: it reads the file then.",
  SLUICE_RESTART_NEEDED: "Undo the change, or restart the gateway: it drains first.",
} as const satisfies Record<string, string>;

export type SluiceCode = keyof typeof sluiceErrors;
