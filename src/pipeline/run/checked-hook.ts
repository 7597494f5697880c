/**
 * What steps with `onError: skip` return and the head that they edit are checked while the hook runs, so that the step
 * can be skipped. A wrong result of other steps is found when it is sent.
 */
import { validateHeaderName, validateHeaderValue } from "node:http";
import { isObject } from "../../base/is-object.ts";
import type { Exchange, Reply, StepHooks } from "../../plugin.ts";
import { checkStatus, LiveResponseHead } from "./response-head.ts";

type Run = (this: StepHooks, x: Exchange, arg: unknown, state: unknown) => unknown;

/** The result of `settled` is ignored, and the chunks of all steps are checked elsewhere. */
export function checkedHook(name: string, run: Run): Run {
  if (name === "settled" || name === "responseChunk" || name === "responseFlush") return run;
  if (name === "responseHeaders") return editingCopy(run);
  return function (x, arg, state) {
    const result = run.call(this, x, arg, state);
    const check = (reply: unknown): unknown => {
      checkResult(name, arg, reply);
      return reply;
    };
    return result instanceof Promise ? result.then(check) : check(result);
  };
}

/** Lets the hook edit a copy of the head. The changes are applied when the hook has ended, if they are valid. */
function editingCopy(run: Run): Run {
  return function (x: Exchange, arg, state) {
    // Hooks of this phase get the head.
    const head = arg as LiveResponseHead;
    const { status, fields, code, from, streamed } = head;
    const copy = new LiveResponseHead(
      { status, headers: fields, ...(code !== undefined && { code }) },
      from,
      streamed,
    );
    const accept = (): void => {
      checkHead(copy.status, copy.fields);
      head.status = copy.status;
      head.fields.splice(0, head.fields.length, ...copy.fields);
    };
    const result = run.call(this, x, copy, state);
    return result instanceof Promise ? result.then(accept) : accept();
  };
}

/** Throws an Error if the result is neither a reply nor the value that means "no reply" in this phase. */
function checkResult(name: string, arg: unknown, result: unknown): void {
  if (name === "around") {
    // Hooks of this phase get the surface, as src/pipeline/run/around.ts has wrapped it.
    const surface = arg as { readonly isCalled: boolean; readonly reply: Reply | undefined };
    if (surface.isCalled && result === surface.reply) return;
    if (result === undefined)
      throw new TypeError(
        "around returned undefined, expected a reply or the result of the surface",
      );
  }
  if (result === undefined) return;
  if (!isObject(result)) throw new TypeError(`${name} returned ${typeof result}, expected a reply`);
  const { status, headers = [], body } = result;
  if (!Array.isArray(headers)) throw new TypeError(`${name} returned a reply with invalid headers`);
  checkHead(status, headers);
  const isBody = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  if (!isBody) throw new TypeError(`${name} returned a reply with an invalid body`);
}

/** Throws an Error if HTTP does not allow the status or a field. `fields`: flat list of names and values. */
function checkHead(status: unknown, fields: readonly unknown[]): void {
  checkStatus(status);
  if (fields.length % 2 === 1) throw new TypeError("a header has a name without a value");
  for (let at = 0; at < fields.length; at += 2) {
    const [name, value] = [fields[at], fields[at + 1]];
    if (typeof name !== "string" || typeof value !== "string") {
      throw new TypeError("the name and the value of a header must be strings");
    }
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
}
