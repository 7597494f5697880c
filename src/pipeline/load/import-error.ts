/** Describes why a module could not be imported, with file and line, which are missing from Node's message. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Maximum number of files that are searched for an error without a position. */
const maxFiles = 100;

/** Returns `file:line:column: message`, or only the message. `files`: the paths of the module and its local imports. */
export async function describeImportError(
  error: unknown,
  files: readonly string[],
): Promise<string> {
  const [message = ""] = String(error instanceof Error ? error.message : error).split(
    /\n| imported from /,
  );
  if (!(error instanceof Error)) return message;
  const isSyntax = error instanceof SyntaxError;
  const place = placeIn(error.stack ?? "") ?? (isSyntax ? await findPlace(files) : undefined);
  return place === undefined ? message : `${place}: ${message}`;
}

/** Finds the position in Node's output, which prints the position, the line and a marker before the error's name. */
function placeIn(text: string): string | undefined {
  const found = /^(?:file:\/\/)?(\/[^\n?]*?)(?:\?[^\n]*)?:(\d+)\n([^]*?)\n\n?\w*Error\b/.exec(text);
  if (found === null) return undefined;
  const [, file = "", line = "", shown = ""] = found;
  const marker = shown.split("\n").find((each) => /^\s*\^+\s*$/.test(each));
  // Without a marker the error is at the end of the line.
  const column =
    marker === undefined ? (shown.split("\n", 1)[0] ?? "").length : marker.indexOf("^");
  return `${decodeURI(file)}:${line}:${column + 1}`;
}

/**
 * Finds the position of a syntax error in JavaScript with `node --check`, because the error itself does not contain it.
 */
async function findPlace(files: readonly string[]): Promise<string | undefined> {
  for (const file of files.filter((each) => /\.[cm]?js$/.test(each)).slice(0, maxFiles)) {
    const printed = await promisify(execFile)(process.execPath, ["--check", file]).then(
      () => "",
      (error: unknown) => (error instanceof Error && "stderr" in error ? String(error.stderr) : ""),
    );
    const place = placeIn(printed);
    if (place !== undefined) return place;
  }
  return undefined;
}
