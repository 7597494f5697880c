/** Plugins of kind `surface`. */
import type { Exchange } from "./exchange.ts";
import type { Host } from "./host.ts";
import type { Documented, Manifest } from "./manifest.ts";
import type { OptionsOf, OptionsSchema } from "./options-of.ts";
import type { Awaitable } from "./phase.ts";
import type { Refused, Reply } from "./reply.ts";

export interface SurfaceHooks {
  /**
   * If present, the core reads the whole body first. `bytes`: maximum size. `types`: the accepted media types; others
   * are answered with 415. `json`: true if the body is JSON. Then a body with more than 65,536 members and elements or
   * more than 128 levels is answered with 400 before any hook gets it. The default is true if `types` lists a JSON
   * type.
   */
  readonly body?: {
    readonly bytes: number;
    readonly types?: readonly string[];
    readonly json?: boolean;
    /**
     * Returns the parsed JSON in the form that the surface reads, if clients can write the same request in several ways,
     * and `value` itself if it has this form. Called before the hooks `requestBody`, so that a step which checks or
     * replaces members of the body sees those that the surface uses.
     */
    readonly normalize?: (value: unknown) => unknown;
  };
  /**
   * True if the surface answers with a Reply and changes nothing outside of the data folder. It may wait for these
   * changes and for nothing else, because other requests may wait for it. A step around the surface can then store the
   * changes and the Reply in one transaction.
   */
  readonly atomic?: boolean;
  /** Returns a Reply, or streams through `x.stream` and resolves to undefined when the stream has ended. */
  answer(x: Exchange): Awaitable<Reply | undefined>;
  /**
   * Returns a refusal in the shape of the surface's API: one by a step of its route, by the core, or by the surface
   * itself. Its code and its limit are recorded in any case. Without this hook, refusals have the envelope of `refuse`.
   */
  renderRefusal?(refused: Refused, x: Exchange): Reply;
  stop?(): Awaitable<void>;
}

export interface Surface<Options = Record<string, never>>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "surface";
  /** True if the surface answers only upgrades (`Exchange.accept`). Its routes must have `websocket: true`. */
  readonly websocket?: boolean;
  start(options: Options, host: Host): Awaitable<SurfaceHooks>;
}

/** Declares a surface, which answers a route. Without a type argument, the schema determines the type of the options. */
export function defineSurface<const S extends OptionsSchema>(
  surface: Omit<Surface<OptionsOf<S>>, "kind" | "options"> & { readonly options: S },
): Surface<OptionsOf<S>>;
export function defineSurface<Options>(surface: Omit<Surface<Options>, "kind">): Surface<Options>;
export function defineSurface<Options>(surface: Omit<Surface<Options>, "kind">): Surface<Options> {
  return { kind: "surface", ...surface };
}
