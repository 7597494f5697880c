/** A socket whose listeners cannot end the process. */
import { Socket } from "node:net";

/**
 * An exception in a listener destroys the socket instead of ending the process. `pg` parses the server's messages in a
 * listener for `data` and throws for messages that no PostgreSQL sends. With TLS, only the handshake runs in these
 * listeners; afterwards the server is one that has proved its identity.
 */
export class GuardedSocket extends Socket {
  override emit(event: string | symbol, ...args: unknown[]): boolean {
    if (event === "error" && this.listenerCount("error") === 0) return false;
    try {
      return super.emit(event, ...args);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  }
}
