import { createLog } from "../../base/log.ts";
import type { Log, LogLine, Threads } from "../../plugin.ts";
import { lineTopic, type SentLine } from "./thread-start.ts";

/** `sendsLines`: whether the lines go to the log of the main thread instead of standard output. */
export function threadLog(level: string, threads: Threads, sendsLines: boolean): Log {
  const about = { thread: threads.index };
  return sendsLines ? sendingLog(threads, about) : createLog({ level }).child(about);
}

function sendingLog(threads: Threads, about: object): Log {
  const send = (line: SentLine): void => {
    try {
      threads.send(lineTopic, line, 0);
    } catch {
      // A plugin has logged a value that cannot be copied, such as a function.
      threads.send(lineTopic, { ...line, fields: about }, 0);
    }
  };
  const at =
    (level: SentLine["level"]): LogLine =>
    (fields, text) =>
      send({ level, fields: { ...about, ...fields }, text });
  return {
    line: (text) => send({ level: "line", fields: {}, text }),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => sendingLog(threads, { ...about, ...fields }),
  };
}

export function receiveLines(threads: Threads, log: Log): Disposable {
  return threads.receive(lineTopic, (value) => {
    // Only `sendingLog` sends to this topic.
    const { level, fields, text } = value as SentLine;
    if (level === "line") log.line?.(text);
    else log[level](fields, text);
  });
}
