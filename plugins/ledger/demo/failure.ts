/** Failures of the demo node's methods, with the codes and texts of a real node. */

/** Thrown by methods and parameter readers. json-rpc.ts converts it to the `error` of the answer. */
export class RpcFailure extends Error {
  readonly code: number;
  readonly data: string | undefined;

  constructor(code: number, message: string, data?: string) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export function invalidParams(data: string): RpcFailure {
  return new RpcFailure(-32602, "Invalid params", data);
}

export function unknownBlock(hash: string): RpcFailure {
  return new RpcFailure(
    4003,
    `Client error: UnknownBlock: Header was not found in the database: ${hash}`,
  );
}
