/**
 * Strict mode, for development and tests: holds plugins to what their manifests say. A plugin that reads or sets a slot
 * that it has not declared, or writes to the head of the request, gets an error that names it, instead of working by
 * chance. It costs a proxy per plugin and exchange, so a gateway in production runs without it.
 */
import { phases } from "../../config/order.ts";
import { grantsOf } from "../../contract/permissions.ts";
import { isObject } from "../../base/is-object.ts";
import { isConnectionField } from "../run/response-head.ts";
import type {
  Exchange,
  Phase,
  Plugin,
  RequestHead,
  SlotPhases,
  StepHooks,
  SurfaceHooks,
} from "../../plugin.ts";

/** Position of each hook's phase in an exchange. `message` has that of the surface's answer, as `around` has. */
const phaseOf: Readonly<Record<string, number>> = {
  ...Object.fromEntries(phases.map((phase, index) => [phase, index])),
  createState: 0,
  message: phases.indexOf("answer"),
  responseFlush: phases.indexOf("responseChunk"),
};

const replyingHooks: ReadonlySet<string | symbol> = new Set([
  "requestHeaders",
  "requestBody",
  "answer",
  "message",
  "responseEnd",
]);

export function enforceManifest<Hooks extends StepHooks | SurfaceHooks>(
  plugin: Plugin,
  hooks: Hooks,
): Hooks {
  const views = new WeakMap<Exchange, View>();
  const viewOf = (x: Exchange): View => {
    const known = views.get(x);
    if (known !== undefined) return known;
    const view = new View(plugin, x);
    views.set(x, view);
    return view;
  };
  return new Proxy(hooks, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      const phase = name === "around" ? phaseOf["answer"] : phaseOf[String(name)];
      if (phase === undefined) return member.bind(target) as unknown;
      return (x: Exchange, ...rest: readonly unknown[]): unknown => {
        const view = viewOf(x);
        view.phase = phase;
        const result: unknown = Reflect.apply(member, target, [view.exchange, ...rest]);
        const isOfBody = name === "responseChunk" || name === "responseFlush";
        if (isOfBody && result instanceof Uint8Array) view.mustChangeBodies();
        if (!replyingHooks.has(name)) return result;
        return result instanceof Promise
          ? result.then((reply: unknown) => view.checkReply(reply))
          : view.checkReply(result);
      };
    },
  });
}

/** Limits one exchange to what one plugin may see of it. */
class View {
  readonly exchange: Exchange;
  phase = 0;
  readonly #plugin: Plugin;

  constructor(plugin: Plugin, x: Exchange) {
    this.#plugin = plugin;
    freeze(x.request);
    // The exchange is a class with private members, so its methods must be called on it and not on the proxy.
    this.exchange = new Proxy(x, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name, target);
        if (name === "body") this.#mustReadBodies("body");
        if (typeof member !== "function") return member;
        return (...given: readonly unknown[]): unknown => {
          this.#check(String(name), given[0]);
          if (name === "stream") this.#checkFields(given[1], Number(given[0]), false);
          return Reflect.apply(member, target, given);
        };
      },
      set: (target, name, value) => Reflect.set(target, name, value, target),
    });
  }

  #check(method: string, slot: unknown): void {
    const { needs, wants, provides } = this.#plugin;
    if (method === "get") this.#mustRead(slot, { ...needs, ...provides }, "`needs`");
    if (method === "peek") this.#mustRead(slot, { ...wants, ...needs, ...provides }, "`wants`");
    if (method === "set") this.#mustProvide(slot, provides ?? {});
    if (method === "json" || method === "bodyStream") this.#mustReadBodies(method);
    if (method === "replaceBody") this.mustChangeBodies();
    if (method === "stream" || method === "accept") this.#mustBeSurface(method);
  }

  #mustRead(slot: unknown, declared: SlotPhases, where: string): void {
    const phase = phaseIn(declared, slot);
    if (phase === undefined) this.#fail(`read the slot "${String(slot)}"`, `${where} lacks it`);
    if (this.phase < (phaseOf[phase] ?? 0) && !phaseIn(this.#plugin.provides ?? {}, slot)) {
      this.#fail(`read the slot "${String(slot)}"`, `the manifest reads it first in ${phase}`);
    }
  }

  #mustProvide(slot: unknown, provides: SlotPhases): void {
    const phase = phaseIn(provides, slot);
    if (phase === undefined) this.#fail(`set the slot "${String(slot)}"`, "`provides` lacks it");
    if (this.phase > (phaseOf[phase] ?? 0)) {
      this.#fail(`set the slot "${String(slot)}"`, `the manifest promises it in ${phase}`);
    }
  }

  /** Throws if the plugin is a step whose manifest does not permit it to read bodies. A surface may always read them. */
  #mustReadBodies(what: string): void {
    const isPermitted = this.#plugin.kind !== "step" || grantsOf(this.#plugin).body !== "none";
    if (!isPermitted)
      this.#fail(`read \`${what}\``, '`permissions.body` must be "read" or "write"');
  }

  mustChangeBodies(): void {
    const isPermitted = this.#plugin.kind !== "step" || grantsOf(this.#plugin).body === "write";
    if (!isPermitted) this.#fail("changed a body", '`permissions.body` must be "write"');
  }

  /** Returns the result of a hook. Throws for a reply with headers that the core would drop. */
  checkReply(reply: unknown): unknown {
    if (isObject(reply)) this.#checkFields(reply["headers"], Number(reply["status"]), true);
    return reply;
  }

  /** Throws for fields that the core sets itself. `isSized`: the core knows the length of the body. */
  #checkFields(fields: unknown, status: number, isSized: boolean): void {
    if (!Array.isArray(fields)) return;
    if (fields.length % 2 === 1) {
      this.#fail("returned `headers` of an odd length", "expected name, value, name, value …");
    }
    for (let at = 0; at < fields.length; at += 2) {
      const name = String(fields[at]);
      const isLength = isSized && name.toLowerCase() === "content-length";
      if (!isLength && !isConnectionField(name, fields[at + 1], status)) continue;
      this.#fail(`returned the header "${name}"`, "the gateway sets it for each connection");
    }
  }

  #mustBeSurface(method: string): void {
    if (this.#plugin.kind !== "surface") this.#fail(`called ${method}()`, "only surfaces may");
  }

  #fail(did: string, reason: string): never {
    throw new Error(`plugin "${this.#plugin.name}" ${did}: ${reason}`);
  }
}

function phaseIn(slots: SlotPhases, slot: unknown): Phase | undefined {
  return new Map<unknown, Phase>(Object.entries(slots)).get(slot);
}

/** Freezes the parts that requests with the same head share on their connection, so that a write to them throws. */
function freeze({ headers, rawHeaders, params }: RequestHead): void {
  for (const value of Object.values(headers)) if (Array.isArray(value)) Object.freeze(value);
  for (const part of [headers, rawHeaders, params]) Object.freeze(part);
}
