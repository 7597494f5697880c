/**
 * The two catalogues of errors: `GATEWAY_*` codes, which clients see, and `SLUICE_*` codes, which operators see when a
 * configuration or a start fails. A code is never reused for another meaning.
 */
import type { Refused } from "../contract/reply.ts";

export interface GatewayError extends CallFailure {
  readonly status: number;
  /** Minimum wait in seconds, sent as `Retry-After`. Clients add backoff with jitter. */
  readonly retryAfter?: number;
}

export interface CallFailure {
  readonly message: string;
  /** True if the call was tried and failed, false if it was refused. */
  readonly isFailure?: boolean;
}

/** gateway.md, "Codes": status, default message and minimum delay before a retry. */
const coreErrors = {
  GATEWAY_INVALID_PARAMS: { status: 400, message: "invalid parameters" },
  GATEWAY_SCHEMA_VIOLATION: { status: 400, message: "the request does not match its schema" },
  GATEWAY_UNAUTHORIZED: { status: 401, message: "unauthorized" },
  GATEWAY_PERMISSION_DENIED: { status: 403, message: "permission denied" },
  GATEWAY_NOT_FOUND: { status: 404, message: "not found" },
  GATEWAY_CONFLICT: { status: 409, message: "conflict" },
  GATEWAY_RATE_LIMITED: { status: 429, message: "too many requests", retryAfter: 1 },
  GATEWAY_INTERNAL_ERROR: { status: 500, message: "internal error", isFailure: true },
  GATEWAY_SERVICE_UNAVAILABLE: {
    status: 503,
    message: "temporarily unavailable",
    retryAfter: 5,
    isFailure: true,
  },
} as const satisfies Record<string, GatewayError>;

/** The codes that clients see. A module adds its codes by declaration merging, and in `errors` of its module.ts. */
export interface GatewayErrors extends Record<keyof typeof coreErrors, GatewayError> {}

export type GatewayCode = keyof GatewayErrors & string;

const refusals: Record<string, GatewayError> = { ...coreErrors };
export const gatewayErrors: Readonly<Record<string, GatewayError>> = refusals;

/** Codes of calls that have no `GATEWAY_*` code. */
const calls: Record<string, CallFailure> = {
  PARSE_ERROR: { message: "the body is not JSON" },
  INVALID_REQUEST: { message: "the request is not valid" },
  INVALID_PARAMS: { message: "the parameters are not valid" },
  METHOD_NOT_FOUND: { message: "method not found" },
  UPSTREAM_ERROR: { message: "the upstream could not answer", isFailure: true },
};

export interface ModuleErrors {
  readonly refusals?: Readonly<Record<string, GatewayError>>;
  /** Codes of calls in answers that have a format of their own. */
  readonly calls?: Readonly<Record<string, CallFailure>>;
  /** Codes of faults, with their remedies. */
  readonly faults?: Readonly<Record<string, string>>;
}

export function addErrors(added: ModuleErrors): void {
  Object.assign(refusals, added.refusals);
  Object.assign(calls, added.calls);
  Object.assign(faults, added.faults);
}

/** The message of a code that is not declared is the code itself. */
export function callFailure(code: string): CallFailure {
  return refusals[code] ?? calls[code] ?? { message: code };
}

/**
 * Values of `details.reason`, which distinguish the statuses that share GATEWAY_INVALID_PARAMS (decisions.md section
 * 4). A reason never changes its meaning.
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

/** Values of `details.reason` for a JSON body that exceeds a limit (decisions.md section 13). The status is 400. */
export const excessReasons = { parts: "too_many_members", depth: "nested_too_deeply" } as const;

export interface RefuseOptions {
  readonly message?: string;
  /** Omitted from the body when empty. `reason` is added for the statuses in `statusReasons`. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Replaces the status of the code: 405, 413 and 415 are all GATEWAY_INVALID_PARAMS. */
  readonly status?: number;
  /** Additional headers as a flat list: name, value, name, value … */
  readonly headers?: readonly string[];
}

/**
 * Returns an error in the envelope `{ error, error_code, details? }`. Throws for a code that no module has declared
 * yet: a module's files must not call it with the module's own codes while they are imported.
 */
export function refuse(code: GatewayCode, options: RefuseOptions = {}): Refused {
  const entry = refusals[code];
  if (entry === undefined) throw new Error(`${code} is not in the catalogue`);
  const { message = entry.message, status = entry.status } = options;
  const reason = code === "GATEWAY_INVALID_PARAMS" ? statusReasons[status] : undefined;
  const details = { ...(reason !== undefined && { reason }), ...options.details };
  const shownDetails = Object.keys(details).length > 0 ? details : undefined;
  const headers = ["content-type", "application/json"];
  if (entry.retryAfter !== undefined) headers.push("retry-after", String(entry.retryAfter));
  if (options.headers !== undefined) headers.push(...options.headers);
  return {
    status,
    headers,
    body: JSON.stringify({ error: message, error_code: code, details: shownDetails }),
    code,
    refusal: { message, details: shownDetails },
  };
}

/** One code per kind of fault, with the remedy that `sluice check` prints if the fault has no more precise one. */
const coreFaults = {
  SLUICE_FILE_MISSING:
    "Run `sluice init` to write a pipeline.yaml, or pass an existing file with --config or SLUICE_CONFIG.",
  SLUICE_FILE_UNREADABLE:
    "Allow this user to read the file, or pass another file with --config or SLUICE_CONFIG.",
  SLUICE_FILE_EMPTY: "Start the file with `version: 1` and `routes:`.",

  SLUICE_YAML_SYNTAX:
    "Correct the YAML on this line or the line above. Check the indentation, brackets and quotes.",
  SLUICE_YAML_TAB: "Indent with spaces: YAML does not allow tabs here.",
  SLUICE_YAML_DUPLICATE_KEY: "Keep one of the two keys.",
  SLUICE_YAML_ALIAS:
    "Define the anchor (&name) before the alias (*name). An alias must not be inside its own anchor.",
  SLUICE_YAML_TAG: "Remove the tag (the word after !).",
  SLUICE_YAML_KEY: "Write the key as a plain word, or put it in quotes.",
  SLUICE_YAML_DOCUMENTS: "Keep one document: remove everything after the line `---`.",

  SLUICE_ENV_UNSET: "Set the variable, or add a default: ${NAME:-default}.",
  SLUICE_ENV_FILE:
    "Write the value into the file and let this process read it, or set the variable without _FILE.",
  SLUICE_ENV_UNQUOTED: 'Put the placeholder in quotes: "${NAME:-default}".',
  SLUICE_ENV_SYNTAX: "Write ${NAME} or ${NAME:-default}. For a literal ${, write $${.",

  SLUICE_KEY_UNKNOWN: "Correct or remove the key.",
  SLUICE_KEY_MISSING: "Add the key.",
  SLUICE_VALUE_TYPE: "Write a value of the expected type.",
  SLUICE_VALUE_RANGE: "Write a value within the limits.",
  SLUICE_VALUE_CHOICE: "Write one of the expected values.",
  SLUICE_VALUE_FORM: "Write the value in the expected format.",

  SLUICE_STEP_FORM:
    "Write a step name, { name: { options } } (mode:, when:, timeoutMs: and onError: go next to the name), or { use: list }.",
  SLUICE_SURFACE_FORM: "Write `to: name`, or `to: { name: { options } }`.",
  SLUICE_LIST_UNKNOWN: "Define the list under `lists:`, or correct the name.",
  SLUICE_LIST_CYCLE: "Remove one `use` of the cycle.",
  SLUICE_LIST_UNUSED: "Use the list (`{ use: name }`), or remove it.",

  SLUICE_PLUGIN_UNKNOWN: "Correct the name, or declare the plugin under `plugins:`.",
  SLUICE_PLUGIN_UNUSED: "Use the plugin, or remove it.",
  SLUICE_PLUGIN_NOT_FOUND:
    "Install the package next to pipeline.yaml, or correct the path (it starts with ./ and is relative to pipeline.yaml).",
  SLUICE_PLUGIN_IMPORT: "Correct the plugin's module so that it loads without an error.",
  SLUICE_PLUGIN_EXPORT: "Export the plugin as default: `export default defineStep({ … })`.",
  SLUICE_PLUGIN_SHAPE: "Correct the plugin's manifest. The type is in sluice-gateway/plugin.",
  SLUICE_PLUGIN_CONTRACT:
    "Install a release of the plugin that supports this version, or another release of Sluice. For your own plugin, docs/contract-changes.md lists the changes.",
  SLUICE_PLUGIN_PERMISSION:
    "Install a release of the plugin whose manifest has the permission, or add it to the manifest of your own plugin.",
  SLUICE_PLUGIN_NAME: "Use the plugin's own name as the key under `plugins:`.",
  SLUICE_PLUGIN_GRANTS:
    "Review what the plugin does with it, then write it under `grants` of the plugin; or install the earlier version.",
  SLUICE_PLUGIN_SHADOWS: "Rename the plugin: a plugin that ships with Sluice has this name.",
  SLUICE_PLUGIN_KIND: "Use steps in lists, and surfaces at `to:`.",
  SLUICE_PLUGIN_SCHEMA:
    "Correct the plugin's `options`: they must be a JSON Schema with `type: object`.",
  SLUICE_OPTION_INVALID: "Correct the option.",
  SLUICE_PLUGIN_OPERATION: "Correct the `operation` of the surface or of a step of the route.",
  SLUICE_PLUGIN_START: "Correct the cause that the message names.",
  SLUICE_PLUGIN_STOP: "Correct `stop` of the plugin, so that it ends soon and without an error.",

  SLUICE_SERVICE_UNKNOWN: "Declare the plugin that provides the service under `plugins:`.",
  SLUICE_SERVICE_CYCLE: "Remove one of these names from `uses` in a plugin's manifest.",

  SLUICE_SLOT_MISSING: "Add a step above that provides the slot.",
  SLUICE_SLOT_LATE: "Move the step that provides the slot up.",
  SLUICE_SLOT_UNSURE: "Move the step that provides the slot above the step that needs it.",
  SLUICE_SLOT_TWICE: "Keep one of the two steps.",
  SLUICE_SLOT_CONDITION:
    "Give both steps the same `when`, or remove it from the step that provides the slot.",

  SLUICE_ROUTE_PATH:
    "Write a path of literal segments, {name} segments and an optional final *, such as /v1/{tenant}/files.",
  SLUICE_ROUTE_METHOD: 'Write an HTTP method in upper case, or "*" for any method.',
  SLUICE_ROUTE_CREDENTIAL: "Write the name of a {name} segment of the path.",
  SLUICE_ROUTE_WEBSOCKET: "Remove `methods`: WebSocket upgrades are always GET.",
  SLUICE_ROUTE_DEAD: "Remove this route, or move it above the other route.",
  SLUICE_WHEN_NEVER: "Correct the `when`, or remove the step.",

  SLUICE_UPSTREAM_UNKNOWN: "Define the upstream under `upstreams:`, or correct the name.",
  SLUICE_UPSTREAM_UNUSED: "Use the upstream in the options of a surface, or remove it.",

  SLUICE_TOOL_INVALID: "Correct the tool, or remove the plugin from `tools:`.",
  SLUICE_STORE_MISPLACED:
    "Set store.data (DATA_DIR) to a folder outside node_modules: npm deletes files in node_modules.",
  SLUICE_THREADS_REFUSED: "Set server.threads to 1.",
  SLUICE_SECRET_MISSING:
    "Set GATEWAY_SECRET (`secret` in pipeline.yaml) to a long random string, the same on every replica.",
  SLUICE_STRICT_ENVIRONMENT: "Set GATEWAY_ENV=prod (`environment` in pipeline.yaml).",
  SLUICE_STRICT_SECRET:
    "Set GATEWAY_SECRET or GATEWAY_SECRET_FILE to at least 32 random characters, for example from `openssl rand -hex 32`.",
  SLUICE_STRICT_ADMIN:
    "Set admin.host (ADMIN_HOST) to 127.0.0.1 or to an address of a private network.",
  SLUICE_STRICT_LISTENER:
    "Set `server.tls`, or list the proxy that terminates TLS in server.trustProxy and let only this proxy reach the port.",
  SLUICE_STRICT_CERTIFICATE:
    "Put a valid certificate and its key in place of the files of server.tls. A running gateway uses them within 10 seconds.",
  SLUICE_STRICT_DEFAULT: "Set the variable to the URL of your own backend.",
  SLUICE_STRICT_PLAINTEXT:
    "Use https or wss (for a store rediss, or sslmode=verify-full), or run a proxy that adds TLS on this machine and use its address.",
  SLUICE_STRICT_PUBLIC:
    "Add `run:` with the steps of the route, or write `run: []` if everyone may call it without a limit.",
  SLUICE_STRICT_LINKED:
    "Install the package from a registry or a tarball, or write the path of the folder if it is your own code.",
  SLUICE_LISTEN_FAILED:
    "Stop the process that uses the address, or choose another one: `server` and `admin` in pipeline.yaml, PORT and ADMIN_PORT in the environment.",
  SLUICE_TLS_INVALID:
    "Set server.tls.cert and server.tls.key to a certificate in PEM and its private key, and let this user read them.",
  SLUICE_START_FAILED: "Correct the cause that the message names. Nothing was left running.",
  SLUICE_STOPPING: "Start the gateway again. It reads the file when it starts.",
  SLUICE_RESTART_NEEDED: "Undo the change, or restart the gateway. It drains before it stops.",
} as const satisfies Record<string, string>;

/** A module adds its codes by declaration merging, and in `errors` of its module.ts. */
export interface SluiceErrors extends Record<keyof typeof coreFaults, string> {}

export type SluiceCode = keyof SluiceErrors & string;

const faults: Record<string, string> = { ...coreFaults };
/** Modules add their remedies when they are loaded, before the file is read. */
export const sluiceErrors = faults as Readonly<Record<SluiceCode, string>>;
