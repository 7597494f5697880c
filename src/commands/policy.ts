/** `sluice policy sign`: the policy document of the encrypted stream, signed away from the gateway that serves it. */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { signerOf } from "../confidential/node-crypto.ts";
import { readPolicy, signPolicy, writePolicy } from "../confidential/policy-document.ts";
import { type Command, type CommandContext } from "./command.ts";
import { required } from "./option.ts";
import { runSubcommand, type Subcommand } from "./subcommand.ts";

const sign: Subcommand = {
  options: ["key"],
  arguments: ["FILE"],
  async run(context, values, file = "") {
    const policy = await readPolicyFile(file);
    const key = await readKey(required(values, "key"));
    if (typeof policy === "string") return refuse(context, `${file}: ${policy}`);
    if (typeof key === "string") return refuse(context, key);
    const document = await signPolicy(policy, signerOf(key));
    context.print(JSON.stringify(document));
    context.complain(`Clients pin this key: ${document.key}`);
    return 0;
  },
};

function refuse(context: CommandContext, why: string): 1 {
  context.complain(why);
  return 1;
}

/** The bytes to sign, or what is wrong. */
async function readPolicyFile(file: string): Promise<Uint8Array | string> {
  let value: unknown;
  try {
    value = parse(await readFile(file, "utf8"));
  } catch (error) {
    return error instanceof Error ? error.message : "it cannot be read";
  }
  const policy = readPolicy(value);
  return typeof policy === "string"
    ? policy
    : (writePolicy(policy) ?? "a network's name is no well-formed text");
}

/** A private key, or what is wrong. */
async function readKey(file: string): Promise<KeyObject | string> {
  try {
    const key = createPrivateKey(await readFile(file));
    return key.asymmetricKeyType === "ed25519" ? key : `${file}: not an Ed25519 key`;
  } catch {
    // What OpenSSL says of a file that is no key helps nobody.
    return `${file}: no private key in PEM`;
  }
}

export const policy: Command = {
  summary: "sign the policy document of the encrypted stream",
  help: `usage: sluice policy sign FILE --key KEY.pem

Reads a policy (YAML or JSON: docs/encrypted-stream.md) and prints the signed document, for the option \`document\` of the
surface that serves it. The key need not be on the gateway, and had better not be.

  --key FILE    an Ed25519 private key in PEM: openssl genpkey -algorithm ed25519 -out KEY.pem`,
  options: { key: { type: "string" } },
  async run(context, values, positionals) {
    return runSubcommand("policy", { sign }, context, values, positionals);
  },
};
