/**
 * Handles errors that nothing has caught, such as an exception in a plugin's timer. The state of the process is unknown
 * after such an error, so the process ends in order: it logs the error, running requests finish, exchanges settle, and
 * the exit code is 1.
 */
import { createLog, type LogOptions } from "../base/log.ts";
import { pluginOfStack } from "../pipeline/load/plugin-of-stack.ts";

export interface FatalErrors extends Disposable {
  /** Undefined until the server runs; the process then exits at once. */
  drain: { readonly stop: () => Promise<void>; readonly limitMs: number } | undefined;
}

/** Time after the limit of `stop`, which itself needs less. */
const graceMs = 10_000;

export interface FatalErrorOptions extends Pick<LogOptions, "destination"> {
  /** Plugin names by the file of their module, to name the cause of an error. */
  readonly modules?: ReadonlyMap<string, string>;
  /** The part that ends after a fatal error: the process, or one of its threads. */
  readonly part?: "process" | "thread";
  /** Messages may quote the content of requests. */
  readonly hidesMessages?: boolean;
}

export function catchFatalErrors({
  destination,
  modules = new Map(),
  hidesMessages = false,
  part = "process",
}: FatalErrorOptions = {}): FatalErrors {
  // Fatal errors are logged at every log level.
  const log = createLog({ level: "fatal", ...(destination !== undefined && { destination }) });
  let isEnding = false;
  const handle = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin): void => {
    const { drain } = fatal;
    const isLast = isEnding || drain === undefined;
    isEnding = true;
    try {
      const stack = error instanceof Error ? (error.stack ?? "") : "";
      const plugin = pluginOfStack(stack, modules);
      log.fatal(
        {
          err: hidesMessages ? withoutMessage(error) : error,
          origin,
          ...(plugin !== undefined && { plugin }),
        },
        isLast
          ? `fatal error: the ${part} exits immediately`
          : `fatal error: the ${part} drains, then exits`,
      );
    } finally {
      if (isLast) process.exit(1);
    }
    if (drain !== undefined) void end(drain);
  };
  // Node reports unhandled rejections here, too.
  process.on("uncaughtException", handle);
  const fatal: FatalErrors = {
    drain: undefined,
    [Symbol.dispose]: () => void process.off("uncaughtException", handle),
  };
  return fatal;
}

async function end({ stop, limitMs }: NonNullable<FatalErrors["drain"]>): Promise<void> {
  setTimeout(() => process.exit(1), limitMs + graceMs);
  try {
    await stop();
  } finally {
    process.exit(1);
  }
}

function withoutMessage(error: unknown): object {
  if (!(error instanceof Error)) return {};
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return { type: error.name, stack: frames.join("\n") };
}
