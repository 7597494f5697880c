/**
 * Step `idempotency`: a request that is repeated with its Idempotency-Key runs once. The repetition is answered with
 * the stored response (gateway.md, "States and transitions"; decisions.md section 11).
 */
import { hash } from "node:crypto";
import { defineStep, refuse, type Operation } from "sluice-gateway/plugin";
import { IdempotentAttempt } from "./idempotent-attempt.ts";

interface Options {
  readonly prefix: string;
}

/** Undefined for a request without an idempotency key. */
interface State {
  attempt: IdempotentAttempt | undefined;
}

/** gateway.md, "Idempotency". */
const bodyBytes = 1024 * 1024;

/** Maximum length of an Idempotency-Key (gateway.md, "Codes" and "Idempotency"; decisions.md section 11). */
const maxKeyChars = 255;

const regexSyntax = /[\\^$.*+?()[\]{}|/]/g;

/** Methods that change nothing and can be repeated (RFC 9110 section 9.2.1). */
const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS", "TRACE"]);

export default defineStep<Options, State>({
  name: "idempotency",
  description:
    "Runs a request with an Idempotency-Key once, and replays the response for 24 hours.",
  options: {
    type: "object",
    properties: {
      prefix: {
        description: "Required prefix of an Idempotency-Key.",
        type: "string",
        pattern: "^[\\x21-\\x7e]{0,64}$",
        default: "gateway_",
      },
    },
    additionalProperties: false,
  },
  needs: { principal: "requestHeaders" },
  uses: ["accounts"],
  operation: ({ prefix }, { method }) => (safeMethods.has(method) ? {} : documented(prefix)),
  start({ prefix }, host) {
    const { mode } = host;
    const { idempotency } = host.use("accounts");
    const form = new RegExp(keyPattern(prefix), "u");
    const malformed = refuse("GATEWAY_INVALID_IDEMPOTENCY_KEY", {
      message: `an idempotency key must start with ${JSON.stringify(prefix)} and have at most ${maxKeyChars} visible ASCII characters`,
    });
    const keyless = refuse("GATEWAY_INVALID_IDEMPOTENCY_KEY", {
      message: "an idempotency key requires a valid api key",
    });
    return {
      bodyBytes,
      tooLargeStatus: 400,
      createState: () => ({ attempt: undefined }),
      requestHeaders(x, state) {
        const key = x.request.headers["idempotency-key"];
        if (key === undefined || safeMethods.has(x.request.method)) return undefined;
        if (typeof key !== "string" || !form.test(key)) return malformed;
        const principal = x.get("principal");
        if (principal.kind === "anonymous") return keyless;
        state.attempt = new IdempotentAttempt(idempotency, mode, principal.key.id, key);
        return undefined;
      },
      requestBody(x, body, { attempt }) {
        if (attempt === undefined) return;
        const { method, target } = x.request;
        // Method and target contain no space and no line break, so no other request has the same text.
        const head = Buffer.from(`${method} ${target}\n`);
        attempt.fingerprint = hash("sha256", Buffer.concat([head, body]));
      },
      around(_, surface, { attempt }) {
        return attempt === undefined ? surface.answer() : attempt.run(surface);
      },
      responseHeaders(_, head, { attempt }) {
        if (head.streamed) attempt?.streams(head);
      },
      responseChunk(_, chunk, { attempt }) {
        attempt?.keep(chunk);
      },
      responseEnd(_, outcome, { attempt }) {
        return outcome === undefined ? attempt?.streamed() : undefined;
      },
      settled(_, __, { attempt }) {
        return attempt?.release();
      },
    };
  },
});

function documented(prefix: string): Operation {
  return {
    headers: {
      type: "object",
      properties: {
        "idempotency-key": {
          description: `Key that starts with \`${prefix}\`. The request runs once; if it is sent again within 24 hours, the stored response is returned.`,
          type: "string",
          pattern: keyPattern(prefix),
          examples: [`${prefix}2f6c1b7e`],
        },
      },
    },
    refusals: [
      {
        code: "GATEWAY_INVALID_IDEMPOTENCY_KEY",
        description: "The Idempotency-Key is not valid, or it was sent without a valid API key.",
      },
      {
        code: "GATEWAY_CONFLICT",
        description: "The first request with this Idempotency-Key is still running.",
      },
      {
        code: "GATEWAY_IDEMPOTENCY_KEY_MISMATCH",
        description: "The Idempotency-Key was used for a different request.",
      },
    ],
    answerHeaders: {
      "Idempotent-Replayed": {
        description: "`true` if the response is the stored one of an earlier request.",
        schema: { type: "string", examples: ["true"] },
      },
    },
  };
}

/** The values of a header that is sent twice are joined with a space, so they do not match. */
function keyPattern(prefix: string): string {
  const min = prefix === "" ? 1 : 0;
  const max = maxKeyChars - prefix.length;
  return `^${prefix.replaceAll(regexSyntax, String.raw`\$&`)}[!-~]{${min},${max}}$`;
}
