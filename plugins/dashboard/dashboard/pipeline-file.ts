/** Compares pipeline.yaml as it runs with the file on disk, line by line. */
import { readFile, stat } from "node:fs/promises";
import { diffArrays } from "diff";
import { isScalar, parseDocument, visit } from "yaml";
import { redact } from "sluice-gateway/plugin";
import { errorCode } from "sluice-gateway/internal/toolkit";
import type { DashboardDeps } from "./deps.ts";

const censor = "[redacted]";

/** Options with these names contain a secret, for example `apiKey` or `webhook_secret`. */
const secretName = /(?:secret|password|passphrase|token|api[-_]?key|authorization|cookie)$/i;

/** References without a default, such as `${NAME}` or `Bearer ${NAME}`. */
const onlyReferences = /^(?:(?:Bearer|Basic)\s+)?(?:\$\{\w+(?::-)?\})+$/;

const maxBytes = 1_048_576;
/**
 * Maximum number of lines that are added and removed. With more, the whole file counts as changed. The time of the
 * comparison grows with its square, and 500 changes take about 50 ms.
 */
const maxChanges = 500;

/** A line that was added has no `running`, and a line that was removed has no `disk`. Line numbers start at 1. */
interface ComparedLine {
  readonly text: string;
  readonly running?: number;
  readonly disk?: number;
}

type DiskFile = { readonly text: string } | { readonly problem: string };

/** Returns JSON in which secrets are hidden. */
export async function pipelineFile({ gateway }: Pick<DashboardDeps, "gateway">): Promise<object> {
  const { file, generation } = gateway.running();
  const { path, text } = file;
  const disk = await readDisk(path);
  const about = { path, generation };
  if ("problem" in disk) {
    return { ...about, state: "unreadable", problem: disk.problem, lines: compare(text, text) };
  }
  return {
    ...about,
    state: disk.text === text ? "same" : "different",
    lines: compare(text, disk.text),
  };
}

async function readDisk(path: string): Promise<DiskFile> {
  try {
    const { size } = await stat(path);
    if (size > maxBytes) return { problem: `it has more than ${maxBytes} bytes` };
    return { text: await readFile(path, "utf8") };
  } catch (error) {
    const code = errorCode(error) ?? "unknown";
    return { problem: code === "ENOENT" ? "it does not exist" : `it cannot be read (${code})` };
  }
}

/** The texts are compared before secrets are hidden, so a changed secret is a changed line. */
export function compare(running: string, disk: string): ComparedLine[] {
  const [before, after] = [linesOf(running), linesOf(disk)];
  const [shownBefore, shownAfter] = [linesOf(maskSecrets(running)), linesOf(maskSecrets(disk))];
  const changes = diffArrays(before, after, { maxEditLength: maxChanges }) ?? [
    { count: before.length, removed: true, added: false },
    { count: after.length, removed: false, added: true },
  ];
  const lines: ComparedLine[] = [];
  let [inRunning, onDisk] = [0, 0];
  for (const { count, removed, added } of changes) {
    for (let n = 0; n < count; n++) {
      const text = (added ? shownAfter[onDisk] : shownBefore[inRunning]) ?? "";
      lines.push({
        text,
        ...(!added && { running: ++inRunning }),
        ...(!removed && { disk: ++onDisk }),
      });
    }
  }
  return lines;
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/**
 * Replaces the values of secret options, the credentials in URLs and the texts of API keys. The number of lines stays
 * the same. References such as `${GATEWAY_SECRET}` stay as they are. The text may have syntax errors.
 */
export function maskSecrets(text: string): string {
  const document = parseDocument(text, { prettyErrors: false, version: "1.2", logLevel: "silent" });
  const ranges: (readonly [number, number])[] = [];
  visit(document, {
    Pair(_, { key, value }) {
      if (!isScalar(key) || !secretName.test(String(key.value)) || !isScalar(value)) return;
      const { value: content, range } = value;
      // Numbers and booleans are not secrets, as in `maxTokens: 100`.
      if (typeof content !== "string" || content === "" || onlyReferences.test(content)) return;
      if (range) ranges.push([range[0], range[1]]);
    },
  });
  let masked = text;
  for (const [from, to] of ranges.toReversed()) {
    const hidden = masked.slice(from, to).replaceAll(/\S.*/g, censor);
    masked = masked.slice(0, from) + hidden + masked.slice(to);
  }
  return redact(masked);
}
