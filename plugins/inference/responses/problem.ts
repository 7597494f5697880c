/** A member of a request that the gateway does not accept. Thrown while a request is read, and answered with 400. */

export type ProblemCode = "invalid_value" | "unsupported_parameter";

/** `message`: the path and the reason, for the client. `param`: the path, such as `input[3].type`. */
export class RequestProblem extends Error {
  readonly param: string;
  readonly code: ProblemCode;

  constructor(code: ProblemCode, param: string, reason: string) {
    super(`${param}: ${reason}`);
    this.code = code;
    this.param = param;
  }
}

export function invalid(param: string, reason: string): RequestProblem {
  return new RequestProblem("invalid_value", param, reason);
}

export function unsupported(param: string, reason: string): RequestProblem {
  return new RequestProblem("unsupported_parameter", param, reason);
}

/** Says what an operator has to do before clients can use a member. */
export function notPassed(param: string, part: string): RequestProblem {
  return unsupported(
    param,
    `the network of this model does not pass ${part} on to its workers; its operator has to add \`${part}\` to \`passes\` of the network`,
  );
}

/** Returns a text that is not empty. */
export function nameAt(value: unknown, path: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw invalid(path, "expected a text that is not empty");
}

export function textAt(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  throw invalid(path, "expected a text");
}
