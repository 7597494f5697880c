/** Server-sent events of a chat completion, valid and invalid. */

export type Newline = "\n" | "\r\n" | "\r";

export interface EventForm {
  /** The line end. Default: `\n`. */
  readonly newline?: Newline;
  /** Splits the document into several `data:` lines, as the format allows. */
  readonly multiline?: boolean;
}

/** Returns one event with the document as its data. Text is used unchanged (`[DONE]`). */
export function eventOf(
  document: unknown,
  { newline = "\n", multiline = false }: EventForm = {},
): string {
  const text =
    typeof document === "string"
      ? document
      : JSON.stringify(document, undefined, multiline ? 1 : undefined);
  return (
    text
      .split("\n")
      .map((line) => `data: ${line}${newline}`)
      .join("") + newline
  );
}

/** Returns a comment line, which readers skip; servers send it to keep a connection alive. */
export function commentOf(text: string, newline: Newline = "\n"): string {
  return `: ${text}${newline}${newline}`;
}

export interface ChunkOptions {
  readonly finishReason?: string | null;
  readonly model?: string;
  readonly id?: string;
  readonly extra?: object;
}

export function chunkOf(
  delta: object,
  { finishReason = null, model = "Test/Model-1", id = "worker-1", extra = {} }: ChunkOptions = {},
): object {
  const choices = [{ index: 0, delta, finish_reason: finishReason }];
  return { id, object: "chat.completion.chunk", created: 1_767_225_600, model, choices, ...extra };
}

export function usageChunkOf(usage: unknown, options: ChunkOptions = {}): object {
  return { ...chunkOf({}, options), choices: [], usage };
}

export function bytesOf(text: string | Buffer): Buffer[] {
  const bytes = Buffer.from(text);
  return Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
}

/** The data of the events in a whole stream, as a reader of the format sees it (WHATWG, server-sent events, 9.2.6). */
export function dataOf(stream: string): string[] {
  const events: string[] = [];
  let lines: string[] = [];
  for (const line of stream.split(/\r\n|\n|\r/)) {
    if (line.startsWith("data:")) lines.push(line.slice(line[5] === " " ? 6 : 5));
    if (line === "" && lines.length > 0) {
      events.push(lines.join("\n"));
      lines = [];
    }
  }
  return events;
}
