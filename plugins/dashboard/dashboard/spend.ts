import type { FastifyReply, FastifyRequest } from "fastify";
import {
  parseTime,
  spendMembers,
  type Spend,
  type SpendAnswer,
  type SpendMember,
  type SpendQuery,
} from "sluice-gateway/services";
import { csvLine } from "sluice-gateway/internal/toolkit";
import { sendInvalidQuery, sendJson, sendRefusal } from "./answer.ts";
import { queryOf } from "./input.ts";
import { overageSumUsd, overageUsd } from "./money.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute } from "./route.ts";
import { isOutside, type Viewer } from "./session.ts";
import { dayMs, planJson } from "./spend-plan.ts";
import { perMinute } from "./rates.ts";
import { limited } from "./workspace-rate.ts";
import { amountsJson, namesOf, priceOf, type GroupNames } from "./spend-names.ts";

const maxDays = 1_830;
const shownGroups = 100;
const csvGroups = 50_000;
const keepMs = 10_000;
const maxAnswers = 64;
/** Maximum number of reports that one workspace, or one user of the whole deployment, reads at the same time. */
const maxRunning = 2;

type ReportAnswer = SpendAnswer | { readonly kind: "busy" };

interface Question {
  readonly from: number;
  readonly to: number;
  readonly by: SpendMember;
  readonly workspaceId: string | undefined;
}

export function spendRoutes(add: AddRoute, deps: DashboardDeps): void {
  const ask = cachedSpend(deps);
  const message = `a workspace can request ${perMinute.reports} reports a minute`;
  const addLimited = limited(add, deps.workspaceRates.reports, message);
  addLimited("GET", "spend", async (viewer, request, reply) => {
    const question = await questionOf(deps, viewer, request, reply);
    if (question === undefined) return reply;
    const answer = await ask(viewer, { ...question, limit: shownGroups, wantsHours: true });
    if (answer.kind !== "done") return sendUnavailable(reply, answer);
    return sendJson(reply, 200, await spendJson(deps, question, answer.spend));
  });
  addLimited("GET", "spend.csv", async (viewer, request, reply) => {
    const question = await questionOf(deps, viewer, request, reply);
    if (question === undefined) return reply;
    const answer = await ask(viewer, { ...question, limit: csvGroups });
    if (answer.kind !== "done") return sendUnavailable(reply, answer);
    const text = await spendCsv(deps, question, answer.spend);
    const name = `spend-by-${question.by}-${dateOf(question.from)}-${dateOf(question.to)}.csv`;
    void reply.header("content-disposition", `attachment; filename="${name}"`);
    return reply.code(200).type("text/csv; charset=utf-8").send(text);
  });
}

/** Undefined if the parameters are invalid and the refusal was sent. */
async function questionOf(
  { accounts }: DashboardDeps,
  viewer: Viewer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Question | undefined> {
  const query = queryOf(request.url, ["from", "to", "by", "workspace"]);
  const from = dayOf(query?.["from"]);
  const to = dayOf(query?.["to"]);
  const by = spendMembers.find((member) => member === query?.["by"]);
  if (query === undefined || from === undefined || to === undefined || by === undefined) {
    const members = spendMembers.join(", ");
    const expected = `from and to (dates such as 2026-01-31), by (${members}) and workspace`;
    sendInvalidQuery(reply, expected);
    return undefined;
  }
  if (from >= to || to - from > maxDays * dayMs) {
    const message = `expected a range of 1 to ${maxDays} days, got ${dateOf(from)} to ${dateOf(to)}`;
    sendRefusal(reply, "GATEWAY_INVALID_PARAMS", { message });
    return undefined;
  }
  const wanted = query["workspace"];
  const workspaceId = viewer.only ?? wanted;
  if (
    isOutside(viewer, wanted) ||
    (workspaceId !== undefined && (await accounts.admin.findWorkspace(workspaceId)) === undefined)
  ) {
    sendRefusal(reply, "GATEWAY_NOT_FOUND");
    return undefined;
  }
  return { from, to, by, workspaceId };
}

function dayOf(text: string | undefined): number | undefined {
  return text?.length === 10 ? parseTime(text) : undefined;
}

function sendUnavailable(reply: FastifyReply, { kind }: ReportAnswer): FastifyReply {
  if (kind === "busy") {
    const message = `${maxRunning} reports are already being read; try again in a moment`;
    return sendRefusal(reply, "GATEWAY_RATE_LIMITED", { message, headers: ["retry-after", "1"] });
  }
  const message = "the spend cannot be read now";
  return sendRefusal(reply, "GATEWAY_SERVICE_UNAVAILABLE", { message });
}

/** Caches reports, so that several viewers of the same figures need only one report. */
function cachedSpend({
  metering,
  clock,
}: DashboardDeps): (viewer: Viewer, query: SpendQuery) => Promise<ReportAnswer> {
  const kept = new Map<string, { readonly until: number; readonly answer: Promise<SpendAnswer> }>();
  const running = new Map<string, number>();
  return async (viewer, query) => {
    const now = clock.now();
    for (const [name, { until }] of kept) if (until <= now) kept.delete(name);
    const name = JSON.stringify(query);
    const found = kept.get(name);
    if (found !== undefined) return found.answer;
    const reader = viewer.only ?? viewer.id;
    const count = running.get(reader) ?? 0;
    if (count >= maxRunning) return { kind: "busy" };
    const [oldest] = kept.keys();
    if (kept.size >= maxAnswers && oldest !== undefined) kept.delete(oldest);
    const answer = metering.usage.spend(query);
    kept.set(name, { until: now + keepMs, answer });
    running.set(reader, count + 1);
    try {
      if ((await answer).kind !== "done") kept.delete(name);
    } finally {
      const left = (running.get(reader) ?? 1) - 1;
      if (left === 0) running.delete(reader);
      else running.set(reader, left);
    }
    return answer;
  };
}

async function spendJson(deps: DashboardDeps, question: Question, spend: Spend): Promise<object> {
  const { from, to, by, workspaceId } = question;
  const names = await namesOf(deps, question, spend.groups);
  return {
    from: dateOf(from),
    to: dateOf(to),
    by,
    workspace: workspaceId,
    total: {
      ...amountsJson(spend.total),
      overage_usd: await totalOverageUsd(deps, question, spend),
    },
    groups: spend.groups.map((group) => ({
      id: group.name,
      name: names.title(group.name),
      ...amountsJson(group),
      overage_usd: groupOverageUsd(names, group),
    })),
    group_count: spend.groupCount,
    step_seconds: spend.stepMs / 1000,
    steps: spend.steps,
    series: spend.series,
    plan: await planJson(deps, workspaceId),
  };
}

/** The price of overage is known for the charges of one plan. */
function groupOverageUsd(names: GroupNames, group: Spend["groups"][number]): string | undefined {
  if (group.overageMilliCu === 0) return "0";
  const price = names.price(group.name);
  return price && overageUsd(group.overageMilliCu, price.usdPerCu);
}

async function totalOverageUsd(
  deps: DashboardDeps,
  question: Question,
  spend: Spend,
): Promise<string | undefined> {
  if (spend.total.overageMilliCu === 0) return "0";
  if (question.workspaceId !== undefined) {
    const price = await priceOf(deps, question.workspaceId);
    return price && overageUsd(spend.total.overageMilliCu, price.usdPerCu);
  }
  const { from, to } = question;
  const workspaces = {
    workspaceId: undefined,
    from,
    to,
    by: "workspace",
    limit: csvGroups,
  } as const;
  const answer = await deps.metering.usage.spend(workspaces);
  if (answer.kind !== "done" || answer.spend.groupCount > csvGroups) return undefined;
  const { groups } = answer.spend;
  const names = await namesOf(deps, { ...question, by: "workspace" }, groups);
  return overageSumUsd(
    groups.map(({ name, overageMilliCu }) => ({
      milliCu: overageMilliCu,
      usdPerCu: names.price(name)?.usdPerCu,
    })),
  );
}

async function spendCsv(deps: DashboardDeps, question: Question, spend: Spend): Promise<string> {
  const names = await namesOf(deps, question, spend.groups);
  const columns = [
    "calls",
    "used_cu_milli",
    "included_cu_milli",
    "purchased_cu_milli",
    "overage_cu_milli",
    "input_tokens",
    "output_tokens",
    "value_usd",
  ] as const;
  const lines = spend.groups.map((group) => {
    const amounts = amountsJson(group);
    return csvLine([
      group.name ?? "",
      names.title(group.name) ?? "",
      ...columns.map((column) => amounts[column]),
      groupOverageUsd(names, group) ?? "",
    ]);
  });
  const head = csvLine([question.by, "name", ...columns, "overage_usd"]);
  return [head, ...lines].map((line) => `${line}\r\n`).join("");
}

function dateOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10);
}
