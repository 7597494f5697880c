import {
  checkName,
  checkWord,
  requiredOption,
  runSubcommand,
  optionText,
  optionTexts,
  UsageError,
  type Command,
  type CommandContext,
  type OptionValues,
  type Subcommand,
} from "sluice-gateway/internal/module";
import { capabilities, type Capability, type IssuedKey } from "sluice-gateway/services";
import { keyJson } from "../accounts/json.ts";
import { defaultCapabilities } from "../accounts/principal.ts";
import { notFound } from "../accounts/decision.ts";
import { printRecord, printRecords, waitForGateways, withAccounts, type Flat } from "./accounts.ts";
import { addresses, duration, milliCu, orNone, rate } from "./limits.ts";

const defaultOverlapMs = 24 * 3_600_000;

const create: Subcommand = {
  options: ["workspace", "name", "capability", "rps", "cu-24h", "cu-30d", "expires-in", "allow-ip"],
  arguments: [],
  async run(context, values) {
    const name = optionText(values, "name");
    const expiresIn = lifetime(values);
    const wanted = {
      workspaceId: requiredOption(values, "workspace"),
      name: name === undefined ? "" : checkName(name, "name"),
      capabilities: granted(values) ?? defaultCapabilities,
      rpsLimit: rate(values, "rps"),
      cuLimit24hMilli: milliCu(values, "cu-24h"),
      cuLimit30dMilli: milliCu(values, "cu-30d"),
      allowedAddresses: addresses(values, "allow-ip"),
    };
    return withAccounts(context, async ({ store, config, by }) => {
      const expiresAt = expiresIn === undefined ? undefined : by.at + expiresIn;
      const issued = await store.createKey(
        { ...wanted, environment: config.environment, expiresAt },
        by,
      );
      if ("failed" in issued) return issued;
      printIssued(context, issued, by.at);
      return undefined;
    });
  },
};

const list: Subcommand = {
  options: ["workspace"],
  arguments: [],
  async run(context, values) {
    const workspaceId = optionText(values, "workspace");
    return withAccounts(context, async ({ store, by }) => {
      if (workspaceId !== undefined && (await store.findWorkspace(workspaceId)) === undefined) {
        return notFound("workspace", workspaceId);
      }
      const found = await store.listKeys(workspaceId);
      printRecords(
        context,
        found.map((key) => keyJson(key, by.at)),
        ["id", "workspace_id", "environment", "state", "name", "expires_at", "last_used_at"],
      );
      return undefined;
    });
  },
};

const settable = ["name", "capability", "rps", "cu-24h", "cu-30d", "expires-in", "allow-ip"];

const set: Subcommand = {
  options: settable,
  arguments: ["KEY_ID"],
  async run(context, values, id = "") {
    if (!settable.some((option) => values[option] !== undefined)) {
      const options = settable.map((option) => `--${option}`).join(", ");
      throw new UsageError(`expected at least one of ${options}`);
    }
    const name = optionText(values, "name");
    const expiresIn = orNone(values, "expires-in", lifetime);
    const settings = {
      name: name === undefined ? undefined : checkName(name, "name"),
      capabilities: granted(values),
      rpsLimit: orNone(values, "rps", rate),
      cuLimit24hMilli: orNone(values, "cu-24h", milliCu),
      cuLimit30dMilli: orNone(values, "cu-30d", milliCu),
      allowedAddresses: orNone(values, "allow-ip", addresses),
    };
    return withAccounts(context, async ({ store, by }) => {
      const expiresAt = typeof expiresIn === "number" ? by.at + expiresIn : expiresIn;
      const key = await store.setKey(id, { ...settings, expiresAt }, by);
      if ("failed" in key) return key;
      printRecord(context, keyJson(key, by.at));
      return undefined;
    });
  },
};

function granted(values: OptionValues): Capability[] | undefined {
  const given = optionTexts(values, "capability");
  return given && [...new Set(given.map((each) => checkWord(each, capabilities, "capability")))];
}

function lifetime(values: OptionValues): number | undefined {
  const ms = duration(values, "expires-in");
  if (ms === 0)
    throw new UsageError(
      `--expires-in: expected a duration above 0, got "${optionText(values, "expires-in")}"`,
    );
  return ms;
}

const revoke: Subcommand = {
  options: [],
  arguments: ["KEY_ID"],
  async run(context, _values, id = "") {
    return withAccounts(context, async ({ store, by }) => {
      const key = await store.revokeKey(id, by);
      if ("failed" in key) return key;
      const confirmations = await waitForGateways(context, store);
      printRecord(context, { ...keyJson(key, by.at), ...confirmations });
      return undefined;
    });
  },
};

const rotate: Subcommand = {
  options: ["overlap"],
  arguments: ["KEY_ID"],
  async run(context, values, id = "") {
    const overlapMs = duration(values, "overlap") ?? defaultOverlapMs;
    return withAccounts(context, async ({ store, by }) => {
      const issued = await store.rotateKey(id, overlapMs, by);
      if ("failed" in issued) return issued;
      const { id: replaces, expires_at: replaced_expires_at } = keyJson(issued.replaced, by.at);
      printIssued(context, issued, by.at, { replaces, replaced_expires_at });
      return undefined;
    });
  },
};

function printIssued(
  context: CommandContext,
  issued: IssuedKey,
  now: number,
  more: Flat = {},
): void {
  const { id, ...rest } = keyJson(issued.key, now);
  printRecord(context, { id, key: issued.text, ...rest, ...more });
  if (context.json) return;
  context.printToStderr("Save the key now: it is not stored and cannot be shown again.");
}

const subcommands = { create, list, set, revoke, rotate };

export const keys: Command = {
  summary: "create, list, change, revoke and rotate API keys",
  help: `usage: sluice keys create --workspace ID [--name NAME] [--capability C]… [--rps N]
                          [--cu-24h MILLI] [--cu-30d MILLI] [--expires-in DURATION]
                          [--allow-ip CIDR]…
       sluice keys list [--workspace ID]
       sluice keys set KEY_ID [--name NAME] [--capability C]… [--rps N|none] [--cu-24h MILLI|none]
                       [--cu-30d MILLI|none] [--expires-in DURATION|none] [--allow-ip CIDR]…
       sluice keys revoke KEY_ID
       sluice keys rotate KEY_ID [--overlap DURATION]

Changes take effect in a running gateway within one second.

create   creates a key and prints it once; only its hash is stored.
list     lists keys, without their texts.
set      changes only the options that you pass; none removes a limit. --capability and --allow-ip replace the whole
         list (--allow-ip none: any address).
revoke   makes a key invalid at once. With store.postgres, the command waits up to 2 s and prints which gateways have
         confirmed that they refuse the key.
rotate   creates a key with the same capabilities and limits. The old key stays valid for the overlap (default 24h).

--workspace ID         workspace of the key
--name NAME            name for people, 1 to 200 characters
--capability C         capability of the key; may be given several times. One of
                       ${capabilities.join(", ")}
                       (default: ${defaultCapabilities.join(", ")})
--rps N                maximum requests per second, if lower than the rate of the plan
--cu-24h MILLI         maximum credit in any 24 hours, in milli-CU (1000 milli-CU are 1 CU, which the dashboard shows)
--cu-30d MILLI         maximum credit in any 30 days, in milli-CU
--allow-ip CIDR        address or block, such as 10.0.0.0/8, from which the key may be used; may be given several
                       times (default: any address)
--expires-in DURATION  time until the key expires, such as 45s, 15m, 12h or 30d (default: never)
--json                 print one JSON document instead of text
--config FILE          path of pipeline.yaml, which has the data folder and the environment`,
  subcommands: Object.keys(subcommands),
  options: {
    workspace: { type: "string" },
    name: { type: "string" },
    capability: { type: "string", multiple: true },
    rps: { type: "string" },
    "cu-24h": { type: "string" },
    "cu-30d": { type: "string" },
    "expires-in": { type: "string" },
    "allow-ip": { type: "string", multiple: true },
    overlap: { type: "string" },
  },
  run: (...given) => runSubcommand("keys", subcommands, ...given),
};
