import { isObject } from "sluice-gateway/internal/toolkit";
import { readHeader, headerOfJson, type Header } from "../proofs/header.ts";
import { NodeError } from "../proofs/node.ts";
import { bytesOf, hexOf, readScale } from "../proofs/scale.ts";
import { orderedRoot } from "../trie/trie-root.ts";
import { Params } from "./params.ts";
import type { ProvedResult, ReadCall, Source } from "./read.ts";

const atHash =
  (max: number, run: (source: Source) => Promise<ProvedResult>): ReadCall =>
  (params) => ({ block: new Params(params, max).hash(0), run });

/** The finalized chain itself proves the hashes of its blocks. */
const atNumber =
  (run: (source: Source) => ProvedResult): ReadCall =>
  (params) => ({ block: new Params(params, 1).number(0), run });

const atHead =
  (run: (source: Source) => ProvedResult | Promise<ProvedResult>): ReadCall =>
  (params) => {
    void new Params(params, 0);
    return { block: undefined, run };
  };

const hashText = ({ hash }: Source): ProvedResult => ({ result: `"${hash}"` });

export const blockReads: Readonly<Record<string, ReadCall>> = {
  chain_getHeader: atHash(1, async ({ node, hash }) => {
    const json = await node.call("chain_getHeader", [hash]);
    return { result: JSON.stringify(headerJson(json, hash)) };
  }),
  chain_getBlock: atHash(1, async ({ node, hash }) => {
    const answer = await node.call("chain_getBlock", [hash]);
    const block = isObject(answer) ? answer["block"] : undefined;
    if (!isObject(answer) || !isObject(block)) throw new NodeError("the node sent no block");
    const header = headerJson(block["header"], hash);
    const extrinsics = checkBody(block["extrinsics"], header.extrinsicsRoot);
    // A justification is not part of the block, and nodes have different ones.
    const { justifications = null } = answer;
    const result = JSON.stringify({ block: { header, extrinsics }, justifications });
    return { result, root: header.extrinsicsRoot };
  }),
  chain_getBlockHash: atNumber(hashText),
  chain_getFinalizedHead: atHead(hashText),
  archive_v1_finalizedHeight: atHead(async ({ header }) => ({
    result: `${(await header()).number}`,
  })),
  archive_v1_hashByHeight: atNumber(({ hash }) => ({ result: `["${hash}"]` })),
  archive_v1_header: atHash(1, async ({ node, hash }) => {
    const answer = await node.call("archive_v1_header", [hash]);
    const bytes = bytesOf(answer);
    const header = bytes && readScale(bytes, wholeHeader);
    if (bytes === undefined || header === undefined) throw new NodeError("the node sent no header");
    if (header.hash !== hash) throw new NodeError("the node sent a header with another hash", true);
    return { result: `"${hexOf(bytes)}"` };
  }),
  archive_v1_body: atHash(1, async ({ node, hash, header }) => {
    const { extrinsicsRoot: root } = await header();
    const body = checkBody(await node.call("archive_v1_body", [hash]), root);
    return { result: JSON.stringify(body), root };
  }),
};

function wholeHeader(reader: Parameters<typeof readHeader>[0]): Header | undefined {
  const header = readHeader(reader);
  return reader.left === 0 ? header : undefined;
}

interface HeaderJson {
  readonly parentHash: string;
  readonly number: string;
  readonly stateRoot: string;
  readonly extrinsicsRoot: string;
  readonly digest: { readonly logs: unknown };
}

/** Returns the members that the hash of a header covers. Throws a NodeError unless the header has the hash. */
function headerJson(value: unknown, hash: string): HeaderJson {
  const header = headerOfJson(value);
  if (header === undefined || !isObject(value) || !isObject(value["digest"]))
    throw new NodeError("the node sent no header");
  if (header.hash !== hash) throw new NodeError("the node sent a header with another hash", true);
  const { parentHash, number, stateRoot, extrinsicsRoot } = header;
  const { logs } = value["digest"];
  return {
    parentHash,
    number: `0x${number.toString(16)}`,
    stateRoot,
    extrinsicsRoot,
    digest: { logs },
  };
}

/**
 * Throws a NodeError unless the extrinsics have this root. Their trie has layout V1 if the runtime's `system_version`
 * is at least 2. The bytes of a node show its layout, so a root cannot be that of other extrinsics in the other layout.
 */
function checkBody(value: unknown, root: string): readonly string[] {
  const body = Array.isArray(value) ? value.map(bytesOf) : [undefined];
  if (!body.every((each) => each !== undefined)) throw new NodeError("the node sent no extrinsics");
  if (hexOf(orderedRoot(body, "V1")) !== root && hexOf(orderedRoot(body, "V0")) !== root)
    throw new NodeError("the node sent extrinsics with another root", true);
  return body.map(hexOf);
}
