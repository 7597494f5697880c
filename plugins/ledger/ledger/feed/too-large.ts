/**
 * The error of storage subscriptions whose values do not fit into a message, as JSON text. The code is the one with which
 * Substrate nodes refuse an answer above their limit.
 */
export const tooLargeError =
  '{"code":-32008,"message":"Response is too big: the values do not fit into a message"}';
