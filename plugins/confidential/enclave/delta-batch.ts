/**
 * Puts the model's deltas together before they are sealed: a frame for each token would tell its length and its moment
 * to whoever watches the line. The first text goes at once, since everybody waits for it.
 */
import type { Clock } from "../../../src/services/clock.ts";
import { utf8 } from "../protocol/encoding.ts";
import type { JsonObject } from "../protocol/strict-json.ts";

export interface DeltaBatch {
  /** A delta of OpenAI's. */
  add(delta: JsonObject): void;
  /** Sends what waits, whoever asked to hold. */
  flush(): void;
  /** Nothing is sent until `release`. */
  hold(): void;
  release(): void;
  /** What waits is dropped. */
  close(): void;
}

/** confidential-stream.md, 1.2: a batch is full after so long, or with so many tokens. */
const batchMs = 40;
const batchTokens = 8;
/** Characters of one text in a frame: two of them, each character escaped in six, are below the limit of its data. */
const pieceChars = 4_096;

/** `send`: the plaintext of one chunk. */
export function createDeltaBatch(clock: Clock, send: (data: Uint8Array) => void): DeltaBatch {
  let role: unknown;
  let reasoning = "";
  let content = "";
  let tokens = 0;
  let hasSpoken = false;
  let isHeld = false;
  let timer: Disposable | undefined;

  const tell = (delta: object): void => send(utf8(JSON.stringify(delta)));

  function flush(): void {
    timer?.[Symbol.dispose]();
    timer = undefined;
    hasSpoken ||= tokens > 0;
    tokens = 0;
    const thoughts = pieces(reasoning);
    const words = pieces(content);
    const head = role === undefined ? {} : { role };
    role = undefined;
    reasoning = content = "";
    const [thought, word] = [thoughts.shift(), words.shift()];
    const delta = {
      ...head,
      ...(thought !== undefined && { reasoning_content: thought }),
      // What is thought comes before what is said.
      ...(word !== undefined && thoughts.length === 0 && { content: word }),
    };
    if (Object.keys(delta).length > 0) tell(delta);
    for (const more of thoughts) tell({ reasoning_content: more });
    if (word !== undefined && thoughts.length > 0) tell({ content: word });
    for (const more of words) tell({ content: more });
  }

  function arrange(): void {
    if (isHeld) return;
    if (tokens >= (hasSpoken ? batchTokens : 1)) return flush();
    timer ??= clock.after(batchMs, () => {
      timer = undefined;
      if (!isHeld) flush();
    });
  }

  return {
    flush,
    add(delta) {
      const { role: named, content: said, reasoning_content: thought, ...more } = delta;
      if (Object.values(more).some((value) => value !== null)) {
        // Such as tool_calls, which cannot be put together: alone, in its turn.
        flush();
        return tell(delta);
      }
      role ??= typeof named === "string" ? named : undefined;
      const thinks = typeof thought === "string" && thought !== "";
      const speaks = typeof said === "string" && said !== "";
      if (thinks && content !== "") flush();
      if (thinks) reasoning += thought;
      if (speaks) content += said;
      if (thinks || speaks) tokens++;
      if (role !== undefined || tokens > 0) arrange();
    },
    hold() {
      isHeld = true;
    },
    release() {
      isHeld = false;
      flush();
    },
    close() {
      timer?.[Symbol.dispose]();
      role = undefined;
      reasoning = content = "";
    },
  };
}

/** None of an empty text. No pair of surrogates is torn apart. */
function pieces(text: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(at + pieceChars, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end--;
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}
