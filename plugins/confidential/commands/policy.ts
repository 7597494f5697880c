/** `sluice policy sign`, for another machine than the gateway that serves the signed document. */
import { createPrivateKey, type KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import {
  requiredOption,
  runSubcommand,
  type Command,
  type CommandContext,
  type Subcommand,
} from "sluice-gateway/internal/module";
import { parse } from "yaml";
import { signerOf } from "../protocol/node-crypto.ts";
import { readPolicy, signPolicy, writePolicy } from "../protocol/policy-document.ts";

const sign: Subcommand = {
  options: ["key"],
  arguments: ["FILE"],
  async run(context, values, file = "") {
    const policy = await readPolicyFile(file);
    const key = await readKey(requiredOption(values, "key"));
    if (typeof policy === "string") return refuse(context, `${file}: ${policy}`);
    if (typeof key === "string") return refuse(context, key);
    const document = await signPolicy(policy, signerOf(key));
    context.print(JSON.stringify(document));
    context.printToStderr(`Clients must pin this public key: ${document.key}`);
    return 0;
  },
};

function refuse(context: CommandContext, why: string): 1 {
  context.printToStderr(why);
  return 1;
}

/** Returns the bytes to sign, or a text with the reason why the file is not a policy. */
async function readPolicyFile(file: string): Promise<Uint8Array | string> {
  let value: unknown;
  try {
    value = parse(await readFile(file, "utf8"));
  } catch (error) {
    return error instanceof Error ? error.message : "the file cannot be read";
  }
  const policy = readPolicy(value);
  return typeof policy === "string"
    ? policy
    : (writePolicy(policy) ?? "the name of a network is not well-formed Unicode");
}

async function readKey(file: string): Promise<KeyObject | string> {
  try {
    const key = createPrivateKey(await readFile(file));
    return key.asymmetricKeyType === "ed25519"
      ? key
      : `${file}: expected an Ed25519 key, got ${key.asymmetricKeyType ?? "another kind of key"}`;
  } catch {
    // OpenSSL's message for a file that is not a key does not help the user.
    return `${file}: cannot read a private key in PEM from this file`;
  }
}

export const policy: Command = {
  summary: "sign the policy document of the encrypted stream",
  help: `usage: sluice policy sign FILE --key KEY.pem

Reads a policy in YAML or JSON (see docs/encrypted-stream.md) and prints the signed document. The document is the value
of the option \`document\` of the surface that serves it. The gateway does not need the private key, so keep the key
elsewhere.

  --key FILE    Ed25519 private key in PEM; create one with: openssl genpkey -algorithm ed25519 -out KEY.pem`,
  subcommands: ["sign"],
  options: { key: { type: "string" } },
  async run(context, values, positionals) {
    return runSubcommand("policy", { sign }, context, values, positionals);
  },
};
