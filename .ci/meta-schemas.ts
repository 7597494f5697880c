/** Generates the module that replaces src/base/meta-schemas.ts in the bundle: the compiled schemas of JSON Schema. */
import standaloneCode from "ajv/dist/standalone/index.js";
import { draft2020, draft7 } from "../src/base/json-schema.ts";
import { ajvOfMetaSchemas } from "../src/base/meta-schemas.ts";

/** Returns JavaScript that imports parts of ajv, so it must be bundled. */
export function compiledMetaSchemas(): string {
  const ajv = ajvOfMetaSchemas({ code: { source: true, esm: true } });
  // The types of this package describe its CommonJS form.
  const generate = standaloneCode as unknown as typeof standaloneCode.default;
  const code = generate(ajv, { draft2020, draft7 });
  return `${code}
export function metaSchema(url) {
  if (url === ${JSON.stringify(draft2020)}) return draft2020;
  return url === ${JSON.stringify(draft7)} ? draft7 : undefined;
}
`;
}
