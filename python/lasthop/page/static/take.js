// Take away: the scenario as text, figures as files, the state as an address.

import { html, Component } from "./view.js";
import { ask, askBlob } from "./api.js";
import { chosenMetrics } from "./play.js";
import { encode, question } from "./state.js";

const FORMS = [["toml", "TOML"], ["python", "Python"], ["command", "Command line"], ["address", "Address"]];
const REPLICATIONS = 30;

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export class Take extends Component {
  constructor(props) {
    super(props);
    this.state = { form: "toml", texts: null, error: null, note: "", kind: "line", format: "svg" };
  }

  componentDidMount() {
    this.load();
    this.heading.focus();
  }

  componentDidUpdate(before) {
    if (before.state !== this.props.state) this.load();
  }

  async load() {
    try {
      const { presets, schema, ...kept } = this.props.state;
      const [found, packed] = await Promise.all([
        ask("take", { ...question(this.props.state), replications: REPLICATIONS }),
        encode(kept),
      ]);
      const address = `${location.origin}${location.pathname}#${packed}`;
      this.setState({ texts: { ...found, address }, error: null });
    } catch (error) {
      this.setState({ error: error.message });
    }
  }

  async picture() {
    const { state, player } = this.props;
    const { kind, format } = this.state;
    const metrics = player.answer ? chosenMetrics(state, player.answer) : [];
    const look = state.inside || {};
    const figure = { kind, format, metric: this.state.metric || metrics[0], size: "column" };
    if (!["line", "cdf"].includes(kind)) {
      Object.assign(figure, { size: "full", link: look.link, start: look.from, end: look.to });
    }
    this.setState({ note: "Drawing …" });
    try {
      const body = { ...question(state), replications: REPLICATIONS, figure, alternative: look.alternative || 0, replication: look.replication || 0 };
      save(await askBlob("figure", body), `lasthop-${kind}.${format}`);
      this.setState({ note: `lasthop-${kind}.${format} is saved.` });
    } catch (error) {
      this.setState({ note: error.message });
    }
  }

  render({ state, player, onClose }, { form, texts, error, note, kind, format, metric }) {
    const text = texts ? texts[form] : "";
    const metrics = player.answer ? chosenMetrics(state, player.answer) : [];
    const copy = async () => {
      await navigator.clipboard.writeText(text);
      this.setState({ note: "Copied." });
    };
    const option = (value, name, chosen) => html`<option value=${value} selected=${value === chosen}>${name}</option>`;
    return html`<section id="take" class="panel" aria-labelledby="take-title">
      <button type="button" class="close" aria-label="close" onClick=${onClose}>×</button>
      <h2 id="take-title" tabindex="-1" ref=${(place) => { this.heading = place; }}>Export</h2>
      <div class="chips" role="group" aria-label="as">${FORMS.map(([key, name]) => html`<button type="button" class="chip ${form === key ? "on" : ""}" aria-pressed=${form === key} onClick=${() => this.setState({ form: key, note: "" })}>${name}</button>`)}</div>
      ${error ? html`<p class="error" role="alert">${error}</p>` : html`<pre tabindex="0" role="region" aria-label="The scenario as ${form}"><code>${text}</code></pre>`}
      <p>
        <button type="button" onClick=${copy} disabled=${!text}>Copy</button>
        ${form === "toml" && html` <button type="button" disabled=${!text} onClick=${() => save(new Blob([text]), "scenario.toml")}>Save as scenario.toml</button>`}
        ${form === "python" && html` <button type="button" disabled=${!text} onClick=${() => save(new Blob([text]), "scenario.py")}>Save as scenario.py</button>`}
        ${form === "address" && html` <span class="soft">The address has no token; <code>lasthop explore 'ADDRESS'</code> opens it on another machine.</span>`}
      </p>
      <h3>Figure for print</h3>
      <p class="row">
        <label>of <select onChange=${(event) => this.setState({ kind: event.target.value })}>
          ${option("line", "means", kind)}${option("cdf", "distribution over replications", kind)}${option("series", "windows and queues", kind)}${option("sequence", "sequence numbers", kind)}${option("ladder", "frames of a link", kind)}</select></label>
        ${["line", "cdf"].includes(kind) && html`<label>metric <select onChange=${(event) => this.setState({ metric: event.target.value })}>
          ${metrics.map((one) => option(one, one, metric || metrics[0]))}</select></label>`}
        <label>as <select onChange=${(event) => this.setState({ format: event.target.value })}>
          ${["svg", "pdf", "png"].map((one) => option(one, one.toUpperCase(), format))}</select></label>
        <button type="button" onClick=${() => this.picture()}>Save figure</button>
      </p>
      <p class="soft" role="status">${note}</p>
    </section>`;
  }
}
