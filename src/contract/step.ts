/** Plugins of kind `step`. */
import type { Exchange } from "./exchange.ts";
import type { ResponseHead } from "./heads.ts";
import type { Host } from "./host.ts";
import type { Documented, Manifest } from "./manifest.ts";
import type { OptionsOf, OptionsSchema } from "./options-of.ts";
import type { Awaitable, Outcome } from "./phase.ts";
import type { Reply } from "./reply.ts";

/** The surface, and the steps between, as the step sees them that wraps them with `around`. */
export interface InnerSurface {
  /** The `atomic` member of the surface. */
  readonly atomic: boolean;
  /**
   * Runs the surface. May be called at most once. Returns its Reply, or undefined after the surface has streamed its
   * answer. Throws the errors that the surface throws.
   */
  readonly answer: () => Awaitable<Reply | undefined>;
}

/** The last argument of the hooks of a step. Hooks of a step without a state can be called without it. */
type StateOf<State> = unknown extends State ? [state?: unknown] : [state: State];

/**
 * The hooks of a step. A missing hook costs nothing, and a synchronous hook costs no promise. If a promise takes longer
 * than `timeoutMs` of the step's entry in pipeline.yaml, the exchange fails and a later result is ignored.
 */
export interface StepHooks<State = unknown> {
  /**
   * Returns the step's own data of one exchange, which no other plugin sees. Called before the first hook of the step.
   * All hooks get the result as their last argument. Use a slot for values that other plugins read.
   */
  createState?(x: Exchange): State;
  requestHeaders?(x: Exchange, ...state: StateOf<State>): Awaitable<Reply | void>;
  requestBody?(x: Exchange, body: Buffer, ...state: StateOf<State>): Awaitable<Reply | void>;
  /**
   * Maximum number of bytes that `requestBody` accepts. A larger body is answered with 413. The smallest limit of a
   * route applies.
   */
  readonly bodyBytes?: number;
  /** The status with which a body above the route's limit is answered, instead of 413. */
  readonly tooLargeStatus?: number;
  /** True if `requestBody` reads the body as JSON: see `SurfaceHooks.body.json`. */
  readonly json?: boolean;
  /**
   * Wraps the surface, for work that must begin and end together with its answer (a transaction). No other hook of the
   * exchange runs meanwhile. Calls `surface.answer` and returns its result. If it returns any other Reply, the step has
   * answered itself.
   */
  around?(
    x: Exchange,
    surface: InnerSurface,
    ...state: StateOf<State>
  ): Awaitable<Reply | undefined>;
  /**
   * Runs for each message of a WebSocket for which the surface calls `Exchange.admit`, down the list. A returned Reply
   * refuses the message, but does not close the connection; the surface reports it in the form of its protocol.
   * `arrivedMonotonic`: `clock.monotonic()` at the arrival of the message.
   */
  message?(
    x: Exchange,
    arrivedMonotonic: number,
    ...state: StateOf<State>
  ): Awaitable<Reply | void>;
  responseHeaders?(x: Exchange, head: ResponseHead, ...state: StateOf<State>): Awaitable<void>;
  /**
   * Returns a replacement or nothing. The chunk is borrowed: do not keep it after the call. An empty replacement sends
   * nothing, so a step can hold bytes back, and send them with a later chunk or in `responseFlush`.
   */
  responseChunk?(x: Exchange, chunk: Uint8Array, ...state: StateOf<State>): Uint8Array | void;
  /**
   * Returns the bytes that the step has held back, or adds to the end of the body. Runs once, after the last chunk and
   * before `responseEnd`, for bodies of known size, too. The steps above get the bytes as a chunk.
   */
  responseFlush?(x: Exchange, ...state: StateOf<State>): Uint8Array | void;
  /**
   * Runs before the last byte is sent. A returned Reply replaces the answer if nothing has been sent yet; otherwise the
   * connection is cut. `outcome`: set if the answer itself reports that it is incomplete.
   */
  responseEnd?(
    x: Exchange,
    outcome?: Reply["outcome"],
    ...state: StateOf<State>
  ): Awaitable<Reply | void>;
  settled?(x: Exchange, outcome: Outcome, ...state: StateOf<State>): void;
  /** Ends timers and connections. Called when no exchange uses the plugin any more. */
  stop?(): Awaitable<void>;
}

export interface Step<Options = Record<string, never>, State = unknown>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "step";
  start(options: Options, host: Host): Awaitable<StepHooks<State>>;
}

/**
 * Declares a step, which inspects, changes or refuses exchanges. Without type arguments, the schema determines the type
 * of the options. `State`: see `StepHooks.createState`.
 */
export function defineStep<const S extends OptionsSchema, State = unknown>(
  step: Omit<Step<OptionsOf<S>, State>, "kind" | "options"> & { readonly options: S },
): Step<OptionsOf<S>, State>;
export function defineStep<Options, State = unknown>(
  step: Omit<Step<Options, State>, "kind">,
): Step<Options, State>;
export function defineStep<Options, State = unknown>(
  step: Omit<Step<Options, State>, "kind">,
): Step<Options, State> {
  return { kind: "step", ...step };
}
