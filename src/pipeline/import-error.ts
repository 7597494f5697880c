/** Why a module could not be imported, with its place: Node's message alone names neither file nor line. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The most files that are looked through for an error without a place. */
const maxFiles = 100;

/** One line: `file:line:column: message`, or the message alone. `files`: paths of what the module consists of. */
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

/** Node prints the place, the line and a marker below it ahead of the error's name. */
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

/** Node says nothing of the place of a syntax error in JavaScript, but `node --check` does. */
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
