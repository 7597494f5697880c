/** Guards the listeners of an AbortSignal, which a plugin adds and the core calls. */

type Listener = Parameters<AbortSignal["addEventListener"]>[1];

/**
 * Makes `run` call every listener that is added to `signal` from now on. Node would report an exception in a listener
 * as an uncaught exception, which ends the process.
 */
export function guardListeners(
  signal: AbortSignal,
  run: (callListener: () => unknown) => void,
): void {
  const wrapped = new WeakMap<object, (event: Event) => void>();
  const wrap = (listener: Listener): ((event: Event) => void) => {
    const known = wrapped.get(listener);
    if (known !== undefined) return known;
    const guarded = (event: Event): void =>
      run(() =>
        typeof listener === "function" ? listener.call(signal, event) : listener.handleEvent(event),
      );
    wrapped.set(listener, guarded);
    return guarded;
  };
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (type: string, listener: Listener, options?: AddOptions) =>
    add(type, wrap(listener), options);
  signal.removeEventListener = (type: string, listener: Listener, options?: AddOptions) =>
    remove(type, wrap(listener), options);
}

type AddOptions = Parameters<AbortSignal["addEventListener"]>[2];
