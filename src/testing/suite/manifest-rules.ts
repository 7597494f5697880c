import { createAjv } from "../../base/ajv.ts";
import { checkJsonSchema, draft2020, draft7 } from "../../base/json-schema.ts";
import { gatewayErrors } from "../../base/errors.ts";
import { isObject } from "../../base/is-object.ts";
import { shippedPlugins } from "../../pipeline/load/load.ts";
import { pluginProblems } from "../../pipeline/load/manifest.ts";
import { defineSurface, type DocumentedRoute, type JsonSchema, type Plugin } from "../../plugin.ts";
import { StartError } from "../../start-error.ts";
import { messageOf } from "../../base/message-of.ts";
import { pipelineOf } from "../test-plugin.ts";
import { allKinds, openFor, type Rule, type Subject } from "./subject.ts";

function compile(schema: JsonSchema): (value: unknown) => boolean {
  checkJsonSchema(schema, [draft2020, draft7]);
  const validate = createAjv({ strict: false, validateFormats: false }).compile(schema);
  return (value) => validate(value);
}

export const manifestRule: Rule = {
  name: "manifest",
  kinds: allKinds,
  check({ plugin }) {
    const problems = pluginProblems(plugin);
    if (plugin.contract === undefined) {
      problems.push('`contract` is missing; a published plugin needs one, such as "^1"');
    }
    if (shippedPlugins().has(plugin.name)) {
      problems.push(`\`name\` is "${plugin.name}", which a plugin that ships with Sluice has`);
    }
    return Promise.resolve(problems);
  },
};

/** The schema must describe every option, so that the plugin gets only values that it expects. */
export const optionsRule: Rule = {
  name: "options",
  kinds: allKinds,
  async check(subject) {
    const { plugin, example } = subject;
    const { options: schema } = plugin;
    if (schema === undefined) return [];
    const problems: string[] = [];
    try {
      compile(schema);
    } catch (error) {
      return [`the schema is not valid: ${messageOf(error)}`];
    }
    describeProblems(schema, "options", problems);
    await using gateway = await openFor(subject);
    for (const [name, value] of edgeValues(schema)) {
      const options = { ...example.options, [name]: value };
      try {
        await gateway.reload(pipelineOf(plugin, { ...example, options }));
      } catch (error) {
        if (!isRefused(error)) {
          problems.push(`${name}: ${JSON.stringify(value)} is valid, but ${messageOf(error)}`);
        }
      }
    }
    return problems;
  },
};

function isRefused(error: unknown): boolean {
  const broken = ["SLUICE_PLUGIN_START", "SLUICE_PLUGIN_OPERATION"];
  return error instanceof StartError && error.faults.every(({ code }) => !broken.includes(code));
}

function describeProblems(schema: JsonSchema, at: string, problems: string[]): void {
  const { properties } = schema;
  if (isObject(properties)) {
    if (!("additionalProperties" in schema || "unevaluatedProperties" in schema)) {
      problems.push(`${at} must have \`additionalProperties\``);
    }
    for (const [name, each] of Object.entries(properties)) {
      const place = `${at}.${name}`;
      if (!isObject(each) || !limiting.some((keyword) => keyword in each)) {
        problems.push(`${place} must have a \`type\`, because without it any value is accepted`);
        continue;
      }
      describeProblems(each, place, problems);
      if ("default" in each && !compile(each)(each["default"])) {
        problems.push(`${place} has a default that its own schema refuses`);
      }
    }
  }
  if (isObject(schema["items"])) describeProblems(schema["items"], `${at}[]`, problems);
}

const limiting = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not"];

/** Returns the values at the edges of the ranges of options: numbers and choices. */
function edgeValues({ properties }: JsonSchema): [string, unknown][] {
  if (!isObject(properties)) return [];
  return Object.entries(properties).flatMap(([name, schema]) => {
    if (!isObject(schema)) return [];
    const { minimum, maximum, default: fallback, enum: choices } = schema;
    const listed: readonly unknown[] = Array.isArray(choices) ? choices : [];
    const values = [minimum, maximum, fallback, ...listed];
    return [...new Set(values)]
      .filter((value) => value !== undefined)
      .map((value): [string, unknown] => [name, value]);
  });
}

const probeName = "test-routes";

export const operationRule: Rule = {
  name: "operation",
  kinds: ["step", "surface"],
  async check(subject) {
    const { plugin } = subject;
    if (!("operation" in plugin) || plugin.operation === undefined) return [];
    const operations = await documentedOperations(subject);
    return operations.flatMap(({ method, parts }) =>
      parts.flatMap((part) => operationProblems(part).map((problem) => `${method}: ${problem}`)),
    );
  },
};

export async function documentedOperations(
  subject: Subject,
): Promise<DocumentedRoute["operations"]> {
  let routes: readonly DocumentedRoute[] = [];
  const probe: Plugin = defineSurface({
    name: probeName,
    description: "Reads the documentation of the routes.",
    uses: ["routes"],
    start(_, host) {
      routes = host.use("routes");
      return { answer: () => ({ status: 200 }) };
    },
  });
  await using _gateway = await openFor(subject, ({ file, plugins }) => {
    const { routes: all, plugins: sources } = file as {
      readonly routes: readonly object[];
      readonly plugins: object;
    };
    return {
      plugins: new Map([...plugins, [probeName, probe]]),
      file: {
        ...file,
        plugins: { ...sources, [probeName]: "./routes" },
        routes: [...all, { path: `/${probeName}`, to: probeName }],
      },
    };
  });
  return routes[0]?.operations ?? [];
}

function operationProblems(part: DocumentedRoute["operations"][number]["parts"][number]): string[] {
  const problems: string[] = [];
  const schemas: [string, JsonSchema | undefined][] = [
    ["path", part.path],
    ["query", part.query],
    ["headers", part.headers],
    ...Object.entries(part.body?.content ?? {}),
    ...Object.entries(part.answerHeaders ?? {}).map(headerSchema),
  ];
  for (const [status, answer] of Object.entries(part.answers ?? {})) {
    if (!/^[1-5]\d\d$/.test(status)) problems.push(`answers: ${status} is not a status of HTTP`);
    if (answer.description === "") problems.push(`answers: ${status} has no description`);
    schemas.push(...Object.entries(answer.content ?? {}));
    schemas.push(...Object.entries(answer.headers ?? {}).map(headerSchema));
  }
  for (const { code, details } of part.refusals ?? []) {
    if (gatewayErrors[code] === undefined) problems.push(`refusals: unknown code ${code}`);
    schemas.push([`details of ${code}`, details]);
  }
  for (const [what, schema] of schemas) {
    if (schema === undefined) continue;
    try {
      compile(schema);
    } catch (error) {
      problems.push(`${what}: the schema is not valid: ${messageOf(error)}`);
    }
  }
  if (part.summary === "") problems.push("the summary is empty");
  return problems;
}

function headerSchema([name, { schema }]: [string, { readonly schema: JsonSchema }]): [
  string,
  JsonSchema,
] {
  return [name, schema];
}
