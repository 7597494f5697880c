/**
 * Errors that nothing has caught: an exception in a plugin's own timer, a rejected promise that nobody waits for. The
 * state of the process is in doubt then, so it ends, but not in the middle of everything: one line of the log says why,
 * running requests finish, charges are settled, and the exit code is 1.
 */
import { createLog, type LogOptions } from "../log.ts";
import { pluginOfStack } from "../pipeline/plugin-of-stack.ts";

export interface FatalErrors extends Disposable {
  /** Ends what runs, within `limitMs`. Undefined before there is anything to end: then the process exits at once. */
  drain: { readonly stop: () => Promise<void>; readonly limitMs: number } | undefined;
}

/** Longer than anything that `stop` waits for after its own limit. */
const graceMs = 10_000;

export interface FatalErrorOptions extends Pick<LogOptions, "destination"> {
  /** File of each plugin's module to its name, to say whose error it was. */
  readonly modules?: ReadonlyMap<string, string>;
  /** Messages of errors are left out: they may quote what a client sent. */
  readonly hidesMessages?: boolean;
}

/** Handles fatal errors until it is disposed. */
export function catchFatalErrors({
  destination,
  modules = new Map(),
  hidesMessages = false,
}: FatalErrorOptions = {}): FatalErrors {
  // Whatever the level of the log: a process that ends by itself says why.
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
          ? "fatal error: the process exits at once"
          : "fatal error: the process drains and exits",
      );
    } finally {
      if (isLast) process.exit(1);
    }
    if (drain !== undefined) void end(drain);
  };
  // Node reports a rejected promise that nobody handles here, too.
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
