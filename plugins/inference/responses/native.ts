/** How requests are sent to workers that have the Responses API themselves. */
import { isObject } from "sluice-gateway/toolkit";
import type { NativeApi } from "../completions/native-request.ts";
import { nativeMembers } from "./request.ts";

/** The worker stores nothing, and gets only the tools that the client runs, as in a translation. */
export const nativeResponses: NativeApi = {
  name: "responses",
  members: nativeMembers,
  // The effort is ignored if the network does not pass it.
  isKept: (name) => /^(?:input|text|reasoning)\./.test(name) && name !== "reasoning.effort",
  adapt({ tools, tool_choice: choice, ...members }) {
    const own = (Array.isArray(tools) ? tools : []).filter(
      (tool: unknown) =>
        isObject(tool) && (tool["type"] === "function" || tool["type"] === "custom"),
    );
    return { ...members, ...(own.length > 0 && { tools: own, tool_choice: choice }), store: false };
  },
};
