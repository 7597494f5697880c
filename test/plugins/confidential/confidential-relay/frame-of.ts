/**
 * A request frame with a header that the test chooses. Only the enclave could detect that its ciphertext is not valid.
 */
import { unwrap, type OpenStream } from "./stream-client.ts";

interface Header {
  readonly version?: number;
  readonly type?: number;
  readonly epoch?: number;
  readonly rid?: number;
  readonly seq?: number;
  /** The most recent frame. */
  readonly again?: boolean;
}

const made = new WeakMap<object, Buffer>();

export function frameOf(session: OpenStream, header: Header = {}): Buffer {
  const known = header.again === true ? made.get(session.channel) : undefined;
  if (known !== undefined) return known;
  const frame = Buffer.from(unwrap(session.channel.seal("request", 1, Buffer.from("{}"), true)));
  const { version, type, epoch, rid, seq } = header;
  // confidential-stream.md section 1.3: version, type, flags, epoch, rid (4 bytes), seq (8 bytes).
  if (version !== undefined) frame[0] = version;
  if (type !== undefined) frame[1] = type;
  if (epoch !== undefined) frame[3] = epoch;
  if (rid !== undefined) frame.writeUInt32BE(rid, 4);
  if (seq !== undefined) frame.writeBigUInt64BE(BigInt(seq), 8);
  made.set(session.channel, frame);
  return frame;
}
