export const hash = (n: number): string => `0x${n.toString(16).padStart(64, "0")}`;

export const request = (method: string, params?: string, id = "1"): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}"${params === undefined ? "" : `,"params":${params}`}}`;
