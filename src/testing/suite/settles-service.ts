/** Services report their state, calls settle even if the service is stopped meanwhile, and its stop ends. */
import { backendsOf, readiness } from "../../http/readiness.ts";
import type { ServiceHooks } from "../../plugin.ts";
import { messageOf } from "../../base/message-of.ts";
import {
  notSettled,
  openFor,
  thrown,
  within,
  type Subject,
  type SubjectGateway,
} from "./subject.ts";

export async function serviceProblems(subject: Subject): Promise<string[]> {
  const { plugin, example, patienceMs } = subject;
  const problems: string[] = [];
  await using gateway = await openFor(subject);
  problems.push(...reportProblems(hooksOf(gateway, plugin.name), plugin.name));
  if (example.use !== undefined) {
    const used = use(subject, gateway);
    if ((await within(used, patienceMs)) === undefined) {
      problems.push(notSettled("use", patienceMs, "the call"));
    }
  }
  const from = gateway.lines.length;
  // The exchange uses the service, and the call has not settled when the service is stopped.
  const exchange = gateway.begin(example.request ?? {});
  const used = use(subject, gateway);
  const restarted = gateway.restart(plugin).then(
    () => [],
    (error: unknown) => [`reload: ${messageOf(error)}`],
  );
  const stopped = await within(restarted, patienceMs);
  problems.push(...(stopped ?? [`reload: the service did not stop within ${patienceMs} ms`]));
  if ((await within(used, patienceMs)) === undefined) {
    problems.push(notSettled("reload", patienceMs, "the call"));
  }
  if ((await within(exchange.answer, patienceMs)) === undefined) {
    problems.push(notSettled("reload", patienceMs));
  }
  return [...problems, ...thrown(gateway.lines.slice(from), subject, "reload")];
}

function hooksOf(gateway: SubjectGateway, name: string): ServiceHooks<unknown> | undefined {
  return gateway.generation.services.get(name);
}

/** Calls the service as the example does. Resolves to true when the call has settled. */
async function use({ plugin, example }: Subject, gateway: SubjectGateway): Promise<true> {
  try {
    // The author of the example knows the type of the service.
    await example.use?.(hooksOf(gateway, plugin.name)?.service as never);
  } catch {
    // A backend may not exist where the suite runs.
  }
  return true;
}

function reportProblems(hooks: ServiceHooks<unknown> | undefined, name: string): string[] {
  if (hooks === undefined) return [];
  const services = new Map([[name, hooks]]);
  const { checks } = readiness({ draining: false, generation: { services } });
  const problems = Object.entries(checks)
    .filter(([, state]) => state === "failed to report")
    .map(([check]) => `ready: "${check}" is neither true nor a reason`);
  try {
    const reported = hooks.backends?.() ?? [];
    if (backendsOf({ services }).length !== reported.length) {
      problems.push("backends: an entry lacks kind, title or ready");
    }
  } catch (error) {
    problems.push(`backends: ${messageOf(error)}`);
  }
  return problems;
}
