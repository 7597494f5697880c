/** The page that is shown if a sign-in at the OpenID provider fails. It needs no script. */
import type { FastifyReply } from "fastify";
import { refuse, type GatewayCode } from "sluice-gateway/plugin";

const styles = ["theme", "base", "frame", "parts", "controls"];

/** `message`: for the user, without a full stop at the end. */
export function sendRefusalPage(
  reply: FastifyReply,
  requestId: string,
  code: GatewayCode,
  message: string,
): FastifyReply {
  const { status } = refuse(code);
  const text = message.charAt(0).toUpperCase() + message.slice(1);
  return reply.code(status).type("text/html; charset=utf-8").send(`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="robots" content="noindex" />
    <title>Not signed in · Sluice</title>
    <link rel="icon" href="/dashboard/assets/icon.svg" type="image/svg+xml" />
    ${styles.map((name) => `<link rel="stylesheet" href="/dashboard/assets/${name}.css" />`).join("\n    ")}
    <script src="/dashboard/assets/theme.js"></script>
  </head>
  <body>
    <main id="content" class="door">
      <div class="sign-in">
        <h1>Not signed in</h1>
        <p class="field-error" role="alert">${escaped(text)}.</p>
        <p class="hint"><code>${escaped(code)}</code>, request <code>${escaped(requestId)}</code></p>
        <a class="button" href="/dashboard">Back to the sign-in page</a>
      </div>
    </main>
  </body>
</html>
`);
}

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (found) => entities[found] ?? "");
}
