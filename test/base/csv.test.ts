/** Tests of the codec of CSV lines. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { csvLine } from "../../src/base/csv.ts";

test("fields with commas, quotes and line breaks are quoted", () => {
  assert.equal(
    csvLine(["a,b", 'say "hi"', "two\nlines", "plain"]),
    '"a,b","say ""hi""","two\nlines",plain',
  );
});

test("text that a spreadsheet would run begins with an apostrophe, and numbers do not change", () => {
  assert.equal(csvLine(["=1+1", "@x", -5, true, "+", "\tx"]), "'=1+1,'@x,-5,true,'+,'\tx");
});
