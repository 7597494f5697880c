/**
 * Small functions that plugins share with the core, exported as `sluice-gateway/toolkit`: JSON, bounded maps, schemas of
 * options and guarded callbacks. Nothing here uses Node's modules, so the code also runs in browsers.
 */
export { andThen, orElse } from "../awaitable.ts";
export { BoundedMap } from "../bounded-map.ts";
export { canonicalJson, stableJson } from "../canonical-json.ts";
export { integerSchema } from "../config/option-schemas.ts";
export { csvLine } from "../csv.ts";
export { durationMs } from "../duration.ts";
export { guarded, runGuarded } from "../guard.ts";
export { isAbsent, isObject } from "../is-object.ts";
export { jsonExcess } from "../json-bounds.ts";
export { fragmentPointer, pointerKey } from "../json-pointer.ts";
export { spaceEnd, stringEnd, valueEnd } from "../json-text.ts";
export { parseBoundedJson, parseJson } from "../parse-json.ts";
