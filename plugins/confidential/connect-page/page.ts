/** The page of `sluice connect`. It reads the same address as JSON and writes it as text. */
import { createHash } from "node:crypto";

const style = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0; border-top: 1px solid #8884; overflow-wrap: anywhere; }
.list { display: block; overflow-x: auto; } .list td { overflow-wrap: normal; min-width: 5rem; } .list td:last-child { min-width: 14rem; }
@media (max-width: 40rem) { table:not(.list) :is(th, td) { display: block; } table:not(.list) td { border-top: 0; padding-top: 0; } }
ul { margin: 0; padding-left: 1.1rem; } small { opacity: .65; }
th { font-weight: 600; white-space: nowrap; }
.good { color: #18794e; } .bad { color: #cd2b31; } .warn { color: #ad5700; }
@media (prefers-color-scheme: dark) { .good { color: #4cc38a; } .bad { color: #ff6369; } .warn { color: #f1a10d; } }
`;

const script = `
const main = document.querySelector("main");
const element = (name, text = "", kind = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = kind;
  return made;
};
const table = (rows, kind) => {
  const made = element("table", "", kind);
  for (const cells of rows) {
    const row = made.insertRow();
    for (const cell of cells) row.append(typeof cell === "string" ? element("td", cell) : cell);
  }
  return made;
};
const time = (ms) => new Date(ms).toLocaleString();
const checked = (checks, result) => {
  const list = checks.filter((check) => check.result === result);
  if (list.length === 0) return "none";
  const cell = element("td");
  const made = element("ul");
  for (const { name, text } of list) {
    const item = element("li", text + " ");
    item.append(element("small", name));
    made.append(item);
  }
  cell.append(made);
  return cell;
};

function verification(one) {
  const { failedCheck, assurance } = one;
  const isSimulated = assurance === "simulated";
  const verdict = failedCheck !== undefined
    ? element("td", "REFUSED: " + failedCheck + ". Requests are not sent.", "bad")
    : isSimulated
      ? element("td", "SIMULATED: no hardware attests this enclave", "warn")
      : element("td", "verified: " + assurance + " hardware attests this enclave", "good");
  const facts = [
    ["gateway", one.gateway], ["network", one.network], ["encryption ends at", one.termination && "the " + one.termination], ["machine", one.machine],
    ["firmware", one.firmware], ["image", one.image], ["keys", one.keyset], ["verified since", one.since && time(one.since)],
    ["checked again before", one.until && time(one.until)], ["checks passed", checked(one.checks, "pass")],
    ["checks skipped", checked(one.checks, "skipped")],
    [failedCheck === undefined ? "failed, but accepted" : "checks failed", one.checks.some(({ result }) => result === "fail") ? checked(one.checks, "fail") : undefined],
  ].filter(([, value]) => value !== undefined);
  return [element("h2", one.model), table([[element("th", "verdict"), verdict], ...facts.map(([label, value]) => [element("th", label), value])])];
}

function requests(list) {
  if (list.length === 0) return [element("p", "No requests yet.")];
  const head = ["time", "model", "tokens in", "tokens out", "price per token", "rate in USD", "bill in milli-CU", "verdict"].map((label) => element("th", label));
  return [table([head, ...list.map((one) => [
    time(one.at), one.model, String(one.promptTokens), String(one.completionTokens), one.price, one.rate ?? "none", String(one.billedMilliCu ?? "none"),
    one.failedCheck === undefined ? element("td", "the bill is right", "good") : element("td", one.failedCheck, "bad"),
  ])], "list")];
}

async function refresh() {
  try {
    const answer = await fetch("/", { headers: { accept: "application/json" } });
    const state = await answer.json();
    main.replaceChildren(
      ...(state.verifications.length === 0 ? [element("p", "Nothing was verified yet.")] : state.verifications.flatMap(verification)),
      element("h2", "Last requests"), ...requests(state.requests),
    );
  } catch {
    main.replaceChildren(element("p", "sluice connect does not answer.", "bad"));
  }
  setTimeout(refresh, 2000);
}
refresh();
`;

function source(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

/** The page runs only its own script, and connects only to its own address. */
export const policy = [
  "default-src 'none'",
  `style-src ${source(style)}`,
  `script-src ${source(script)}`,
  "connect-src 'self'",
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
].join("; ");

export const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>sluice connect</title><style>${style}</style></head>
<body><h1>sluice connect</h1><main></main><script>${script}</script></body>
</html>
`;
