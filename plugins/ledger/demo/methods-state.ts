/** The `state_` methods: storage, metadata and runtime calls. The error for an unknown block is 4003. */
import type { RecordedChain } from "./chain.ts";
import {
  invalidParams,
  readHash,
  readHex,
  readList,
  readNumber,
  readText,
  RpcFailure,
  type Method,
  type Methods,
} from "./method.ts";
import { isAbsent } from "sluice-gateway/internal/toolkit";

const maxKeysPerCall = 1_000;

const readKeys = (keys: unknown) => readList(keys, "keys").map((key) => readHex(key, "keys"));

export function stateMethods(chain: RecordedChain): Methods {
  const numberOf = (hash: unknown): number => {
    if (isAbsent(hash)) return chain.head;
    const wanted = readHash(hash, "hash");
    const number = chain.numberOf(wanted);
    if (number === undefined) {
      const message = "Client error: UnknownBlock: Header was not found in the database";
      throw new RpcFailure(4003, `${message}: ${wanted}`);
    }
    return number;
  };
  const ofKey = (read: (key: string, number: number) => unknown): Method => ({
    params: ["key", "hash"],
    run: (key, hash) => read(readHex(key, "key"), numberOf(hash)),
  });
  /** The answer is the same at every block, because the runtime was never upgraded. */
  const ofRuntime = (result: unknown): Method => ({
    params: ["hash"],
    run(hash) {
      numberOf(hash);
      return result;
    },
  });

  const getStorage = ofKey((key, number) => chain.valueAt(key, number));
  const getStorageHash = ofKey((key, number) => chain.digestAt(key, number)?.hash ?? null);
  const getStorageSize = ofKey((key, number) => chain.digestAt(key, number)?.bytes ?? null);
  const getRuntimeVersion = ofRuntime(chain.recording.runtimeVersion);
  const getKeysPaged: Method = {
    params: ["prefix", "count", "start_key", "hash"],
    run(prefix, count, start, hash) {
      const wanted = readNumber(count, "count");
      if (wanted > maxKeysPerCall) {
        const limit = `value: ${wanted}, max: ${maxKeysPerCall}`;
        throw new RpcFailure(4002, `count exceeds maximum value. ${limit}`);
      }
      return chain.keysAt(
        isAbsent(prefix) ? "0x" : readHex(prefix, "prefix"),
        wanted,
        isAbsent(start) ? undefined : readHex(start, "start_key"),
        numberOf(hash),
      );
    },
  };
  const call: Method = {
    params: ["name", "bytes", "hash"],
    run: (name, bytes, hash) =>
      runtimeCall(chain, readText(name, "name"), readHex(bytes, "bytes"), numberOf(hash)),
  };
  return {
    state_getStorage: getStorage,
    state_getStorageAt: getStorage,
    state_getStorageHash: getStorageHash,
    state_getStorageHashAt: getStorageHash,
    state_getStorageSize: getStorageSize,
    state_getStorageSizeAt: getStorageSize,
    state_getKeysPaged: getKeysPaged,
    state_getKeysPagedAt: getKeysPaged,
    state_getMetadata: ofRuntime(chain.recording.metadata),
    state_getRuntimeVersion: getRuntimeVersion,
    chain_getRuntimeVersion: getRuntimeVersion,
    state_call: call,
    state_callAt: call,
    state_queryStorageAt: {
      params: ["keys", "at"],
      run(keys, at) {
        const number = numberOf(at);
        const changes = readKeys(keys).map((key) => [key, chain.valueAt(key, number)]);
        return [{ block: chain.block(number).hash, changes }];
      },
    },
    state_queryStorage: {
      params: ["keys", "from_block", "to_block"],
      run(keys, from, to) {
        const wanted = readKeys(keys);
        return history(chain, wanted, numberOf(readHash(from, "from_block")), numberOf(to));
      },
    },
  };
}

/** Returns the values of the keys at the first block, then the changes of each later block. */
function history(chain: RecordedChain, keys: readonly string[], first: number, last: number) {
  if (first > last) throw new RpcFailure(4001, "Cannot resolve a block range: from is after to");
  const answer = [
    {
      block: chain.block(first).hash,
      changes: keys.map((key) => [key, chain.valueAt(key, first)]),
    },
  ];
  for (let number = first + 1; number <= last; number++) {
    const changes = chain.changesOf(keys, number).map((change) => [...change]);
    if (changes.length > 0) answer.push({ block: chain.block(number).hash, changes });
  }
  return answer;
}

/** Returns the recorded answer of a runtime call, because there is no runtime. Nonces are read from the state. */
function runtimeCall(chain: RecordedChain, name: string, bytes: string, number: number): string {
  if (name === "AccountNonceApi_account_nonce") {
    if (bytes.length !== 66) throw invalidParams("bytes: expected an account of 32 bytes");
    const nonce = Buffer.alloc(4);
    nonce.writeUInt32LE(chain.nonceAt(bytes.slice(2), number));
    return `0x${nonce.toString("hex")}`;
  }
  const answers = chain.recording.calls;
  const answer = Object.hasOwn(answers, name) ? answers[name]?.[bytes] : undefined;
  if (answer !== undefined) return answer;
  throw new RpcFailure(4003, `Client error: this demo node has no recorded answer for ${name}`);
}
