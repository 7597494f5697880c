/**
 * Small functions that plugins share with the core, exported as `sluice-gateway/internal/toolkit`: JSON, bounded maps, schemas of
 * options and guarded callbacks. Nothing here uses Node's modules, so the code also runs in browsers.
 */
export { BoundedMap } from "../base/bounded-map.ts";
export { canonicalJson, stableJson } from "../base/canonical-json.ts";
export { csvLine } from "../base/csv.ts";
export { durationMs } from "../base/duration.ts";
export { errorCode } from "../base/error-code.ts";
export { andThen, guarded, orElse, runGuarded } from "../base/guard.ts";
export { isAbsent, isObject } from "../base/is-object.ts";
export { jsonExcess } from "../base/json-bounds.ts";
export { fragmentPointer, pointerKey } from "../base/json-pointer.ts";
export { ObjectEnd, spaceEnd, stringEnd, valueEnd } from "../base/json-text.ts";
export { messageOf } from "../base/message-of.ts";
export { parseBoundedJson, parseJson, parseOrUndefined } from "../base/parse-json.ts";
export { integerSchema } from "../base/shared-schemas.ts";
export { late, withinLimit } from "../base/time-limit.ts";
