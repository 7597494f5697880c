import { ApiError } from "../parts/api.js";
import { Badge, Empty, ErrorLine, Fact, Facts, Loading, Panel } from "../parts/basics.js";
import { Choice, InputField, SelectField } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html, useEffect, useState } from "../parts/html.js";
import { Explanation } from "../parts/explanation.js";
import {
  callGateway,
  clientCode,
  curlCode,
  parsed,
  readChat,
  setKey,
} from "../parts/playground-call.js";
import { ToolForm } from "../parts/playground-tools.js";
import { useAnswer } from "../parts/poll.js";
import { filter, setFilters } from "../parts/router.js";

const titles = [
  ["chat", "Chat"],
  ["tools", "Tool"],
  ["node", "Node"],
];

export function PlaygroundView() {
  const { data, error } = useAnswer("playground");
  useEffect(() => () => setKey(""), []);
  if (data === undefined)
    return html`<div class="view"><${ErrorLine} error=${error} /><${Loading} /></div>`;
  const kinds = titles.filter(([kind]) => data.paths[kind] !== undefined);
  const kind = kinds.find(([each]) => each === filter("call"))?.[0] ?? kinds[0]?.[0];
  if (kind === undefined) {
    return html`<div class="view">
      <${Empty} title="Nothing to call">
        pipeline.yaml has no route for chats, tools or the node.
      <//>
    </div>`;
  }
  const address = originOf(filter("address")) ?? data.origin;
  return html`<div class="view">
    <${Panel} title="Playground">
      <form class="form" onSubmit=${(event) => event.preventDefault()}>
        <${InputField}
          label="API key for calls"
          hint="Calls are real requests, charged to this key. The key is not stored: leaving this view removes it."
          type="password"
          spellcheck=${false}
          placeholder="gateway_…"
          onInput=${({ currentTarget }) => setKey(currentTarget.value)}
        />
        <${InputField}
          label="Public address"
          hint="Used in the code. Calls of this view are sent to the listener of this gateway."
          type="url"
          spellcheck=${false}
          value=${address}
          onChange=${({ currentTarget }) => setFilters({ address: originOf(currentTarget.value) })}
        />
      </form>
      <${Choice} label="Kind of call" options=${kinds} chosen=${kind} name="call" />
    <//>
    <${Caller} key=${kind} kind=${kind} url=${address + data.paths[kind]} paths=${data.paths} />
  </div>`;
}

/** Undefined if the text is not the URL of a web server. */
function originOf(text) {
  const url = URL.parse(text);
  return url !== null && ["http:", "https:"].includes(url.protocol) ? url.origin : undefined;
}

/**
 * `text`: what has arrived of the answer. `answer`: undefined until it is complete.
 *
 * @typedef {object} Call
 * @property {object} body
 * @property {string} text
 * @property {import("../parts/playground-call.js").CallAnswer} [answer]
 * @property {ApiError} [error]
 */

const forms = { chat: ChatForm, tools: ToolForm, node: NodeForm };

/** `paths`: paths of all kinds that the gateway serves. */
function Caller({ kind, url, paths }) {
  const [call, setCall] = useState(/** @type {Call | undefined} */ (undefined));
  const [isBusy, setBusy] = useState(false);
  /** Resolves with undefined if the call failed, which is shown. */
  const send = async (body) => {
    setBusy(true);
    setCall({ body, text: "" });
    try {
      const answer = await callGateway(kind, body, (text) => setCall({ body, text }));
      setCall({ body, text: answer.text, answer });
      return answer;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setCall({ body, text: "", error });
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return html`<${forms[kind]} send=${send} isBusy=${isBusy} paths=${paths} />
    ${call !== undefined && html`<${Result} kind=${kind} url=${url} call=${call} />`}`;
}

function ChatForm({ send, isBusy, paths }) {
  const [models, setModels] = useState(/** @type {string[]} */ ([]));
  const [note, setNote] = useState("");
  const list = async () => {
    try {
      const { text, status } = await callGateway("models", undefined);
      const ids = (parsed(text)?.data ?? []).map(({ id }) => String(id));
      setModels(ids);
      setNote(
        status === 200 ? `${format.counted(ids.length, "model")} found.` : `Status ${status}.`,
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setNote(`The models could not be read: ${error.message}.`);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    void send({
      model: fields.get("model"),
      messages: [{ role: "user", content: fields.get("message") }],
      max_tokens: 256,
      stream: true,
      stream_options: { include_usage: true },
    });
  };
  return html`<${Panel} title="Chat">
    <form class="form" onSubmit=${submit}>
      ${
        models.length === 0
          ? html`<${InputField} label="Model" name="model" required maxlength="200" />`
          : html`<${SelectField}
              label="Model"
              name="model"
              options=${models.map((id) => [id, id])}
            />`
      }
      ${
        paths.models !== undefined &&
        html`<p>
          <button class="plain" type="button" onClick=${list}>List the models</button>
          <span role="status" class="quiet"> ${note}</span>
        </p>`
      }
      <${InputField} label="Message" name="message" required maxlength="4000" />
      <button class="primary" type="submit" disabled=${isBusy}>Send</button>
    </form>
  <//>`;
}

function NodeForm({ send, isBusy }) {
  const [error, setError] = useState("");
  const submit = (event) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const text = fields.get("params");
    const params = typeof text === "string" ? parsed(text) : undefined;
    setError(Array.isArray(params) ? "" : "The parameters must be a JSON array.");
    if (!Array.isArray(params)) return;
    void send({ jsonrpc: "2.0", id: 1, method: fields.get("method"), params });
  };
  return html`<${Panel} title="Call of the node">
    <form class="form" onSubmit=${submit}>
      <${InputField} label="Method" name="method" defaultValue="system_health" required />
      <${InputField}
        label="Parameters"
        hint="A JSON array"
        name="params"
        defaultValue="[]"
        required
      />
      <p class="field-error" role="alert">${error}</p>
      <button class="primary" type="submit" disabled=${isBusy}>Call</button>
    </form>
  <//>`;
}

function Result({ kind, url, call }) {
  const { body, text, answer, error } = call;
  const chat = kind === "chat" ? readChat(text) : undefined;
  const cost = answer?.costMilliCu ?? chat?.costMilliCu;
  const shown = chat === undefined || chat.content === "" ? pretty(text) : chat.content;
  return html`<${Panel} title="Answer">
      ${error !== undefined && html`<p class="field-error" role="alert">${error.message}.</p>`}
      <pre
        class="code"
        tabindex="0"
        aria-live="polite"
        aria-label="Answer"
      ><code>${shown}</code></pre>
      ${
        answer !== undefined &&
        html`<${Facts}>
          <${Fact} name="Status">
            <${Badge} meaning=${answer.status < 300 ? "ok" : "bad"}>${answer.status}<//>
          <//>
          <${Fact} name="Cost">${cost === undefined ? "not charged" : format.cu(cost)}<//>
          <${Fact} name="Request id"><code>${answer.requestId}</code><//>
        <//>`
      }
    <//>
    <${Panel} title="The same with curl"><${Code} text=${curlCode({ kind, url, body })} /><//>
    <${Panel} title="The same in JavaScript"><${Code} text=${clientCode({ kind, url, body })} /><//>
    ${
      answer !== undefined &&
      html`<${Panel} key=${answer.requestId} title="Explanation">
        <${Explained} requestId=${answer.requestId} />
      <//>`
    }`;
}

function Explained({ requestId }) {
  const { data, error } = useAnswer(`explain?id=${encodeURIComponent(requestId)}`);
  return html`<${Explanation} exchanges=${data?.exchanges} error=${error} />`;
}

function Code({ text }) {
  return html`<pre class="code" tabindex="0"><code>${text}</code></pre>`;
}

/** A text that is not JSON stays as it is. */
function pretty(text) {
  const value = parsed(text);
  return value === undefined ? text : JSON.stringify(value, undefined, 2);
}
