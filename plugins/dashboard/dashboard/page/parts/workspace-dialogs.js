import { FormDialog } from "./dialog.js";
import { CreditField, InputField, readMilli, SelectField } from "./fields.js";
import * as format from "./format.js";
import { html, useState } from "./html.js";

const plans = ["free", "developer", "startup", "enterprise"].map((name) => [name, name]);

export function NewWorkspaceDialog({ done }) {
  const changeOf = (form) => [
    "workspaces",
    {
      name: String(form.get("name")).trim(),
      plan: form.get("plan"),
      overage_limit_cu_milli: readMilli(form, "overage"),
    },
  ];
  return html`<${FormDialog}
    title="New workspace"
    action="Create workspace"
    changeOf=${changeOf}
    done=${done}
  >
    <${InputField} label="Name" hint="Customer or team" name="name" required maxlength="200" />
    <${SelectField} label="Plan" name="plan" options=${plans} />
    <${OverageField} />
  <//>`;
}

/**
 * `milli`: the current limit in milli-CU.
 * @param {{ milli?: number }} props
 */
function OverageField({ milli }) {
  return html`<${CreditField}
    label="Limit of overage in CU"
    hint="Leave empty for no limit"
    name="overage"
    milli=${milli}
  />`;
}

const times = [
  ["now", "now"],
  ["period", "at the end of the billing period (only a lower plan)"],
];

export function PlanDialog({ of: workspace, done }) {
  const changeOf = (form) => {
    const path = form.get("when") === "period" ? "downgrade" : "settings";
    return [`workspaces/${workspace.id}/${path}`, { plan: form.get("plan") }];
  };
  return html`<${FormDialog}
    title=${`Change the plan of “${workspace.name}”`}
    action="Change plan"
    changeOf=${changeOf}
    done=${done}
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
  const changeOf = (form) => [
    `workspaces/${workspace.id}/settings`,
    { overage_limit_cu_milli: readMilli(form, "overage") ?? null },
  ];
  return html`<${FormDialog}
    title=${`Limit the overage of “${workspace.name}”`}
    action="Save limit"
    changeOf=${changeOf}
    done=${done}
  >
    <p>Overage is what the workspace uses after the credit of its plan and its purchases.</p>
    <${OverageField} milli=${workspace.overage_limit_cu_milli} />
  <//>`;
}

/** A purchase costs money, so the amount must be confirmed. */
export function PurchaseDialog({ of: workspace, done }) {
  const [milli, setMilli] = useState(0);
  const changeOf = (form) => {
    if (form.get("confirmed") === null) throw new RangeError("confirm the amount");
    return [`workspaces/${workspace.id}/purchase`, { amount_cu_milli: readMilli(form, "amount") }];
  };
  return html`<${FormDialog}
    title=${`Add credit to “${workspace.name}”`}
    action="Add credit"
    changeOf=${changeOf}
    done=${done}
  >
    <p>
      The workspace has ${format.cu(workspace.purchased_cu_milli)} of purchased credit left. A
      purchase cannot be undone.
    </p>
    <${CreditField}
      label="Credit in CU"
      name="amount"
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
  const changeOf = () => [`workspaces/${workspace.id}/cancel-downgrade`, {}];
  return html`<${FormDialog}
    title=${`Keep the plan of “${workspace.name}”?`}
    action="Cancel the downgrade"
    changeOf=${changeOf}
    done=${done}
  >
    <p>
      The workspace keeps the plan ${workspace.plan}, instead of changing to
      ${` ${workspace.pending_plan}`} at ${format.moment(workspace.pending_plan_at)}.
    </p>
  <//>`;
}
