import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeAddress } from "@polkadot/util-crypto";
import { demoChain } from "./chains.ts";
import { referenceDecoder } from "./polkadot-reference.ts";
import { honest, scriptedNode } from "./scripted-node.ts";

const chain = demoChain();
const { registry } = referenceDecoder(chain.metadata);
const extrinsics = chain.blocks.flatMap(({ result }) => result.block.extrinsics);

test("call, signer and argument names equal those of @polkadot/types for every extrinsic of the demo chain", async () => {
  await using node = scriptedNode(honest(chain));
  let signed = 0;
  for (const raw of extrinsics) {
    const judged = registry.createType("Extrinsic", raw);
    const said = await node.decoder.summary(Buffer.from(raw.slice(2), "hex"));
    assert(said.ok);
    assert.equal(said.summary.method, judged.meta.name.toString());
    assert.deepEqual(
      Object.keys(said.summary.args),
      judged.meta.fields.map(({ name }) => name.unwrap().toString()),
    );
    const signer = judged.isSigned ? encodeAddress(judged.signer.toString(), 0) : null;
    assert.equal(said.summary.signer, signer);
    if (judged.isSigned) signed++;
  }
  assert(signed > 0);
});

test("the summary of a transfer contains addresses and decimal numbers", async () => {
  await using node = scriptedNode(honest(chain));
  const raw = extrinsics.find((each) => {
    const { method } = registry.createType("Extrinsic", each);
    return method.section === "balances" && method.method === "transferKeepAlive";
  });
  assert(raw !== undefined);
  const [dest, value] = registry.createType("Extrinsic", raw).method.args;
  const said = await node.decoder.summary(Buffer.from(raw.slice(2), "hex"));
  assert(said.ok && dest !== undefined && value !== undefined);
  assert.deepEqual(said.summary.args, {
    dest: {
      Id: encodeAddress(dest.toString(), 0),
    },
    value: value.toString(),
  });
});

test("bytes that are not an extrinsic have no summary", async () => {
  await using node = scriptedNode(honest(chain));
  for (const hex of ["", "00", "04", "ff".repeat(100)]) {
    const said = await node.decoder.summary(Buffer.from(hex, "hex"));
    assert.deepEqual(said, { ok: false, reason: "undecodable" });
  }
});
