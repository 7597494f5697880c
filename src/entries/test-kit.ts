/**
 * The part of `sluice-gateway/testing` that does not depend on any module, exported as `sluice-gateway/internal/test-kit`.
 * Plugins import `sluice-gateway/testing`.
 */
export { manualClock, type ManualClock } from "../testing/clock.ts";
export type { TestRequest } from "../testing/memory-client.ts";
export type { RunningRequest, TestAnswer } from "../testing/memory-gateway.ts";
export {
  scriptedUpstream,
  type ScriptedUpstream,
  type UpstreamReply,
  type UpstreamRequest,
} from "../testing/scripted-upstream.ts";
export {
  startTested,
  testService,
  testStep,
  testSurface,
  type PluginExample,
  type StepExample,
  type TestedHandler,
  type TestedPlugin,
  type TestedService,
} from "../testing/test-plugin.ts";
/** The parts of the contract suite for rules of modules. */
export { notSettled, within, type Rule } from "../testing/suite/subject.ts";
