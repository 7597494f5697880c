/** The phases of an exchange, and the ways in which it can end. */

/**
 * The phases in which a plugin can act, in the order in which an exchange passes them. The hook `responseFlush` belongs
 * to `responseChunk`.
 *
 * | phase | runs | may |
 * |---|---|---|
 * | `requestHeaders` | down the list | reply (then nothing below runs and no upstream is called) |
 * | `requestBody` | down the list, with the whole body, which is read once | replace the body, reply |
 * | `answer` | in the surface only | answer |
 * | `responseHeaders` | up the list | change status and headers |
 * | `responseChunk` | up the list, synchronously, with borrowed chunks | replace a chunk |
 * | `responseEnd` | up the list, before the last byte is sent | wait; refuse if nothing has been sent yet |
 * | `settled` | up the list, exactly once, however the exchange ended | release, record, log |
 */
export type Phase =
  | "requestHeaders"
  | "requestBody"
  | "answer"
  | "responseHeaders"
  | "responseChunk"
  | "responseEnd"
  | "settled";

/**
 * How an exchange ended. `complete`: the answer of the surface was sent to its last byte. `replied`: a step answered
 * instead of the surface.
 */
export type Outcome = "complete" | "replied" | "clientLeft" | "upstreamFailed" | "timedOut";

/** A hook that returns no promise costs no promise. */
export type Awaitable<T> = T | Promise<T>;
