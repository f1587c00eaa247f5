// Browse: what campaigns hold. Axes, groups and facets are chosen here, statistics are the server's.

import { html, Component } from "./view.js";
import { ask } from "./api.js";
import { axis, colour, DASHES, marker, MARKERS, Plot, Swatch } from "./charts.js";
import { digits, metricLabel, metricUnit, unitFor } from "./quantity.js";

const words = (value) => (value && typeof value === "object" ? Object.entries(value).map(([k, v]) => (k === "kind" ? v : `${k} ${words(v)}`)).join(", ") : String(value));

export class Browse extends Component {
  constructor(props) {
    super(props);
    this.state = { campaigns: null, about: null, figure: null, point: null, error: null };
  }

  componentDidMount() {
    this.list();
  }

  componentDidUpdate() {
    this.load();
  }

  get chosen() {
    return this.props.state.browse || {};
  }

  choose(what) {
    const { state, set } = this.props;
    set({ ...state, browse: { ...this.chosen, ...what } });
  }

  async list() {
    try {
      const { campaigns } = await ask("campaigns");
      this.setState({ campaigns });
      const usable = campaigns.filter((one) => one.runs.length);
      if (!usable.some((one) => one.folder === this.chosen.folder) && usable.length) {
        this.choose({ folder: usable[0].folder, run: null });
      }
      this.load();
    } catch (error) {
      this.setState({ error });
    }
  }

  async load() {
    const { folder, run = null, kind = "line", x = null, y = null, by = null, facet = null, where = {} } = this.chosen;
    if (!this.state.campaigns || !folder) return;
    try {
      if (this.loaded !== `${folder}:${run}`) {
        this.loaded = `${folder}:${run}`;
        this.drawn = null;
        const about = await ask("campaign", { folder, run });
        this.setState({ about, figure: null, point: null, error: null });
        return;
      }
      const { about } = this.state;
      if (!about) return;
      const asked = { folder, run, kind, ...this.axes(about), facet, where };
      const text = JSON.stringify(asked);
      if (text === this.drawn) return;
      this.drawn = text;
      const figure = await ask("curves", asked);
      if (this.drawn === text) this.setState({ figure, error: null, point: null });
    } catch (error) {
      this.setState({ error, figure: null });
    }
  }

  /** Axes: as selected, by default the first key with several numbers, grouped by the others. */
  axes(about) {
    const { x, y, by, facet, where = {}, kind = "line" } = this.chosen;
    const varied = about.keys.filter((one) => one.values.length > 1 && !(one.key in where));
    const metric = about.metrics.includes(y) ? y : about.metrics.find((one) => one.endsWith("goodput_bps")) || about.metrics[0];
    const isNumber = (one) => one.values.every((value) => /^[\d.]/.test(String(value)));
    const free = varied.filter((one) => one.key !== facet);
    const across = kind === "cdf" ? null : (free.find((one) => one.key === x) || free.find(isNumber) || free[0] || {}).key || null;
    const groups = (by || varied.map((one) => one.key)).filter((key) => key !== across && key !== facet && !(key in where));
    return { x: across, y: metric, by: groups };
  }

  async pick(curve, place, panel) {
    const { folder, run = null } = this.chosen;
    try {
      const point = await ask("point", { folder, run, point: curve.points[place], metric: curve.metric });
      this.setState({ point: { ...point, panel }, error: null });
    } catch (error) {
      this.setState({ error });
    }
  }

  trace(replication) {
    const { state, set } = this.props;
    const { point } = this.state;
    set({ ...state, view: "inside", scenario: point.scenario, seed: point.seed, edit: -1, preset: "",
      alternatives: [{ label: "the point", changes: {} }], inside: { alternative: 0, replication } });
  }

  render(_, { campaigns, about, figure, point, error }) {
    if (!campaigns) return html`<p class="wait">Searching for campaigns …</p>`;
    const usable = campaigns.filter((one) => one.runs.length);
    const { folder, run, kind = "line", facet, where = {} } = this.chosen;
    const option = (value, name, on) => html`<option value=${value} selected=${on}>${name}</option>`;
    if (!usable.length) {
      return html`<div class="panel"><h2>No campaign here</h2><p>A campaign is a folder of results: <code>lasthop run FILE --store results/name</code> makes one, <code>lasthop reproduce STUDY --store DIR</code> one of a published study. Start <code>lasthop explore</code> where they are.</p></div>`;
    }
    const axes = about ? this.axes(about) : {};
    const varied = about ? about.keys.filter((one) => one.values.length > 1) : [];
    return html`<div class="browse">
      <p class="row controls-row">
        <label>campaign <select onChange=${(event) => { const [f, r] = event.target.value.split("|"); this.choose({ folder: f, run: Number(r), x: null, y: null, by: null, facet: null, where: {} }); }}>
          ${usable.flatMap((one) => one.runs.map((own, index) => option(`${one.folder}|${own.id}`, `${one.folder}: ${own.name} (${own.points} points, ${own.replications} replications, ${own.state})`, one.folder === folder && (run ? own.id === run : index === one.runs.length - 1))))}</select></label>
        ${about && html`
        <label>show <select onChange=${(event) => this.choose({ kind: event.target.value })}>${[["line", "lines"], ["bar", "bars"], ["cdf", "distributions"]].map(([key, name]) => option(key, name, key === kind))}</select></label>
        <label>metric <select onChange=${(event) => this.choose({ y: event.target.value })}>${about.metrics.map((one) => option(one, one, one === axes.y))}</select></label>
        ${kind !== "cdf" && varied.length > 0 && html`<label>over <select onChange=${(event) => this.choose({ x: event.target.value })}>${varied.map((one) => option(one.key, one.label, one.key === axes.x))}</select></label>`}
        <label>panels by <select onChange=${(event) => this.choose({ facet: event.target.value || null })}>${option("", "none", !facet)}${varied.map((one) => option(one.key, one.label, one.key === facet))}</select></label>`}
      </p>
      ${about && varied.length > 0 && html`<p class="row controls-row">${varied.map((one) => html`<label key=${one.key}>only ${one.label} <select onChange=${(event) => {
        const next = { ...where };
        if (event.target.value === "") delete next[one.key];
        else next[one.key] = words(one.values[Number(event.target.value)]);
        this.choose({ where: next });
      }}>${option("", "all", !(one.key in where))}${one.values.map((value, index) => option(index, words(value), where[one.key] === words(value)))}</select></label>`)}</p>`}
      ${about && kind !== "cdf" && varied.length > 1 && html`<p class="row controls-row" role="group" aria-label="curves by">curves by ${varied.filter((one) => one.key !== axes.x && one.key !== facet && !(one.key in where)).map((one) => html`<label key=${one.key}>
        <input type="checkbox" checked=${axes.by.includes(one.key)} onChange=${(event) => this.choose({ by: event.target.checked ? [...axes.by, one.key] : axes.by.filter((key) => key !== one.key) })} /> ${one.label}</label>`)}</p>`}
      ${error && html`<p class="error banner" role="alert">${error.message}</p>`}
      ${about && html`<p class="soft">${about.points} points, ${about.replications[0] === about.replications[1] ? about.replications[0] : about.replications.join(" to ")} replications each, seed ${about.seed}, lasthop ${about.engine}${about.complete ? "" : ", not complete"}</p>`}
      ${figure && html`<div class="facets ${figure.panels.length > 1 ? "many" : ""}">${figure.panels.map((panel, index) => html`<${Panel} key=${panel.title} kind=${figure.kind} panel=${panel} metric=${axes.y} onPick=${(curve, place) => this.pick(curve, place, index)} />`)}</div>`}
      ${point && html`<${Point} point=${point} onTrace=${(replication) => this.trace(replication)} />`}
      ${about && about.study && html`<${Claims} study=${about.study} />`}
    </div>`;
  }
}

const Panel = ({ kind, panel, metric, onPick }) => {
  const { curves, x } = panel;
  if (kind === "cdf") return html`<${Cdf} ...${{ panel, metric }} />`;
  const unit = unitFor(curves.flatMap((one) => one.mean), metricUnit(metric));
  const isWords = x.words !== null || kind === "bar";
  const names = x.words || x.positions.map((value) => axisText(value, x));
  const scaleX = x.words ? { per: 1, name: "" } : unitFor(x.positions, x.kind);
  return html`<figure class="panel-plot">
    ${panel.title && html`<figcaption><b>${panel.title}</b></figcaption>`}
    <${Means} ...${{ panel, kind, unit, isWords, names, scaleX, metric, onPick }} />
    <figcaption class="legend">${curves.map((one, index) => html`<span><${Swatch} index=${index} />${one.label || metricLabel(metric)}</span>`)}</figcaption>
    <details><summary>as a table</summary><div class="wide" tabindex="0" role="region" aria-label="numbers"><table><thead><tr><th scope="col">${x.label}</th>${curves.map((one) => html`<th scope="col">${one.label || metricLabel(metric)}</th>`)}</tr></thead>
      <tbody>${names.map((name, place) => html`<tr><th scope="row">${name}</th>${curves.map((one) => {
        const at = one.places.indexOf(place);
        if (at < 0) return html`<td>–</td>`;
        const half = one.high[at] === null ? null : (one.high[at] - one.low[at]) / 2 / unit.per;
        return html`<td><button type="button" class="plain" onClick=${() => onPick(one, at)}>${digits(one.mean[at] / unit.per, half)}${half > 0 ? ` ± ${digits(half, half)}` : ""}</button></td>`;
      })}</tr>`)}</tbody></table></div></details>
  </figure>`;
};

const axisText = (value, x) => {
  const { per, name } = unitFor([value], x.kind);
  return `${Number((value / per).toPrecision(4))}${name ? ` ${name}` : ""}`;
};

const H = 300;
const [L, R, T, B] = [62, 12, 10, 46];

/** Means with intervals as lines or bars; every point is a button. */
const Means = ({ panel, kind, unit, isWords, names, scaleX, metric, onPick }) => {
  const { curves, x } = panel;
  // On a narrow screen the figure is drawn narrower, so that its text is not scaled down.
  const W = Math.min(Math.max(innerWidth - 30, 300), 640);
  const all = curves.flatMap((one) => [...one.mean, ...one.high].filter((value) => value !== null)).map((value) => value / unit.per);
  const lows = curves.flatMap((one) => one.low.filter((value) => value !== null)).map((value) => value / unit.per);
  // Without a negative mean, the axis does not extend below 0, even if an interval does.
  const isPositive = curves.every((one) => one.mean.every((value) => value === null || value >= 0));
  const ticksY = ticks(isPositive ? 0 : Math.min(0, ...lows), Math.max(...all, 1e-12), 5);
  const [y0, y1] = [Math.min(0, ticksY[0]), Math.max(ticksY[ticksY.length - 1], ...all)];
  const y = (value) => H - B - ((Math.max(value / unit.per, y0) - y0) / (y1 - y0 || 1)) * (H - T - B);
  const places = isWords ? names.map((_, index) => index) : x.positions.map((value) => value / scaleX.per);
  const [low, high] = isWords ? [-0.5, names.length - 0.5] : [Math.min(...places), Math.max(...places)];
  const pad = isWords ? 0 : (high - low) * 0.04 || 0.5;
  const px = (value) => L + ((value - low + pad) / (high - low + 2 * pad)) * (W - L - R);
  const width = ((px(1) - px(0)) * 0.8) / Math.max(curves.length, 1);
  const ticksX = isWords ? places : ticks(low, high, W < 480 ? 4 : 6).filter((one) => one >= low - pad && one <= high + pad);
  return html`<svg class="means" viewBox="0 0 ${W} ${H}" role="group" aria-label="${metricLabel(metric)} over ${x.label}">
    ${ticksY.map((one) => html`<g class="tick"><line x1=${L} x2=${W - R} y1=${y(one * unit.per)} y2=${y(one * unit.per)} /><text x=${L - 6} y=${y(one * unit.per) + 4} text-anchor="end">${Number(one.toPrecision(6))}</text></g>`)}
    ${ticksX.map((one, index) => html`<text class="tick" x=${px(one)} y=${H - B + 16} text-anchor="middle">${isWords ? short(names[index]) : Number(one.toPrecision(6))}</text>`)}
    <text class="label" x=${(L + W - R) / 2} y=${H - 6} text-anchor="middle">${x.label}${scaleX.name && !isWords ? ` (${scaleX.name})` : ""}</text>
    <text class="label" transform="translate(14,${(T + H - B) / 2}) rotate(-90)" text-anchor="middle">${metricLabel(metric)}${unit.name ? ` (${unit.name})` : ""}</text>
    ${curves.map((one, index) => {
      const shift = kind === "bar" ? (index - (curves.length - 1) / 2) * width : 0;
      const at = one.places.map((place) => px(places[place]) + shift);
      const path = one.mean.map((mean, place) => `${place ? "L" : "M"}${at[place]},${y(mean)}`).join("");
      return html`<g key=${one.label}>
        ${kind === "line" && html`<path d=${path} fill="none" stroke=${colour(index)} stroke-width="2" stroke-dasharray=${DASHES[index % 6].join(" ")} />`}
        ${one.mean.map((mean, place) => html`<g role="button" tabindex="0" class="point"
          aria-label="${one.label} at ${names[one.places[place]]}: ${digits(mean / unit.per)} ${unit.name}"
          onClick=${() => onPick(one, place)} onKeyDown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onPick(one, place); } }}>
          ${kind === "bar" && html`<rect x=${at[place] - width / 2 + 1} y=${Math.min(y(mean), y(0))} width=${Math.max(width - 2, 1)} height=${Math.abs(y(0) - y(mean))} fill=${colour(index)} />`}
          ${one.low[place] !== null && html`<path class="${kind === "bar" ? "ink" : ""}" d="M${at[place] - 4},${y(one.low[place])}h8m-4,0V${y(one.high[place])}m-4,0h8" stroke=${kind === "bar" ? null : colour(index)} fill="none" stroke-width="1.5" />`}
          ${kind === "line" && html`<path d=${marker(MARKERS[index % 6], at[place], y(mean))} fill=${index % 6 === 5 ? "none" : colour(index)} stroke=${colour(index)} stroke-width="2" />`}
          <rect class="target" x=${at[place] - 12} y=${T} width="24" height=${H - T - B} opacity="0" />
        </g>`)}</g>`;
    })}
  </svg>`;
};

const short = (text) => (String(text).length > 18 ? `${String(text).slice(0, 17)}…` : text);

/** Round numbers from one to another. */
function ticks(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  const found = [];
  for (let at = Math.floor(low / step) * step; at <= high + step * 0.001; at += step) found.push(Number(at.toPrecision(12)));
  if (found[found.length - 1] < high) found.push(Number((found[found.length - 1] + step).toPrecision(12)));
  return found;
}

const Cdf = ({ panel, metric }) => {
  const curves = panel.curves.map((one) => ({ label: one.label, values: one.samples.flat().filter((value) => value !== null).sort((a, b) => a - b) }));
  const unit = unitFor(curves.flatMap((one) => one.values.slice(-1)), metricUnit(metric));
  const tables = curves.map((one) => [one.values.map((value, index) => value / unit.per + index * 1e-9), one.values.map((_, index) => (100 * (index + 1)) / one.values.length)]);
  const options = () => ({
    scales: { x: { time: false }, y: { range: [0, 100] } }, legend: { show: false },
    axes: [axis({ label: `${metricLabel(metric)}${unit.name ? ` (${unit.name})` : ""}` }), axis({ label: "Fraction of replications (%)", size: 46 })],
    series: [{}, ...curves.map((one, index) => ({ label: one.label, stroke: colour(index), width: 2, dash: DASHES[index % 6], spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }))],
  });
  return html`<figure class="panel-plot">${panel.title && html`<figcaption><b>${panel.title}</b></figcaption>`}
    <${Plot} options=${options} data=${uPlot.join(tables)} height=${280} shape=${`${panel.title}${metric}${curves.map((one) => one.label).join()}`} label="Distribution of ${metric} over replications" />
    <figcaption class="legend">${curves.map((one, index) => html`<span><${Swatch} index=${index} />${one.label || metricLabel(metric)}</span>`)}</figcaption></figure>`;
};

class Point extends Component {
  componentDidMount() {
    this.heading.focus();
  }

  render({ point, onTrace }) {
    return html`<section class="panel" aria-label="The point">
      <h2 tabindex="-1" ref=${(place) => { this.heading = place; }}>${Object.entries(point.parameters).map(([key, value]) => `${key} = ${words(value)}`).join(", ") || "as in the scenario"}</h2>
      <p class="soft">${point.metric}, ${point.replications.length} replications, seed ${point.seed}, scenario ${point.hash}</p>
      <div class="wide" tabindex="0" role="region" aria-label="Replications"><table><thead><tr><th scope="col">replication</th><th scope="col">${metricLabel(point.metric)}</th><th scope="col">trace</th></tr></thead>
        <tbody>${point.replications.slice(0, 200).map((number, index) => html`<tr key=${number}><th scope="row">${number}</th><td>${digits(point.values[index])}</td>
          <td>${point.scenario ? html`<button type="button" class="small" aria-label="trace replication ${number}" onClick=${() => onTrace(number)}>trace</button>` : ""}</td></tr>`)}</tbody></table></div>
    </section>`;
  }
}

const Claims = ({ study }) => html`<section aria-label="Claims"><h2>${study.title}</h2><p>${study.about}</p>
  ${study.claims.map((one) => html`<details class="claim" key=${one.id}><summary><b>${one.id}</b> <span class="verdict ${one.verdict.replace(" ", "-")}">${one.verdict}</span> ${one.text}${one.condition ? ` – ${one.condition}` : ""}</summary>
    <p class="soft">${one.where}</p><p>${one.evidence}</p>
    <div class="wide" tabindex="0" role="region" aria-label="Comparisons of ${one.id}"><table><thead><tr><th scope="col">holds</th><th scope="col">comparison</th><th scope="col">where</th><th scope="col">left</th><th scope="col">right</th></tr></thead>
      <tbody>${one.comparisons.map((own) => html`<tr><td>${own.holds === null ? "open" : own.holds ? "yes" : "no"}</td><td>${own.what}</td><td>${own.cell}</td><td>${digits(own.left)}</td><td>${digits(own.right)}</td></tr>`)}</tbody></table></div></details>`)}
</section>`;
