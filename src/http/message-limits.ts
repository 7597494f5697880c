/**
 * Limits of the package `ws` on one message. `ws` keeps the parts of an incomplete message at about 120 extra bytes each,
 * so a message in one-byte parts would take far more memory than is counted.
 */

/** Every client that fragments messages sends longer fragments on average. */
const minFragmentBytes = 4_096;
/** Below the smallest usual TCP segment, 536 bytes (RFC 1122 section 4.2.2.6). */
const minReadBytes = 512;
/** The least limits, for short messages. */
const minFragments = 256;
const minReads = 1_024;

export function messageLimits(messageBytes: number): {
  readonly maxPayload: number;
  readonly maxFragments: number;
  readonly maxBufferedChunks: number;
} {
  return {
    maxPayload: messageBytes,
    maxFragments: Math.max(minFragments, Math.ceil(messageBytes / minFragmentBytes)),
    maxBufferedChunks: Math.max(minReads, Math.ceil(messageBytes / minReadBytes)),
  };
}
