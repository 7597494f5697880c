/** Limits of one session of the encrypted stream (confidential-stream.md, 1.3 and 5). */

/** Maximum duration of a session. It also ends at its keyset's `not_after`. */
export const maxSessionMs = 3_600_000;
/** Maximum time without a frame in either direction. */
export const idleMs = 120_000;
/** Maximum time from the upgrade to a verified handshake. */
export const handshakeMs = 10_000;

/** Maximum time from a request's first frame to its last. Until then, no credit is reserved for its memory. */
export const requestMs = 60_000;

/** The highest `rid`. Requests are numbered from 1 without gaps. */
export const maxRequests = 256;
/** Maximum number of frames in each direction. */
export const maxFrames = 2 ** 20;
/** Maximum number of plaintext bytes in each direction, including padding. */
export const maxPlaintextBytes = 2 ** 32;

/** Maximum number of data bytes in one frame, without the length prefix and the padding. */
export const maxFrameDataBytes = 65_536;
/** Maximum number of data bytes in all frames of one request. */
export const maxRequestBytes = 8 * 1024 * 1024;
/**
 * A sender puts this many data bytes into one frame of a long request. It is well below the limit, whether or not the
 * peer counts the length prefix.
 */
export const requestPieceBytes = 32_768;

/** Requests and responses are padded to a multiple of this number of bytes. */
export const pads = [0, 256, 1024] as const;
export type Pad = (typeof pads)[number];
export const defaultPad: Pad = 256;

export const maxHelloBytes = 16_384;
/** Maximum size of a text frame other than `hello`. */
export const maxTextBytes = 1_048_576;
/**
 * Maximum size of an enclave's answer to `hello`, for a gateway. Evidence has 5 to 40 KB, and more with an event log
 * and the evidence of GPUs. Any host of a worker can lengthen it, and reading 1 MiB takes a tenth of a second.
 */
export const maxAttestationBytes = 262_144;

/** Maximum remaining validity of a keyset, from a verifier's point of view. */
export const maxKeysetSeconds = 3600;
/** Validity of new keysets. It is five minutes shorter, for clients whose clocks are slow. */
export const keysetSeconds = 3300;
/**
 * Maximum number by which a report's prompt tokens may exceed the bytes of the request. A token of text has at least
 * one byte, but the model's template, and an image to which the request only refers, add tokens.
 */
export const maxUnseenTokens = 16_384;
/** Maximum difference between a report's `iat` and the verifier's clock, in either direction. */
export const reportSkewSeconds = 300;
