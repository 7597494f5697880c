/**
 * The tool loop of the demo model: it creates one file with a tool of the agent. `Create hello.txt` becomes a call of a
 * tool that runs commands, or else of one that writes files. Anything else is echoed.
 */
import { isObject } from "sluice-gateway/internal/toolkit";

export interface ToolCall {
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

type Members = Readonly<Record<string, unknown>>;

const defaultContents = "Written by the demo model of Sluice.";
const commandNames = new Set(["command", "cmd"]);
const pathNames = new Set(["path", "filepath", "filename", "file"]);
const contentNames = new Set(["content", "contents", "filetext"]);

/**
 * Reads the first line such as `Create hello.txt` or `Create notes.md: remember the milk`; agents add texts of their
 * own before and after it. Undefined if such a line or a suitable tool is missing.
 */
export function fileTask(prompt: string, tools: unknown): ToolCall | undefined {
  const lines = prompt.split("\n").map((line) => line.trim().split(/\s/u));
  const [, named = "", ...words] = lines.find(isTask) ?? [];
  if (named === "") return undefined;
  const hasContents = named.endsWith(":");
  const file = hasContents ? named.slice(0, -1) : named;
  const contents = hasContents ? words.join(" ") : defaultContents;
  const quoted = contents.replaceAll("'", `'\\''`);
  const command = `printf '%s\\n' '${quoted}' > ${file}`;
  return runCommand(tools, command) ?? writeFile(declaredTools(tools), file, contents);
}

export function runCommand(tools: unknown, command: string): ToolCall | undefined {
  const [tool, name] = findTool(declaredTools(tools), commandNames);
  if (tool === undefined || name === undefined) return undefined;
  const { type } = propertyOf(tool, name);
  return callOf(tool, { [name]: type === "array" ? ["sh", "-c", command] : command });
}

function isTask([verb = "", named = ""]: readonly string[]): boolean {
  // The name becomes part of a command, so it has only characters that a shell does not interpret.
  return verb.toLowerCase() === "create" && /^[\w./-]*\.\w+:?$/u.test(named);
}

interface DeclaredTool {
  readonly name: string;
  readonly properties: Members;
  readonly required: readonly string[];
}

function declaredTools(tools: unknown): readonly DeclaredTool[] {
  return Array.isArray(tools) ? tools.flatMap(declaredTool) : [];
}

function declaredTool(tool: unknown): DeclaredTool[] {
  const declared = isObject(tool) ? tool["function"] : undefined;
  if (!isObject(declared) || typeof declared["name"] !== "string") return [];
  const schema = isObject(declared["parameters"]) ? declared["parameters"] : {};
  const { properties, required } = schema;
  return [
    {
      name: declared["name"],
      properties: isObject(properties) ? properties : {},
      required: Array.isArray(required) ? required.filter((name) => typeof name === "string") : [],
    },
  ];
}

function writeFile(
  tools: readonly DeclaredTool[],
  file: string,
  contents: string,
): ToolCall | undefined {
  const writers = tools.filter(({ properties }) => keyIn(properties, contentNames) !== undefined);
  const [tool, path] = findTool(writers, pathNames);
  const content = tool && keyIn(tool.properties, contentNames);
  if (tool === undefined || path === undefined || content === undefined) return undefined;
  return callOf(tool, { [path]: file, [content]: `${contents}\n` });
}

function findTool(
  tools: readonly DeclaredTool[],
  names: ReadonlySet<string>,
): readonly [DeclaredTool?, string?] {
  const tool = tools.find(({ properties }) => keyIn(properties, names) !== undefined);
  return tool === undefined ? [] : [tool, keyIn(tool.properties, names)];
}

function keyIn(properties: Members, names: ReadonlySet<string>): string | undefined {
  return Object.keys(properties).find((key) => names.has(key.toLowerCase().replaceAll("_", "")));
}

function callOf(tool: DeclaredTool, given: Members): ToolCall {
  const rest = tool.required.map((name): [string, unknown] => [name, sampleOf(tool, name)]);
  return {
    name: tool.name,
    arguments: JSON.stringify({ ...Object.fromEntries(rest), ...given }),
  };
}

function sampleOf(tool: DeclaredTool, name: string): unknown {
  const { type } = propertyOf(tool, name);
  if (type === "boolean") return false;
  if (type === "number" || type === "integer") return 1;
  return type === "array" ? [] : "Create a file";
}

function propertyOf({ properties }: DeclaredTool, name: string): Members {
  const property = properties[name];
  return isObject(property) ? property : {};
}
