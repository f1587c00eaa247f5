// The form: made from the schema that the engine exports. Names, units, limits, words and what a
// key means all come from there.

import { html, Component } from "./view.js";
import { describe, example, range, read, scale, write } from "./quantity.js";
import { get } from "./state.js";

const STEPS = 1000;
// Characters of a list that are shown.
const LONGEST_LIST = 120;
// Names in the summary of the keys that are folded away.
const MOST_NAMES = 6;

/** The tables that a schema tells apart by their `kind`. */
export const variants = (schema) => (schema.oneOf || []).filter((one) => one.properties);

const isUnion = (schema) => variants(schema).length > 0;
/** The union that a value is one of; where a single value may stand for a table, only of a table. */
const unionOf = (schema, value) =>
  isUnion(schema) ? schema : typeof value === "object" && (schema.anyOf || []).find(isUnion);
const kindOf = (form) => form.properties.kind.const;
const title = (key) => key.replaceAll("_", " ");
const about = (schema) => (schema.description || "").replace(/\s+/g, " ");

/** The words of a choice with their meanings, out of its description. */
function meaning(schema, word) {
  const start = about(schema).indexOf(`"${word}": `);
  if (start < 0) return "";
  return about(schema).slice(start + word.length + 4).split(/ "[\w-]+": /)[0];
}

/** A table of the first variant of a union, with what it needs. */
export function fresh(form) {
  const table = { kind: kindOf(form) };
  for (const key of form.required || []) {
    if (key !== "kind") table[key] = filled(form.properties[key]);
  }
  // One of two pairs of keys is required.
  if (table.kind === "gilbert-elliott") Object.assign(table, { mean_loss: "2 %", mean_burst: 3 });
  return table;
}

function filled(schema) {
  if (isUnion(schema)) return fresh(variants(schema)[0]);
  return example(schema);
}

class Field extends Component {
  id() {
    return `f-${this.props.path.join("-")}`;
  }

  set(value) {
    this.props.onChange(this.props.path, value);
  }

  render({ name, schema, value, path, onChange, errors, required, own }) {
    const id = this.id();
    const error = errors[path.join(".")];
    const marks = error ? { "aria-invalid": "true", "aria-errormessage": `${id}-error` } : {};
    const shown = value ?? schema.default;
    let control;
    const union = unionOf(schema, value);
    if (union) {
      return html`<${Union} ...${{ name, schema: union, value, path, onChange, errors, id, marks, error, own, required }} />`;
    }
    if (schema.enum) {
      control = html`<select id=${id} aria-describedby="${id}-about" ...${marks}
        onChange=${(event) => this.set(event.target.value || undefined)}>
        ${!required && html`<option value="" selected=${value === undefined}>
          ${schema.default === undefined ? "default" : `${schema.default} (default)`}</option>`}
        ${schema.enum.map((word) => html`<option value=${word} selected=${value === word}>${word}</option>`)}
      </select>`;
    } else if (schema.type === "boolean") {
      control = html`<input type="checkbox" id=${id} checked=${Boolean(shown)}
        aria-describedby="${id}-about" ...${marks}
        onChange=${(event) => this.set(event.target.checked)} />`;
    } else if (schema.type === "array" || schema.type === "object") {
      if (value === undefined) return null;
      const text = JSON.stringify(value);
      return html`<div class="field"><p class="about">${title(name)}:
        ${text.length > LONGEST_LIST ? `${text.slice(0, LONGEST_LIST)} …` : text}.
        This page cannot edit lists; edit the scenario file.</p></div>`;
    } else {
      control = html`<${Quantity} ...${{ id, schema, value: shown, given: value, marks, name }}
        onValue=${(found) => this.set(found)} />`;
    }
    return html`<div class="field ${own ? "own" : ""}">
      <label for=${id}>${title(name)}${own ? html` <span class="tag">own</span>` : ""}</label>
      ${control}
      <${Words} id=${id} schema=${schema} value=${value} error=${error} />
    </div>`;
  }
}

const Words = ({ id, schema, value, error }) => {
  const own = schema.enum && value !== undefined ? meaning(schema, value) : "";
  return html`
    <details class="what"><summary aria-label="What ${id.slice(2)} means">?</summary>
      <p id="${id}-about">${about(schema)}</p></details>
    ${error && html`<p class="error" id="${id}-error">${error}</p>`}
    ${own && html`<p class="about">${own}</p>`}`;
};

class Quantity extends Component {
  constructor(props) {
    super(props);
    this.state = { typed: null };
  }

  typed(event) {
    const text = event.target.value.trim();
    this.setState({ typed: null });
    if (text === "") this.props.onValue(undefined);
    else if (/^[0-9]+(\.[0-9]+)?$/.test(text) && this.takesNumbers()) this.props.onValue(Number(text));
    else this.props.onValue(text);
  }

  takesNumbers() {
    return ["integer", "number"].some((kind) => describe(this.props.schema).kinds.includes(kind));
  }

  render({ id, schema, value, marks, name, onValue }, { typed }) {
    const limits = describe(schema);
    const found = value === undefined ? null : read(value, limits.kinds);
    const kind = found ? found.kind : null;
    const slider = kind && this.slider(kind, limits, found, { id, name, value, onValue });
    return html`<div class="quantity">
      ${slider}
      <input type="text" id=${id} value=${typed ?? value ?? ""} autocomplete="off" spellcheck=${false}
        inputmode=${kind === "integer" ? "numeric" : "text"} aria-describedby="${id}-about" ...${marks}
        placeholder=${limits.words[0] || "default"}
        onInput=${(event) => this.setState({ typed: event.target.value })}
        onChange=${(event) => this.typed(event)}
        list=${limits.words.length ? `${id}-words` : undefined} />
      ${limits.words.length > 0 && html`<datalist id="${id}-words">
        ${limits.words.map((word) => html`<option value=${word} />`)}</datalist>`}
    </div>`;
  }

  slider(kind, limits, found, { id, name, value, onValue }) {
    let [low, high] = range(kind, limits);
    if (found.value > high) high = found.value;
    if (found.value > 0 && found.value < low) low = found.value;
    const { value: at, place } = scale([low, high]);
    const steps = kind === "integer" && high - low < STEPS ? high - low : STEPS;
    const linear = kind === "integer" && high - low <= 20;
    const position = linear ? (found.value - low) / (high - low) : place(found.value);
    return html`<input type="range" min="0" max=${steps} step="1" data-slider=${id}
      value=${Math.round(position * steps)} aria-label="${title(name)}, slider" aria-valuetext=${String(value)}
      onInput=${(event) => {
        const part = Number(event.target.value) / steps;
        this.setState({ typed: null });
        onValue(write(linear ? low + part * (high - low) : at(part), kind, found.prefix));
      }} />`;
  }
}

const Union = ({ name, schema, value, path, onChange, errors, id, marks, error, own, required }) => {
  const forms = variants(schema);
  const table = typeof value === "string" ? { kind: value } : value;
  const kind = table ? table.kind : "";
  const form = forms.find((one) => kindOf(one) === kind);
  const usual = schema.default && (schema.default.kind || schema.default);
  return html`<fieldset class="union ${own ? "own" : ""}">
    <legend>${title(name)}${own ? html` <span class="tag">own</span>` : ""}</legend>
    <select id=${id} aria-label="kind of ${title(name)}" ...${marks}
      onChange=${(event) => {
        const chosen = forms.find((one) => kindOf(one) === event.target.value);
        onChange(path, chosen ? fresh(chosen) : undefined);
      }}>
      ${!required && html`<option value="" selected=${!kind}>${usual ? `${usual} (default)` : "none"}</option>`}
      ${forms.map((one) => html`<option value=${kindOf(one)} selected=${kindOf(one) === kind}>${kindOf(one)}</option>`)}
    </select>
    ${error && html`<p class="error" id="${id}-error">${error}</p>`}
    <p class="about">${form ? about(form) : ""}</p>
    ${form && html`<${Fields} ...${{ form, table, path, onChange, errors }} skip=${["kind"]} first=${FIRST[kind] || []} />`}
  </fieldset>`;
};

/** The fields of a table: `first`, then what it needs or has; the rest is folded away. */
export const Fields = ({ form, table, path, onChange, errors, skip = [], first = [], owned = () => false }) => {
  const keys = Object.keys(form.properties || {}).filter((key) => !skip.includes(key));
  const needed = form.required || [];
  const shown = keys.filter((key) => {
    const schema = form.properties[key];
    return (
      needed.includes(key) || first.includes(key) || (table && table[key] !== undefined) ||
      errors[[...path, key].join(".")] !== undefined ||
      (schema.type === "integer" && first.length === 0)
    );
  });
  const rest = keys.filter((key) => !shown.includes(key));
  const place = (key) => (first.includes(key) ? first.indexOf(key) : first.length);
  shown.sort((one, other) => place(one) - place(other));
  const names = rest.slice(0, MOST_NAMES).map(title).join(", ");
  const field = (key) => html`<${Field} key=${key} name=${key} schema=${form.properties[key]}
    value=${table ? table[key] : undefined} path=${[...path, key]} onChange=${onChange} errors=${errors}
    required=${needed.includes(key)} own=${owned([...path, key].join("."))} />`;
  return html`<div class="fields">
    ${shown.map(field)}
    ${rest.length > 0 && html`<details class="more"><summary>${rest.length} more: ${names}${rest.length > MOST_NAMES ? " …" : ""}</summary>
      ${rest.map(field)}</details>`}
  </div>`;
};

// Keys in order of importance, by group of the scenario or by kind of a table; others follow.
const FIRST = { tcp: ["profile", "variant", "segment"], link: ["rate", "delay", "queue", "protocol", "errors"], flow: ["transport", "app"], radio: ["delay", "errors"] };
const FIXED = ["between", "from", "to", "base", "stations", "service", "preset"];

/** Links, radios and flows of a scenario, each a section. */
export const Form = ({ schema, scenario, changes, onChange, errors }) => {
  const owned = (key) => changes !== null && Object.keys(changes).some((one) => one === key || one.startsWith(`${key}.`));
  const sections = [];
  for (const group of ["link", "radio", "flow"]) {
    const names = Object.keys(scenario[group] || {});
    const form = schema.properties[group].additionalProperties;
    names.forEach((name, index) => {
      const table = get(scenario, [group, name]);
      const ends = table.between || (table.from ? [table.from, table.to] : [...(table.stations || []), table.base]);
      sections.push(html`<details class="section" key="${group}.${name}" open=${index === names.length - 1 || group === "flow" && index === 0}>
        <summary><h2>${group} <em>${name}</em></h2> <span class="soft">${ends.join(group === "flow" ? " → " : " – ")}</span></summary>
        <${Fields} form=${form} table=${table} path=${[group, name]} onChange=${onChange} errors=${errors}
          skip=${FIXED} first=${FIRST[group]} owned=${owned} />
      </details>`);
    });
  }
  return html`<div class="form">${sections}</div>`;
};
