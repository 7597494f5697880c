/** Calls the gateway's API. The session is a cookie that scripts cannot read. */

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const base = "/dashboard/api/";

/**
 * Returns the JSON of the answer. Throws ApiError, with status 0 if there is no answer. After a 401, the page shows the
 * sign-in form.
 * @param {string} path
 * @param {{ method?: string, body?: object, signal?: AbortSignal }} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = "GET", body, signal } = {}) {
  const headers = { "x-sluice-dashboard": "1" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  let answer;
  try {
    response = await fetch(base + path, {
      method,
      headers,
      signal,
      cache: "no-store",
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    answer = response.status === 204 ? undefined : await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "", "the gateway does not answer");
  }
  if (response.ok) return answer;
  // The sign-in form itself shows why a key is refused.
  if (response.status === 401 && path !== "session") {
    document.dispatchEvent(new CustomEvent("signedout"));
  }
  throw new ApiError(response.status, answer.error_code, answer.error);
}

/**
 * Polls while the page is visible. `failed`: called with an error, or with undefined when polling works again. Returns
 * functions that poll at once and that stop polling.
 */
export function poll(everyMs, path, took, failed) {
  let timer;
  let running = new AbortController();
  const now = async () => {
    clearTimeout(timer);
    running.abort();
    const mine = new AbortController();
    running = mine;
    try {
      const answer = await ask(path(), { signal: mine.signal });
      if (mine.signal.aborted) return;
      failed(undefined);
      took(answer);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      failed(error);
    }
    if (!document.hidden) timer = setTimeout(now, everyMs);
  };
  const seen = () => {
    if (!document.hidden) void now();
  };
  document.addEventListener("visibilitychange", seen);
  void now();
  return {
    now,
    stop: () => {
      clearTimeout(timer);
      running.abort();
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
