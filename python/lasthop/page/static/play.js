// Live view: controls on one side, results on the other.

import { html, Component } from "./view.js";
import { events } from "./api.js";
import { Distribution, Estimates, Swatch } from "./charts.js";
import { Form } from "./form.js";
import { digits, metricLabel } from "./quantity.js";
import { change, effective, freshLabel, put, question, replaced } from "./state.js";

const MOST = 6;

/** Minimum time for an answer before its work is aborted for a newer request. */
const ANSWER_MS = 150;

const DEFAULTS = [
  /^flow\..*\.goodput_bps$/, /^flow\..*\.duration_s$/, /^flow\..*\.delay_p95_s$/,
  /^flow\..*\.(residual_loss|loss|deadline_miss)$/, /^flow\..*\.retransmissions$/,
  /^link\..*\.forward\.frame_loss$/, /^link\..*\.forward\.utilization$/,
];
const SHOWN = 6;

/** Asks the server whenever the question changes, and keeps what it answers. */
export class Player {
  constructor(onChange) {
    this.onChange = onChange;
    this.answer = null;
    this.error = null;
    this.asked = "";
    this.running = null;
    this.waiting = null;
  }

  ask(wanted) {
    const text = JSON.stringify(wanted);
    if (text === this.asked) return;
    this.asked = text;
    this.waiting = { wanted, since: performance.now() };
    if (!this.running) this.start();
    else if (this.running.isTold) this.running.stop.abort();
    // A moving slider must not keep every answer from being seen.
    else setTimeout(() => this.running && this.waiting && this.running.stop.abort(), ANSWER_MS);
  }

  async start() {
    const { wanted, since } = this.waiting;
    const own = { stop: new AbortController(), isTold: false };
    this.waiting = null;
    this.running = own;
    const labels = wanted.alternatives.map((one) => one.label);
    const answer = { labels, delays: [], estimates: [], differences: [], n: 0, done: "" };
    try {
      for await (const event of events("play", wanted, own.stop.signal)) {
        if (event.event === "delay") answer.delays[event.alternative] = event;
        else Object.assign(answer, event);
        if (!own.isTold) {
          own.isTold = true;
          answer.firstMs = performance.now() - since;
          if (this.waiting) own.stop.abort();
        }
        this.answer = { ...answer };
        this.error = null;
        this.onChange();
      }
    } catch (error) {
      if (!own.stop.signal.aborted) {
        this.error = error;
        this.onChange();
      }
    }
    this.running = null;
    if (this.waiting) this.start();
  }

  stop() {
    this.waiting = null;
    this.asked = "";
    if (this.running) this.running.stop.abort();
  }
}

/** The metrics that are shown: those chosen, or some that say most. */
export function chosenMetrics(state, answer) {
  const known = new Set(answer.estimates.flatMap((one) => Object.keys(one)));
  const own = (state.metrics || []).filter((one) => known.has(one));
  if (own.length) return own;
  const found = [];
  for (const pattern of DEFAULTS) {
    const metric = [...known].find((one) => pattern.test(one));
    if (metric) found.push(metric);
  }
  return found.slice(0, SHOWN);
}

export class Play extends Component {
  render({ state, set, about, player }) {
    const { answer, error } = player;
    const number = Math.max(state.edit, 0);
    const scenario = state.edit < 0 ? state.scenario : effective(state, number);
    const changes = state.edit < 0 ? null : state.alternatives[number].changes;
    const errors = {};
    if (error && error.key) errors[error.key] = error.message.slice(error.key.length + 2);
    return html`<div class="play">
      <section class="controls" aria-label="The link and its traffic">
        <${Presets} ...${{ state, set, about }} />
        <${Alternatives} ...${{ state, set }} />
        <${Form} schema=${about.schema} scenario=${scenario} changes=${changes} errors=${errors}
          onChange=${(path, value) => set(change(state, path, value))} />
        <div class="field"><label for="seed">seed</label>
          <input id="seed" type="number" min="0" value=${state.seed}
            onChange=${(event) => set({ ...state, seed: Math.max(0, Math.floor(Number(event.target.value) || 0)) })} />
        </div>
      </section>
      <section class="results" aria-label="Results">
        ${error && html`<p class="error banner" role="alert">${error.alternative !== null && state.alternatives[error.alternative] ? `${state.alternatives[error.alternative].label}: ` : ""}${error.message}</p>`}
        ${answer ? html`<${Answer} ...${{ state, set, answer }} stale=${Boolean(error)} />` : !error && html`<p class="wait">Computing …</p>`}
      </section>
    </div>`;
  }
}

const Presets = ({ state, set, about }) => {
  const links = Object.keys(state.scenario.link || {});
  const chosen = about.presets.find((one) => one.name === state.preset);
  const apply = (name) => {
    const preset = about.presets.find((one) => one.name === name);
    if (!preset) return set({ ...state, preset: "" });
    if (!preset.link || !links.length || state.scenario.wlan) {
      // A wireless LAN is more than a link: the profile replaces the scenario.
      const alternatives = [{ label: name, changes: {} }];
      return set({ ...state, scenario: preset.scenario, alternatives, metrics: null, preset: name, edit: -1 });
    }
    const link = links[links.length - 1];
    const { between, protocol, agent } = state.scenario.link[link];
    const table = { between, ...preset.link, ...(protocol ? { protocol } : {}), ...(agent ? { agent } : {}) };
    let scenario = put(state.scenario, ["link", link], table);
    for (const [flow, own] of Object.entries(scenario.flow || {})) {
      if (own.transport && own.transport.kind === "tcp") {
        scenario = put(scenario, ["flow", flow, "transport", "segment"], preset.segment);
      }
    }
    set({ ...state, scenario, preset: name, edit: -1 });
  };
  return html`<div class="presets">
    <label for="preset">preset</label>
    <select id="preset" onChange=${(event) => apply(event.target.value)}>
      <option value="" selected=${!chosen}>select a link or a WLAN …</option>
      ${about.presets.map((one) => html`<option value=${one.name} selected=${chosen === one}>${one.name}: ${one.about}</option>`)}
    </select>
    ${chosen && html`<p class="about"><b>Source:</b> ${chosen.source}. <b>Our choice:</b> ${chosen.chosen}.</p>`}
  </div>`;
};

const Alternatives = ({ state, set }) => {
  const { alternatives, edit } = state;
  const add = () => {
    const from = alternatives[edit >= 0 ? edit : alternatives.length - 1];
    const label = freshLabel(state, `${from.label} 2`.replace(/ 2 2$/, " 3"));
    set({ ...state, alternatives: [...alternatives, { label, changes: { ...from.changes } }], edit: alternatives.length });
  };
  const remove = () => set({ ...state, alternatives: alternatives.filter((_, index) => index !== edit), edit: -1 });
  const rename = (event) => {
    const wanted = event.target.value.trim().slice(0, 60);
    if (wanted && wanted !== alternatives[edit].label) set(replaced(state, edit, { label: freshLabel(state, wanted) }));
  };
  return html`<fieldset class="alternatives">
    <legend>apply to</legend>
    <div class="chips">
      <label class="chip ${edit < 0 ? "on" : ""}"><input type="radio" name="edit" checked=${edit < 0} onChange=${() => set({ ...state, edit: -1 })} />all</label>
      ${alternatives.map((one, index) => html`<label key=${index} class="chip ${edit === index ? "on" : ""}">
        <input type="radio" name="edit" checked=${edit === index} onChange=${() => set({ ...state, edit: index })} />
        <${Swatch} index=${index} />${one.label}</label>`)}
      ${alternatives.length < MOST && html`<button type="button" class="small" onClick=${add}>+ alternative</button>`}
    </div>
    ${edit >= 0 && html`<div class="edit">
      <label for="label">name</label> <input id="label" value=${alternatives[edit].label} maxlength="60" onChange=${rename} />
      ${alternatives.length > 1 && html`<button type="button" class="small" onClick=${remove}>remove</button>`}
      ${Object.keys(alternatives[edit].changes).length > 0 && html`<ul class="changes">${Object.entries(alternatives[edit].changes).map(([key, value]) => html`<li><code>${key}</code> = ${words(value)}
        <button type="button" class="small" aria-label="reset ${key}" onClick=${() => {
          const { [key]: _, ...changes } = alternatives[edit].changes;
          set(replaced(state, edit, { changes }));
        }}>×</button></li>`)}</ul>`}
    </div>`}
  </fieldset>`;
};

const words = (value) =>
  value && typeof value === "object"
    ? Object.entries(value).map(([key, one]) => (key === "kind" ? words(one) : `${key} ${words(one)}`)).join(", ")
    : String(value);

const Answer = ({ state, set, answer, stale }) => {
  const metrics = chosenMetrics(state, answer);
  const flows = [...new Set(answer.delays.flatMap((one) => (one ? Object.keys(one.flows) : [])))];
  return html`<div class=${stale ? "stale" : ""}>
    <p class="status" role="status">${answer.n} replications of each${answer.done ? `, done: ${answer.done}` : " …"}
      <span class="soft"> – means with 95 % intervals; paired differences from the first in per cent of its mean, under common random numbers</span></p>
    <div class="grid">${metrics.map((metric) => html`<${Estimates} key=${metric} metric=${metric} labels=${answer.labels} estimates=${answer.estimates} differences=${answer.differences} />`)}</div>
    ${flows.map((flow) => {
      const curves = answer.labels.flatMap((label, index) => {
        const own = answer.delays[index] && answer.delays[index].flows[flow];
        return own ? [{ label, index, values: own.quantiles_s }] : [];
      });
      return html`<div class="delays" key=${flow}><h2>Delay distribution <span class="soft">${flow}, replication 0</span></h2>
        <${Distribution} curves=${curves} unit="s" label="Delay to the application" /></div>`;
    })}
    <details class="all"><summary>All metrics</summary><${Table} ...${{ state, set, answer, metrics }} /></details>
  </div>`;
};

const Table = ({ state, set, answer, metrics }) => {
  const names = [...new Set(answer.estimates.flatMap((one) => Object.keys(one)))];
  const toggle = (name) => set({ ...state, metrics: metrics.includes(name) ? metrics.filter((one) => one !== name) : [...metrics, name] });
  return html`<div class="wide" tabindex="0" role="region" aria-label="All metrics"><table>
    <thead><tr><th scope="col">shown</th><th scope="col">metric</th>${answer.labels.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
    <tbody>${names.map((name) => html`<tr key=${name}>
      <td><input type="checkbox" aria-label="show ${name}" checked=${metrics.includes(name)} onChange=${() => toggle(name)} /></td>
      <th scope="row" title=${metricLabel(name)}>${name}</th>
      ${answer.estimates.map((one) => html`<td>${one[name] ? `${digits(one[name][0], one[name][1])}${one[name][1] > 0 ? ` ± ${digits(one[name][1], one[name][1])}` : ""}` : "–"}</td>`)}
    </tr>`)}</tbody></table></div>`;
};

export { question };
