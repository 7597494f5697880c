export interface TestJob {
  readonly kind: "double" | "none" | "wrong" | "throw" | "hang" | "die" | "hold";
  readonly bytes?: Uint8Array;
  /** `hold`: increments the first word when the job begins, and waits until the second word is not 0. */
  readonly gate?: SharedArrayBuffer;
}

export default function run(job: TestJob): unknown {
  const gate = job.gate === undefined ? undefined : new Int32Array(job.gate);
  if (gate !== undefined) {
    Atomics.add(gate, 0, 1);
    Atomics.notify(gate, 0);
  }
  switch (job.kind) {
    case "double":
      return Uint8Array.from(job.bytes ?? [], (byte) => byte * 2);
    case "none":
      return undefined;
    case "wrong":
      return "no bytes";
    case "throw":
      throw new Error("a bug");
    case "hang":
      for (;;);
    case "die":
      return process.exit(7);
    case "hold":
    default:
      if (gate !== undefined) Atomics.wait(gate, 1, 0);
      return new Uint8Array([1]);
  }
}
