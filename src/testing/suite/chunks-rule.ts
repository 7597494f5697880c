/**
 * The rule that a step does not keep the chunks of a response, which are borrowed. The rule overwrites each chunk as
 * soon as the hook has returned, as the gateway may do with its buffers, and compares the answers.
 */
import { inspect } from "node:util";
import type { Exchange, Host, Plugin, StepHooks } from "../../plugin.ts";
import type { StepExample } from "../test-plugin.ts";
import { openFor, within, type Rule, type Subject } from "./subject.ts";

/** A byte that text does not contain. It is repeated in `trace`, so that it does not occur by chance. */
const poison = 0xdb;
const trace = Buffer.alloc(8, poison);

async function streamLines(x: Exchange): Promise<undefined> {
  const sink = await x.stream(200, ["content-type", "text/event-stream"]);
  for (let at = 0; at < 4; at++) {
    sink.write(Buffer.from(`data: {"chunk":${at},"text":"${"abcdefgh".repeat(4)}"}\n\n`));
  }
  await sink.end();
  return undefined;
}

export const chunksRule: Rule = {
  name: "chunks",
  kinds: ["step"],
  async check(subject) {
    const { example } = subject;
    const surface: StepExample["surface"] = example.surface ?? { answer: streamLines };
    const streamed = { ...subject, example: { ...example, surface } };
    let hasChunks = false;
    const plugin = overwriting(subject.plugin, () => (hasChunks = true));
    const poisoned = await answerOf({ ...streamed, plugin });
    if (!hasChunks) return [];
    const usual = await answerOf(streamed);
    const isRepeatable = usual === (await answerOf(streamed));
    if (usual === undefined || poisoned === undefined) return [];
    const hasTrace = poisoned.includes(trace.toString("latin1"));
    if (!hasTrace && (!isRepeatable || usual === poisoned)) return [];
    return ["the answer changes if a chunk is overwritten after `responseChunk` has returned"];
  },
};

async function answerOf(subject: Subject): Promise<string | undefined> {
  await using gateway = await openFor(subject);
  const { answer } = gateway.begin(subject.example.request ?? {});
  const found = await within(answer, subject.patienceMs);
  if (found === undefined) return undefined;
  const { status, headers, slots, facts, bytes } = found;
  return `${inspect({ status, headers, slots, facts }, { depth: 6 })} ${bytes.toString("latin1")}`;
}

/** `overwritten`: called for each chunk. */
function overwriting(plugin: Plugin, overwritten: () => void): Plugin {
  if (plugin.kind !== "step") return plugin;
  return {
    ...plugin,
    async start(options: never, host: Host) {
      const hooks = await plugin.start(options, host);
      return new Proxy(hooks, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name, target);
          if (name !== "responseChunk" || typeof member !== "function") return member;
          const responseChunk: StepHooks["responseChunk"] = (x, chunk, ...state) => {
            const borrowed = Buffer.from(chunk);
            const result = Reflect.apply(member, target, [x, borrowed, ...state]) as
              | Uint8Array
              | undefined;
            const sent = result === undefined ? undefined : Buffer.from(result);
            borrowed.fill(poison);
            overwritten();
            return sent;
          };
          return responseChunk;
        },
      });
    },
  };
}
