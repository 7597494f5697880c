/** The session is a cookie that scripts cannot read. */

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

const base = "/dashboard/api/";

/**
 * Throws ApiError, with status 0 if the gateway does not answer. After a 401, the page shows the sign-in form. `once`:
 * key with which a change that is sent several times is made once. `read`: reads an answer without an error, by default
 * as JSON.
 * @param {string} path
 * @param {{
 *   method?: string,
 *   body?: object,
 *   once?: string,
 *   signal?: AbortSignal,
 *   read?: (response: Response) => any,
 * }} [options]
 * @returns {Promise<any>}
 */
export async function ask(path, { method = "GET", body, once, signal, read = readJson } = {}) {
  const headers = { "x-sluice-dashboard": "1" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (once !== undefined) headers["idempotency-key"] = once;
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
    if (response.status !== 204) answer = await (response.ok ? read : readJson)(response);
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

/** @param {Response} response */
function readJson(response) {
  return response.json();
}

/**
 * @param {string} path
 * @param {object} body
 * @param {string} once
 */
export function change(path, body, once) {
  return ask(path, { method: "POST", body, once });
}

/** `crypto.randomUUID` is missing on pages without TLS. */
export function newFormKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
