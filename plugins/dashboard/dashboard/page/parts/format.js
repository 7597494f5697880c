const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const aligned = new Intl.NumberFormat("en", { minimumFractionDigits: 3, maximumFractionDigits: 3 });
const percent = new Intl.NumberFormat("en", {
  style: "percent",
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});

export const none = "–";

/** Returns the formatted value, or a dash if it is undefined. */
export function known(value, text) {
  return value === undefined ? none : text(value);
}

export function count(n) {
  return whole.format(n);
}

/** Returns a text such as `1 charge` or `2 charges`. */
export function counted(n, thing) {
  return `${count(n)} ${thing}${n === 1 ? "" : "s"}`;
}

/** Returns at most four characters and a letter, such as `12.3K`. */
export function brief(n) {
  return n < 10_000 ? short.format(n) : compact.format(n);
}

export function share(part, all) {
  return all === 0 ? none : percent.format(part / all);
}

/** Formats milli-CU as exact Credit Units. */
export function cu(milli) {
  return `${exact.format(milli / 1000)} CU`;
}

/** Formats milli-CU for a column, with aligned decimal points. */
export function cuAligned(milli) {
  return `${aligned.format(milli / 1000)} CU`;
}

/** Formats milli-CU as Credit Units with three digits. */
export function cuBrief(milli) {
  const units = milli / 1000;
  return `${units >= 10_000 ? compact.format(units) : short.format(units)} CU`;
}

/** Formats milliseconds, as microseconds below 1 ms and as seconds above 10,000 ms. */
export function duration(ms) {
  if (ms === undefined) return none;
  if (ms < 1) return `${short.format(ms * 1000)} µs`;
  return ms < 10_000 ? `${short.format(ms)} ms` : `${short.format(ms / 1000)} s`;
}

export function bytes(n) {
  return `${whole.format(n / 1_048_576)} MiB`;
}

/** Formats the size of a file, in KiB below 1 MiB. */
export function size(n) {
  return n < 1_048_576 ? `${whole.format(Math.ceil(n / 1024))} KiB` : bytes(n);
}

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const minutes = new Intl.DateTimeFormat("en-GB", { timeStyle: "short" });
const dayAndTime = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
});
const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** Returns a text such as `14:03:27`. */
export function timeOfDay(iso) {
  return clock.format(new Date(iso));
}

/** Returns `14:03` for a time of today, else `22 Nov, 14:03`. */
export function moment(iso) {
  return isToday(iso) ? minutes.format(new Date(iso)) : dayAndTime.format(new Date(iso));
}

/** Returns `14:03:27` for a time of today, else `22 Nov, 14:03`. */
export function instant(iso) {
  return isToday(iso) ? timeOfDay(iso) : moment(iso);
}

function isToday(iso) {
  return new Date(iso).toDateString() === new Date().toDateString();
}

export function day(iso) {
  return date.format(new Date(iso));
}

/** Formats a duration, such as `3 min`, `5 h` or `12 d`. */
export function span(seconds) {
  if (seconds < 60) return `${whole.format(seconds)} s`;
  if (seconds < 3_600) return `${whole.format(seconds / 60)} min`;
  if (seconds < 172_800) return `${whole.format(seconds / 3_600)} h`;
  return `${whole.format(seconds / 86_400)} d`;
}

/** Returns a text such as `in 5 h` or `5 h ago`. */
export function relative(iso) {
  const seconds = (Date.parse(iso) - Date.now()) / 1000;
  if (Math.abs(seconds) < 5) return "now";
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
}

const reasons = {
  GATEWAY_INVALID_PARAMS: "Invalid parameters",
  GATEWAY_SCHEMA_VIOLATION: "Does not match its schema",
  GATEWAY_BATCH_TOO_LARGE: "Batch too large",
  GATEWAY_WRITE_IN_BATCH: "Write in a batch",
  GATEWAY_INVALID_IDEMPOTENCY_KEY: "Invalid idempotency key",
  GATEWAY_UNAUTHORIZED: "No valid key",
  GATEWAY_PERMISSION_DENIED: "Not permitted",
  GATEWAY_NOT_FOUND: "Not found",
  GATEWAY_TOOL_NOT_FOUND: "Unknown tool",
  GATEWAY_CONFLICT: "Conflict",
  GATEWAY_CONFIRMATION_EXPIRED: "Confirmation expired",
  GATEWAY_IDEMPOTENCY_KEY_MISMATCH: "Idempotency key reused",
  GATEWAY_CONFIRMATION_REQUIRED: "Confirmation required",
  GATEWAY_RATE_LIMITED: "Rate limit",
  GATEWAY_CU_LIMIT_EXCEEDED: "Credit limit",
  GATEWAY_INTERNAL_ERROR: "Internal error",
  GATEWAY_TOOL_EXECUTION_ERROR: "Tool failed",
  GATEWAY_SERVICE_UNAVAILABLE: "Unavailable",
  PARSE_ERROR: "Not JSON",
  INVALID_REQUEST: "Invalid request",
  INVALID_PARAMS: "Invalid parameters",
  METHOD_NOT_ALLOWED: "Method not whitelisted",
  METHOD_NOT_FOUND: "Unknown method",
  NODE_ERROR: "Error of the node",
  UPSTREAM_ERROR: "Upstream failed",
  MODEL_NOT_FOUND: "Unknown model",
  MODEL_NOT_AVAILABLE: "No active worker",
};

export function reason(code) {
  return reasons[code] ?? code;
}

export function refusal(code, why) {
  return why === undefined ? reason(code) : `${reason(code)}: ${why}`;
}

/** Returns one name, or the names of a batch with the number of failed calls. */
export function callsText({ names, items, failed }) {
  if (items === 1) return names[0];
  const failures = failed === 0 ? "" : `, ${failed} failed`;
  return `${counted(items, "call")}${failures}: ${names.join(", ")}`;
}
