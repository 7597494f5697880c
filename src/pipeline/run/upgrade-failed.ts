/** The failure of an upgrade that a surface wanted to accept. */
import type { Reply } from "../../plugin.ts";

/** Thrown by `Exchange.accept`. It is not a bug of the surface, so the core does not log it as one. */
export class UpgradeFailed extends Error {
  /** The core's answer to the client; undefined if the client has left. */
  readonly reply: Reply | undefined;

  constructor(reply: Reply | undefined) {
    super("the upgrade cannot be accepted");
    this.reply = reply;
  }
}
