// Look inside: one replication of one alternative, all diagrams on one time axis.

import { html, Component } from "./view.js";
import { columns } from "./api.js";
import { colour, Plot } from "./charts.js";
import { lower, panels } from "./diagram.js";
import { question } from "./state.js";

const SPEEDS = [[0.01, "1/100"], [0.1, "1/10"], [1, "1"], [10, "10"]];
const NEAR = 7;

export class Inside extends Component {
  constructor(props) {
    super(props);
    this.state = { look: null, error: null, isPlaying: false, speed: 0.1 };
    this.window = { from: 0, to: 1, at: null };
    this.plots = new Map();
    this.frame = this.frame.bind(this);
    this.onKey = this.onKey.bind(this);
  }

  wanted() {
    const { state } = this.props;
    const own = state.inside || {};
    return {
      ...question(state),
      alternative: Math.min(own.alternative || 0, state.alternatives.length - 1),
      replication: own.replication || 0,
    };
  }

  componentDidMount() {
    window.lasthop.inside = this;
    this.load();
  }

  componentDidUpdate() {
    this.load();
  }

  componentWillUnmount() {
    this.isGone = true;
    cancelAnimationFrame(this.next);
    cancelAnimationFrame(this.drawing);
    if (this.stop) this.stop.abort();
  }

  async load() {
    const wanted = this.wanted();
    const text = JSON.stringify(wanted);
    if (text === this.asked) return;
    const isFirst = this.asked === undefined;
    this.asked = text;
    if (this.stop) this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    try {
      const look = await columns("inside", wanted, signal);
      if (signal.aborted || this.isGone) return;
      const own = this.props.state.inside || {};
      const links = [...new Set(look.links.map((one) => one.link))];
      const link = links.includes(own.link) ? own.link : links[links.length - 1];
      const end = look.end_s || 1;
      const kept = isFirst && own.to > own.from && own.from < end;
      const [from, to] = kept ? [own.from, own.to] : this.opening(look, end);
      Object.assign(this.window, { from, to, at: kept ? own.at ?? null : null });
      this.setState({ look, link, links, panels: panels(look, link), error: null });
    } catch (error) {
      if (!signal.aborted) this.setState({ error, look: null });
    }
  }

  /** The first loss and its repair, where there is one. */
  opening(look, end) {
    if (look.transfers.length) {
      const start = look.columns["phase.start.0"];
      if (start.length) {
        const length = Math.max(look.columns["phase.end.0"][0] - start[0], end / 200);
        return [Math.max(start[0] - length, 0), Math.min(start[0] + 2.5 * length, end)];
      }
    }
    return [0, end];
  }

  /** Shows another part of the time; nothing but the canvases is drawn. */
  show(from, to, at = this.window.at) {
    const end = this.state.look.end_s || 1;
    const length = Math.min(Math.max(to - from, end * 1e-6), end);
    const start = Math.min(Math.max(from, 0), end - length);
    Object.assign(this.window, { from: start, to: start + length, at });
    cancelAnimationFrame(this.drawing);
    this.drawing = requestAnimationFrame(() => this.draw());
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => !this.isGone && this.keep(), 300);
  }

  draw() {
    const { from, to } = this.window;
    for (const plot of this.plots.values()) plot.setScale("x", { min: from, max: to });
  }

  /** Stores the visible period in the address and lists the events around the cursor. */
  keep() {
    const { state, set } = this.props;
    const { from, to, at } = this.window;
    set({ ...state, inside: { ...state.inside, from, to, at, link: this.state.link } });
  }

  zoom(factor, around = (this.window.from + this.window.to) / 2) {
    const { from, to } = this.window;
    this.show(around - (around - from) * factor, around + (to - around) * factor);
  }

  pan(part) {
    const { from, to } = this.window;
    this.show(from + (to - from) * part, to + (to - from) * part);
  }

  /** To the next event (or the one before) after the cursor. */
  step(direction) {
    const times = this.state.look.columns["event.time"];
    const now = this.window.at ?? this.window.from;
    let index = lower(times, now);
    if (direction > 0) while (index < times.length && times[index] <= now) index += 1;
    else index -= 1;
    if (index < 0 || index >= times.length) return;
    this.moveTo(times[index]);
    this.keep();
  }

  moveTo(at) {
    let { from, to } = this.window;
    const length = to - from;
    if (at < from || at > to) [from, to] = [at - length / 2, at + length / 2];
    else if (at > from + length * 0.8) [from, to] = [at - length * 0.8, at + length * 0.2];
    this.show(from, to, at);
  }

  play() {
    const isPlaying = !this.state.isPlaying;
    this.setState({ isPlaying });
    this.before = null;
    cancelAnimationFrame(this.next);
    if (isPlaying) {
      if (this.window.at === null) this.window.at = this.window.from;
      this.next = requestAnimationFrame(this.frame);
    } else this.keep();
  }

  frame(now) {
    const passed = this.before === null ? 0 : (now - this.before) / 1000;
    this.before = now;
    const at = this.window.at + passed * this.state.speed;
    if (at >= this.state.look.end_s) {
      this.setState({ isPlaying: false });
      return;
    }
    this.moveTo(at);
    this.next = requestAnimationFrame(this.frame);
  }

  onKey(event) {
    if (event.target.closest("input, select, textarea")) return;
    const actions = {
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Home: () => this.show(0, this.window.to - this.window.from), 0: () => this.show(0, this.state.look.end_s),
      ".": () => this.step(1), ",": () => this.step(-1), p: () => this.play(),
    };
    const act = actions[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  /** Wires a plot: dragging zooms, the wheel zooms around the pointer, a click sets the cursor. */
  wire(key, plot, old) {
    if (!plot) {
      if (this.plots.get(key) === old) this.plots.delete(key);
      return;
    }
    this.plots.set(key, plot);
    plot.hooks.setSelect = [(own) => {
      if (own.select.width < 5) return;
      const [from, to] = [own.posToVal(own.select.left, "x"), own.posToVal(own.select.left + own.select.width, "x")];
      own.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      this.show(from, to);
    }];
    plot.over.addEventListener("click", (event) => {
      this.window.at = plot.posToVal(event.offsetX, "x");
      this.show(this.window.from, this.window.to);
    });
    plot.over.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, plot.posToVal(event.offsetX, "x"));
    }, { passive: false });
  }

  render({ state, set }, { look, error, isPlaying, speed, panels: all, links, link }) {
    const own = state.inside || {};
    const change = (what) => set({ ...state, inside: { ...own, ...what } });
    return html`<div class="inside" onKeyDown=${this.onKey}>
      <p class="row controls-row">
        <label>alternative <select onChange=${(event) => change({ alternative: Number(event.target.value) })}>
          ${state.alternatives.map((one, index) => html`<option value=${index} selected=${index === (own.alternative || 0)}>${one.label}</option>`)}</select></label>
        <label>replication <input type="number" min="0" max="1000000" value=${own.replication || 0} onChange=${(event) => change({ replication: Math.max(0, Math.floor(Number(event.target.value) || 0)) })} /></label>
        ${links && links.length > 1 && html`<label>link <select onChange=${(event) => { this.setState({ link: event.target.value, panels: panels(look, event.target.value) }); }}>
          ${links.map((one) => html`<option value=${one} selected=${one === link}>${one}</option>`)}</select></label>`}
      </p>
      ${error && html`<p class="error banner" role="alert">${error.message}</p>`}
      ${!look && !error && html`<p class="wait">Recording …</p>`}
      ${look && html`
        <p class="row controls-row" role="group" aria-label="Time">
          <button type="button" onClick=${() => this.play()} aria-pressed=${isPlaying}>${isPlaying ? "Pause" : "Play"}</button>
          <label>at <select onChange=${(event) => this.setState({ speed: Number(event.target.value) })}>
            ${SPEEDS.map(([value, name]) => html`<option value=${value} selected=${value === speed}>${name}</option>`)}</select> of real time</label>
          <button type="button" onClick=${() => this.step(-1)} aria-label="one event back">◂ event</button>
          <button type="button" onClick=${() => this.step(1)} aria-label="next event">event ▸</button>
          <button type="button" onClick=${() => this.zoom(0.5)} aria-label="zoom in">+</button>
          <button type="button" onClick=${() => this.zoom(2)} aria-label="zoom out">−</button>
          <button type="button" onClick=${() => this.pan(-0.5)} aria-label="earlier">←</button>
          <button type="button" onClick=${() => this.pan(0.5)} aria-label="later">→</button>
          <button type="button" onClick=${() => this.show(0, look.end_s)}>show all</button>
        </p>
        <${Summary} look=${look} />
        <p class="soft hint">To zoom, drag over a diagram, use Ctrl and the mouse wheel, or the keys + − ← → , . and p. All diagrams show the same period.</p>
        ${all.map((panel) => html`<figure key=${panel.key} class="panel-plot">
          <figcaption><b>${panel.title}</b> <span class="legend">${panel.legend.map(([tone, name]) => html`<span>${typeof tone === "number"
            ? html`<svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" fill=${colour(tone)} /></svg>`
            : html`<i class="tone ${tone}"></i>`}${name}</span>`)}</span></figcaption>
          <${Plot} shape=${`${panel.key}.${this.asked.length}.${look.end_s}`} height=${panel.height + 14} label=${panel.title}
            options=${() => panel.options(this.window)} data=${this.data(look)} onPlot=${(plot, old) => this.wire(panel.key, plot, old)} />
        </figure>`)}
        <${Events} look=${look} at=${this.window.at ?? this.window.from} onPick=${(time) => { this.moveTo(time); this.keep(); }} />`}
    </div>`;
  }

  data(look) {
    if (this.dataOf !== look) {
      this.dataOf = look;
      this.kept = [[0, look.end_s || 1], [0, 1]];
    }
    return this.kept;
  }
}

const sum = (values) => {
  let found = 0;
  for (const value of values) found += value;
  return found;
};

/** Summary of the events as text. */
const Summary = ({ look }) => html`<div class="summary">
  ${look.until_s !== null && html`<p class="banner">So many events: the diagrams end after ${look.until_s} s.</p>`}
  ${look.transfers.map((name, number) => {
    const of = (one) => look.columns[`${one}.${number}`];
    const counts = [
      [of("sent.time").length, "segments sent"], [sum(of("sent.repeated")), "retransmitted"], [sum(of("sent.lost")), "lost"],
      [sum(of("ack.duplicate")), "duplicate ACKs"], [of("sack.time").length, "SACK blocks"],
      [of("phase.kind").filter((kind) => kind === 0).length, "fast recoveries"], [of("timeout.time").length, "timeouts"],
    ];
    return html`<p><b>${name}</b>: ${counts.map(([count, what]) => `${what}: ${count}`).join(", ")}; until ${look.end_s.toPrecision(4)} s</p>`;
  })}
</div>`;

/** The events around the cursor: what the diagrams show, for reading. */
const Events = ({ look, at, onPick }) => {
  const { columns: own } = look;
  const times = own["event.time"];
  const middle = lower(times, at);
  const first = Math.max(middle - NEAR, 0);
  const rows = [];
  for (let index = first; index < Math.min(middle + NEAR + 1, times.length); index += 1) rows.push(index);
  const rounded = (value) => (Number.isInteger(value) ? value : Number(value.toPrecision(6)));
  const shown = (value, unit) => (Number.isFinite(value) ? `${rounded(value)} ${unit}`.trim() : "");
  return html`<section aria-label="Events"><h2>Events around ${at.toFixed(6)} s</h2>
    <div class="wide" tabindex="0" role="region" aria-label="Events around the cursor"><table class="events"><thead><tr><th scope="col">time (s)</th><th scope="col">source</th><th scope="col">event</th><th scope="col">sequence</th><th scope="col">value</th></tr></thead>
    <tbody>${rows.map((index) => html`<tr key=${index} class=${index === middle ? "on" : ""}>
      <td><button type="button" class="plain" onClick=${() => onPick(times[index])}>${times[index].toFixed(6)}</button></td>
      <td>${look.entities[own["event.entity"][index]]}</td><td>${look.events[own["event.what"][index]].replaceAll("_", " ")}</td>
      ${["sequence", "value"].map((column, place) => html`<td>${shown(own[`event.${column}`][index], look.units[own["event.what"][index]][place])}</td>`)}</tr>`)}</tbody></table></div></section>`;
};
