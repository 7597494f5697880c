import { ask, ApiError } from "./api.js";
import { useEffect, useRef, useState } from "./html.js";

/** A path is read again after this time if the gateway has reported that the answer is not ready yet. */
const againMs = 2_000;

/** @typedef {{ data: any, error: ApiError | undefined }} Answer */

/**
 * Reads repeatedly while the page is visible. After an error, `data` keeps the last answer. `path`: undefined to read
 * nothing. `refresh`: reads at once.
 * @param {string | undefined} path
 * @param {number} everyMs
 * @returns {Answer & { refresh: () => void }}
 */
export function usePolled(path, everyMs) {
  const [state, setState] = useState(/** @type {Answer} */ ({ data: undefined, error: undefined }));
  const polling = useRef({ now: () => {} });
  useEffect(() => {
    if (path === undefined) return undefined;
    const failed = (error) => setState(({ data }) => ({ data, error }));
    const polled = poll(everyMs, path, (data) => setState({ data, error: undefined }), failed);
    polling.current = polled;
    return polled.stop;
  }, [path, everyMs]);
  return { ...state, refresh: () => polling.current.now() };
}

/**
 * `data` is undefined until it has been read.
 * @param {string | undefined} path
 * @returns {Answer}
 */
export function useAnswer(path) {
  const [state, setState] = useState(/** @type {Answer} */ ({ data: undefined, error: undefined }));
  useEffect(() => {
    if (path === undefined) return undefined;
    const aborter = new AbortController();
    const read = async () => {
      try {
        const data = await ask(path, { signal: aborter.signal });
        setState({ data, error: undefined });
      } catch (error) {
        if (aborter.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        setState({ data: undefined, error });
      }
    };
    void read();
    return () => aborter.abort();
  }, [path]);
  return state;
}

/** Reads while the page is visible. Returns functions that read at once, and that stop. */
function poll(everyMs, path, took, failed) {
  let timer;
  let running = new AbortController();
  const now = async () => {
    clearTimeout(timer);
    running.abort();
    const mine = new AbortController();
    running = mine;
    let waitMs = everyMs;
    try {
      const answer = await ask(path, { signal: mine.signal });
      if (mine.signal.aborted) return;
      took(answer);
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      failed(error);
      if (error.status === 503 || error.status === 429) waitMs = Math.min(everyMs, againMs);
    }
    if (!document.hidden) timer = setTimeout(now, waitMs);
  };
  const seen = () => {
    if (!document.hidden) void now();
  };
  document.addEventListener("visibilitychange", seen);
  void now();
  return {
    now: () => void now(),
    stop: () => {
      clearTimeout(timer);
      running.abort();
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
