import { change } from "./api.js";
import { FormDialog } from "./dialog.js";
import { InputField, SelectField } from "./fields.js";
import * as format from "./format.js";
import { html, useState } from "./html.js";

const plans = ["free", "developer", "startup", "enterprise"].map((name) => [name, name]);
const credit = { type: "number", min: "0", step: "0.001", inputmode: "decimal" };

/** Undefined if the field is empty. */
function readMilli(form, name) {
  const text = String(form.get(name) ?? "").trim();
  return text === "" ? undefined : Math.round(Number(text) * 1000);
}

export function NewWorkspaceDialog({ done }) {
  const submit = async (form, once) => {
    const body = {
      name: String(form.get("name")).trim(),
      plan: form.get("plan"),
      overage_limit_cu_milli: readMilli(form, "overage"),
    };
    await change("workspaces", body, once);
    done();
  };
  return html`<${FormDialog} title="New workspace" action="Create workspace" submit=${submit}>
    <${InputField} label="Name" hint="Customer or team" name="name" required maxlength="200" />
    <${SelectField} label="Plan" name="plan" options=${plans} />
    <${InputField}
      label="Limit of overage in CU"
      hint="Leave empty for no limit"
      name="overage"
      ...${credit}
    />
  <//>`;
}

const times = [
  ["now", "now"],
  ["period", "at the end of the billing period (only a lower plan)"],
];

export function PlanDialog({ of: workspace, done }) {
  const submit = async (form, once) => {
    const path = form.get("when") === "period" ? "downgrade" : "settings";
    await change(`workspaces/${workspace.id}/${path}`, { plan: form.get("plan") }, once);
    done();
  };
  return html`<${FormDialog}
    title=${`Change the plan of “${workspace.name}”`}
    action="Change plan"
    submit=${submit}
  >
    <p>
      The plan is ${workspace.plan}. A change now applies to the calls that follow, and removes a
      pending downgrade.
    </p>
    <${SelectField} label="New plan" name="plan" options=${plans} value=${workspace.plan} />
    <${SelectField} label="When" name="when" options=${times} />
  <//>`;
}

export function LimitDialog({ of: workspace, done }) {
  const limit = workspace.overage_limit_cu_milli;
  const submit = async (form, once) => {
    const body = { overage_limit_cu_milli: readMilli(form, "overage") ?? null };
    await change(`workspaces/${workspace.id}/settings`, body, once);
    done();
  };
  return html`<${FormDialog}
    title=${`Limit the overage of “${workspace.name}”`}
    action="Save limit"
    submit=${submit}
  >
    <p>Overage is what the workspace uses after the credit of its plan and its purchases.</p>
    <${InputField}
      label="Limit of overage in CU"
      hint="Leave empty for no limit"
      name="overage"
      ...${credit}
      defaultValue=${limit === undefined ? undefined : limit / 1000}
    />
  <//>`;
}

/** A purchase costs money, so the amount must be confirmed. */
export function PurchaseDialog({ of: workspace, done }) {
  const [milli, setMilli] = useState(0);
  const submit = async (form, once) => {
    if (form.get("confirmed") === null) throw new RangeError("confirm the amount");
    const body = { amount_cu_milli: readMilli(form, "amount") };
    await change(`workspaces/${workspace.id}/purchase`, body, once);
    done();
  };
  return html`<${FormDialog}
    title=${`Add credit to “${workspace.name}”`}
    action="Add credit"
    submit=${submit}
  >
    <p>
      The workspace has ${format.cu(workspace.purchased_cu_milli)} of purchased credit left. A
      purchase cannot be undone.
    </p>
    <${InputField}
      label="Credit in CU"
      name="amount"
      ...${credit}
      min="0.001"
      required
      onInput=${({ currentTarget }) => setMilli(Math.round(Number(currentTarget.value) * 1000))}
    />
    <label class="check">
      <input type="checkbox" name="confirmed" required />
      Charge the workspace for ${format.cu(milli)}
    </label>
  <//>`;
}

export function CancelDowngradeDialog({ of: workspace, done }) {
  const submit = async (_, once) => {
    await change(`workspaces/${workspace.id}/cancel-downgrade`, {}, once);
    done();
  };
  return html`<${FormDialog}
    title=${`Keep the plan of “${workspace.name}”?`}
    action="Cancel the downgrade"
    submit=${submit}
  >
    <p>
      The workspace keeps the plan ${workspace.plan}, instead of changing to
      ${` ${workspace.pending_plan}`} at ${format.moment(workspace.pending_plan_at)}.
    </p>
  <//>`;
}
