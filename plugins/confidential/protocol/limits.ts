/**
 * Limits of one session of the encrypted stream (confidential-stream.md, 1.3 and 5). Times in seconds or milliseconds.
 */

/** A session lasts at most so long, and never beyond its keyset's `not_after`. */
export const maxSessionMs = 3_600_000;
/** Without a frame in either direction. */
export const idleMs = 120_000;
/** From the upgrade to a verified handshake. */
export const handshakeMs = 10_000;

/** From a request's first frame to its last: until then what it holds is neither paid nor reserved. */
export const requestMs = 60_000;

/** The highest `rid`; they start at 1 and grow by 1. */
export const maxRequests = 256;
/** Frames in each direction. */
export const maxFrames = 2 ** 20;
/** Bytes of plaintext with its padding, in each direction. */
export const maxPlaintextBytes = 2 ** 32;

/** Of one frame, before its length prefix and padding. */
export const maxFrameDataBytes = 65_536;
/** Of one request over all its frames, likewise. */
export const maxRequestBytes = 8 * 1024 * 1024;
/** What a sender puts into one frame of a long request: well below the limit, however a peer counts the prefix. */
export const requestPieceBytes = 32_768;

/** What `hello` may ask responses and requests to be padded to, in bytes. */
export const pads = [0, 256, 1024] as const;
export type Pad = (typeof pads)[number];
export const defaultPad: Pad = 256;

/** Bytes of `hello` as received. */
export const maxHelloBytes = 16_384;
/** Bytes of any other text frame: evidence is 5 to 40 KB. */
export const maxTextBytes = 1_048_576;

/** A keyset holds at most so long from now on. */
export const maxKeysetSeconds = 3600;
/** What a producer gives it: five minutes for clients whose clock is behind. */
export const keysetSeconds = 3300;
/**
 * Prompt tokens that a report may claim beyond the bytes of its request: a model's template and what it makes of an
 * image that the request only names. A token of text has at least one byte.
 */
export const maxUnseenTokens = 16_384;
/** How far a report's `iat` may be from the verifier's clock, in either direction. */
export const reportSkewSeconds = 300;
