/**
 * Stores the problems that were reported, so that the start and the end of each are reported once. A problem that
 * recurs is reported at most once per `quietMs`.
 */
import type { Alert } from "./event.ts";

export interface Problem {
  readonly id: string;
  readonly raised: Alert;
  /** Undefined for something that happened, such as the loss of credit, and has no end. */
  readonly resolved: Alert | undefined;
}

const quietMs = 600_000;
/** Maximum number of problems that are stored. A backend can list any number of workers. */
const maxProblems = 1_000;

interface Known {
  /** Milliseconds since 1970. */
  readonly raisedAt: number;
  isOpen: boolean;
  readonly resolved: Alert | undefined;
}

export class Problems {
  readonly #known = new Map<string, Known>();

  /** `current`: all problems of one source, whose ids begin with `prefix`. `now`: milliseconds since 1970. */
  update(prefix: string, current: readonly Problem[], now: number): Alert[] {
    const ids = new Set(current.map(({ id }) => id));
    const alerts: Alert[] = [];
    for (const [id, known] of this.#known) {
      if (!id.startsWith(prefix) || ids.has(id)) continue;
      if (known.isOpen && known.resolved !== undefined) alerts.push(known.resolved);
      known.isOpen = false;
      // The wall clock can jump back.
      if (Math.abs(now - known.raisedAt) >= quietMs) this.#known.delete(id);
    }
    for (const { id, raised, resolved } of current) {
      const known = this.#known.get(id);
      if (known?.isOpen === true) continue;
      if (known !== undefined && Math.abs(now - known.raisedAt) < quietMs) continue;
      if (known === undefined && this.#known.size >= maxProblems) continue;
      this.#known.set(id, { raisedAt: now, isOpen: true, resolved });
      alerts.push(raised);
    }
    return alerts;
  }
}
