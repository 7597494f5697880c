/** The answers of the provider and the addresses in its documents are hostile input. */
import type { CustomFetch } from "openid-client";
import type { HttpResponse, SendRequest } from "sluice-gateway/internal/http";
import type { Clock } from "sluice-gateway/plugin";
import { errorCode } from "sluice-gateway/internal/toolkit";

/** Time limit of a request, with the body of its answer. */
export const answerMs = 5_000;
const maxAnswerBytes = 256 * 1024;

/** Thrown if the provider has not sent a usable answer. The message contains no text from the provider. */
export class NoAnswerError extends Error {}

/**
 * Returns a `fetch` without redirects, with limits of time and size. It sends nothing in plain text, except to an
 * issuer whose own URL is http, which the options allow on this machine only. Rejects with a NoAnswerError.
 */
export function providerFetch(issuer: string, send: SendRequest, clock: Clock): CustomFetch {
  const plainHost = new URL(issuer).protocol === "http:" ? new URL(issuer).hostname : undefined;
  return async (url, { method, headers, body }) => {
    const { protocol, hostname } = new URL(url);
    if (protocol !== "https:" && (protocol !== "http:" || hostname !== plainHost)) {
      throw new NoAnswerError("an address of the provider is neither https nor the issuer's own");
    }
    const late = new AbortController();
    using _timer = clock.after(answerMs, () => late.abort());
    try {
      const { signal } = late;
      // The library sends forms only.
      const form = body instanceof URLSearchParams ? Buffer.from(body.toString()) : undefined;
      const sent = { method, headers, signal, ...(form !== undefined && { body: form }) };
      return await whole(await send(url, sent));
    } catch (error) {
      if (error instanceof NoAnswerError) throw error;
      if (late.signal.aborted) throw new NoAnswerError("no answer in time", { cause: error });
      const code = errorCode(error) ?? "failed";
      throw new NoAnswerError(`no answer: ${code}`, { cause: error });
    }
  };
}

async function whole(answer: HttpResponse): Promise<Response> {
  const { statusCode, headers, body } = answer;
  if (statusCode < 200 || statusCode >= 500) {
    await answer.dump(maxAnswerBytes);
    throw new NoAnswerError(`status ${statusCode}`);
  }
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxAnswerBytes) throw new NoAnswerError(`more than ${maxAnswerBytes} bytes`);
    parts.push(chunk);
  }
  const fields = Object.entries(headers).flatMap(([name, value = []]) =>
    [value].flat().map((each): [string, string] => [name, each]),
  );
  // These statuses must not have a body.
  const isEmpty = [204, 205, 304].includes(statusCode);
  return new Response(isEmpty ? null : Buffer.concat(parts), {
    status: statusCode,
    headers: fields,
  });
}
