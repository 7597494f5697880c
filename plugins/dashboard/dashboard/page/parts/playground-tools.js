/** The form of a tool comes from the JSON Schema of its input. A write tool asks for confirmation. */
import { ApiError } from "./api.js";
import { Panel } from "./basics.js";
import { Dialog, openDialog } from "./dialog.js";
import { Field, InputField, SelectField } from "./fields.js";
import { html, useState } from "./html.js";
import { callGateway, parsed } from "./playground-call.js";

/** @typedef {{ name: string, description: string, inputSchema: object }} ListedTool */

const listing = { jsonrpc: "2.0", id: 1, method: "tools.list" };

export function ToolForm({ send, isBusy }) {
  const [tools, setTools] = useState(/** @type {ListedTool[]} */ ([]));
  const [name, setName] = useState("");
  const [note, setNote] = useState("Enter a key, then list the tools that it may call.");
  const tool = tools.find((each) => each.name === name);
  const list = async () => {
    try {
      const { text } = await callGateway("tools", listing);
      const answer = parsed(text);
      const found = answer?.result?.tools ?? [];
      setTools(found);
      setName(found[0]?.name ?? "");
      setNote(answer?.error?.message ?? answer?.error ?? "");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setNote(`The tools could not be read: ${error.message}.`);
    }
  };
  const call = async (params, token) => {
    const answer = await send({
      jsonrpc: "2.0",
      id: 1,
      method: "tools.call",
      params: { tool: name, params, ...(token !== undefined && { confirmation_token: token }) },
    });
    const { errorCode, details } = parsed(answer?.text ?? "")?.error?.data ?? {};
    if (errorCode !== "GATEWAY_CONFIRMATION_REQUIRED") return;
    openDialog(
      html`<${Confirmation}
        tool=${name}
        details=${details}
        confirm=${() => void call(params, details.confirmation_token)}
      />`,
    );
  };
  const submit = (event) => {
    event.preventDefault();
    const read = readInput(tool?.inputSchema, new FormData(event.currentTarget));
    setNote(read.problem ?? "");
    if (read.input !== undefined) void call(read.input, undefined);
  };
  return html`<${Panel} title="Call of a tool">
    <p>
      <button class="plain" type="button" onClick=${list}>List the tools</button>
      <span role="status" class="quiet"> ${note}</span>
    </p>
    ${
      tool !== undefined &&
      html`<form class="form" onSubmit=${submit}>
        <${Field}
          label="Tool"
          hint=${tool.description}
          control=${(attributes) =>
            html`<select
              ...${attributes}
              onChange=${({ currentTarget }) => setName(currentTarget.value)}
            >
              ${tools.map((each) => html`<option selected=${each.name === name}>${each.name}</option>`)}
            </select>`}
        />
        <div key=${name} class="form">${fieldsOf(tool.inputSchema)}</div>
        <button class="primary" type="submit" disabled=${isBusy}>Call</button>
      </form>`
    }
  <//>`;
}

function Confirmation({ tool, details, confirm }) {
  return html`<${Dialog} title=${`Run ${tool}?`}>
    ${(close) => html`
      <p>This tool changes something. It runs when you confirm.</p>
      <pre
        class="code"
        tabindex="0"
      ><code>${JSON.stringify(details.summary ?? {}, undefined, 2)}</code></pre>
      <div class="dialog-end">
        <button type="button" class="plain" onClick=${close}>Cancel</button>
        <button
          type="button"
          class="primary"
          onClick=${() => {
            close();
            confirm();
          }}
        >
          Run it
        </button>
      </div>
    `}
  <//>`;
}

/** The confirmation adds the token. The schema may come from another server, so its keywords can have any type. */
function membersOf(schema) {
  const required = Array.isArray(schema?.required) ? schema.required : [];
  return Object.entries(Object(schema?.properties))
    .filter(([name]) => name !== "confirmation_token")
    .map(([name, of]) => ({ name, member: Object(of), isRequired: required.includes(name) }));
}

/** Undefined if the schema names none. */
function choicesOf({ type, enum: choices }) {
  if (Array.isArray(choices)) return choices;
  return type === "boolean" ? [true, false] : undefined;
}

function fieldsOf(schema) {
  return membersOf(schema).map(({ name, member, isRequired }) => {
    const choices = choicesOf(member);
    const { description } = member;
    const hint = typeof description === "string" ? description : kindOf(member);
    const common = { key: name, name, label: name, hint };
    if (choices === undefined) {
      return html`<${InputField}
        ...${common}
        placeholder=${kindOf(member)}
        required=${isRequired}
        defaultValue=${member.default === undefined ? "" : textOf(member.default)}
      />`;
    }
    const options = choices.map((each) => [String(each), String(each)]);
    return html`<${SelectField}
      ...${common}
      value=${member.default === undefined ? undefined : String(member.default)}
      options=${isRequired ? options : [["", "not set"], ...options]}
    />`;
  });
}

function kindOf({ type }) {
  return ["string", "integer", "number", "boolean"].includes(type) ? type : "JSON";
}

function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * An empty optional field is omitted. The gateway or the tool checks the values; here they only get their types.
 * @returns {{ input?: Record<string, unknown>, problem?: string }}
 */
function readInput(schema, fields) {
  /** @type {Record<string, unknown>} */
  const input = {};
  for (const { name, member, isRequired } of membersOf(schema)) {
    const field = fields.get(name);
    const text = typeof field === "string" ? field : "";
    if (text === "" && !isRequired) continue;
    const isText = kindOf(member) === "string" || typeof member.enum?.[0] === "string";
    const value = isText ? text : parsed(text);
    if (value === undefined) return { problem: `${name} must be ${kindOf(member)}.` };
    input[name] = value;
  }
  return { input };
}
