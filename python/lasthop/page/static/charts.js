// Charts that the views share. uPlot draws curves; intervals are SVG.

import { html, Component } from "./view.js";
import { digits, metricLabel, metricUnit, unitFor } from "./quantity.js";

/** Colours and lines of alternatives, as in lasthop.showing.figures.style; set once by the server. */
export const look = { colours: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"] };
export const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 4]];
export const MARKERS = ["circle", "square", "up", "diamond", "down", "cross"];

export const colour = (index) => look.colours[index % look.colours.length];

/** A marker as an SVG path around a point. */
export function marker(kind, x, y, r = 5) {
  switch (kind) {
    case "square":
      return `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
    case "up":
      return `M${x},${y - r * 1.2}l${r * 1.2},${r * 2.1}h${-r * 2.4}z`;
    case "down":
      return `M${x},${y + r * 1.2}l${r * 1.2},${-r * 2.1}h${-r * 2.4}z`;
    case "diamond":
      return `M${x},${y - r * 1.3}l${r * 1.3},${r * 1.3}l${-r * 1.3},${r * 1.3}l${-r * 1.3},${-r * 1.3}z`;
    case "cross":
      return `M${x - r},${y - r}l${2 * r},${2 * r}M${x + r},${y - r}l${-2 * r},${2 * r}`;
    default:
      return `M${x - r},${y}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0z`;
  }
}

export const Swatch = ({ index }) => html`<svg class="swatch" width="30" height="14" aria-hidden="true">
  <line x1="1" x2="29" y1="7" y2="7" stroke=${colour(index)} stroke-width="2" stroke-dasharray=${DASHES[index % 6].join(" ")} />
  <path d=${marker(MARKERS[index % 6], 15, 7, 4)} fill=${index % 6 === 5 ? "none" : colour(index)} stroke=${colour(index)} stroke-width="2" />
</svg>`;

const WIDTH = 320;
const ROW = 22;

/** A round number a little above a value. */
function roof(value) {
  if (!(value > 0)) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15].map((one) => one * step).find((one) => one >= value * 1.001);
}

/** One metric of all alternatives: means with their intervals, from zero on one scale. */
export const Estimates = ({ metric, labels, estimates, differences }) => {
  const found = labels.map((_, index) => (estimates[index] || {})[metric] || [null, null, 0]);
  const ends = found.map(([mean, half]) => (mean ?? 0) + (half ?? 0));
  const unit = unitFor(ends, metricUnit(metric));
  const most = roof(Math.max(...ends) / unit.per);
  const at = (value) => 4 + ((WIDTH - 8) * value) / unit.per / most;
  const height = labels.length * ROW + 18;
  const texts = labels.map((label, index) => {
    const [mean, half] = found[index];
    return mean === null ? `${label}: none` : `${label}: ${number(mean, half, unit)}`;
  });
  return html`<figure class="estimates">
    <figcaption><b>${metricLabel(metric)}</b>${unit.name ? ` (${unit.name})` : ""} <span class="soft">${metric.slice(0, metric.lastIndexOf("."))}</span></figcaption>
    <div class="pair">
      <svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${metricLabel(metric)}. ${texts.join("; ")}">
        ${[0, 0.5, 1].map((part) => html`<g class="tick">
          <line x1=${4 + (WIDTH - 8) * part} x2=${4 + (WIDTH - 8) * part} y1="0" y2=${height - 16} />
          <text x=${4 + (WIDTH - 8) * part} y=${height - 4} text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${Number((most * part).toPrecision(3))}</text></g>`)}
        ${found.map(([mean, half], index) => {
          if (mean === null) return null;
          const y = index * ROW + ROW / 2;
          const [low, high] = [at(Math.max(mean - (half ?? 0), 0)), at(mean + (half ?? 0))];
          return html`<g>
            ${half > 0 && html`<path class="bar" d="M${low},${y - 5}v10M${low},${y}H${high}M${high},${y - 5}v10" stroke=${colour(index)} />`}
            <path d=${marker(MARKERS[index % 6], at(Math.max(mean, 0)), y)} fill=${index % 6 === 5 ? "none" : colour(index)} stroke=${colour(index)} stroke-width="2" /></g>`;
        })}
      </svg>
      <table><tbody>${labels.map((label, index) => {
        const [mean, half] = found[index];
        const gap = index > 0 && differences[index - 1] ? differences[index - 1][metric] : null;
        return html`<tr><th scope="row"><${Swatch} index=${index} />${label}</th>
          <td>${mean === null ? "–" : number(mean, half, unit, false)}</td>
          <td class="gap">${gap ? difference(gap, found[0][0], unit) : ""}</td></tr>`;
      })}</tbody></table>
    </div>
  </figure>`;
};

function number(mean, half, unit, named = true) {
  const [value, width] = [mean / unit.per, half === null ? null : half / unit.per];
  const text = digits(value, width);
  return `${text}${width > 0 ? ` ± ${digits(width, width)}` : ""}${named && unit.name ? ` ${unit.name}` : ""}`;
}

/** A paired difference as text, in per cent of the first value if that is more readable. */
function difference([mean, half, p], base, unit) {
  if (mean === 0 && half === 0) return "same";
  const part = base ? 100 / Math.abs(base) : null;
  const value = part ? mean * part : mean / unit.per;
  const width = half === null ? null : part ? half * part : half / unit.per;
  const text = `${value > 0 ? "+" : "−"}${digits(Math.abs(value), width)}${width > 0 ? ` ± ${digits(width, width)}` : ""}${part ? " %" : ""}`;
  return html`<span class=${p !== null && p < 0.05 ? "sure" : "unsure"}>${text}${p !== null && p >= 0.05 ? " (open)" : ""}</span>`;
}

const tones = new Map();

/** A colour of the page's style; asked for once, as diagrams ask for it at every frame. */
export function css(name) {
  if (!tones.has(name)) {
    tones.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  }
  return tones.get(name);
}

/** Axis of uPlot in the page's colours. */
export const axis = (more = {}) => ({
  stroke: css("--ink"),
  grid: { stroke: css("--line"), width: 1 },
  ticks: { stroke: css("--line"), width: 1, size: 4 },
  font: "12px system-ui, sans-serif",
  labelFont: "12px system-ui, sans-serif",
  labelSize: 18,
  ...more,
});

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => tones.clear());

/** A uPlot with the width of its container. Recreated if `shape` changes; otherwise `data` is set. */
export class Plot extends Component {
  constructor(props) {
    super(props);
    this.hold = (place) => { if (place) this.place = place; };
  }

  componentDidMount() {
    this.make();
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.place);
    this.redraw = () => {
      this.plot.destroy();
      this.make();
    };
    dark.addEventListener("change", this.redraw);
  }

  make() {
    const { options, data, height, onPlot } = this.props;
    const width = Math.max(this.place.clientWidth, 120);
    this.plot = new uPlot({ width, height, ...options() }, data, this.place);
    if (onPlot) onPlot(this.plot);
  }

  fit() {
    const width = this.place.clientWidth;
    if (width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.props.height });
  }

  shouldComponentUpdate(next) {
    return next.shape !== this.props.shape || next.data !== this.props.data || next.height !== this.props.height;
  }

  componentDidUpdate(before) {
    if (before.shape !== this.props.shape || before.height !== this.props.height) this.redraw();
    else this.plot.setData(this.props.data);
  }

  componentWillUnmount() {
    dark.removeEventListener("change", this.redraw);
    this.observer.disconnect();
    if (this.props.onPlot) this.props.onPlot(null, this.plot);
    this.plot.destroy();
  }

  render({ label }) {
    return html`<div class="plot" role="img" aria-label=${label} ref=${this.hold}></div>`;
  }
}

/** Distributions as curves: `curves` are `{ label, values }`, sorted, evenly spaced in share. */
export const Distribution = ({ curves, unit, label, height = 220 }) => {
  const ends = curves.flatMap((one) => [one.values[one.values.length - 1]]);
  const { per, name } = unitFor(ends, unit);
  // One x for all: uPlot joins curves whose x differ.
  const tables = curves.map((one) => [
    // uPlot wants each x once: equal values are moved apart by less than a pixel.
    one.values.map((value, index) => value / per + index * 1e-9),
    one.values.map((_, index) => (100 * index) / Math.max(one.values.length - 1, 1)),
  ]);
  const data = tables.length ? uPlot.join(tables) : [[], []];
  const options = () => ({
    scales: { x: { time: false }, y: { range: [0, 100] } },
    legend: { show: false },
    cursor: { y: false },
    axes: [axis({ label: `${label} (${name})` }), axis({ label: "Share (%)", size: 46 })],
    series: [{}, ...curves.map((one) => ({
      label: one.label, stroke: colour(one.index), width: 2, dash: DASHES[one.index % 6],
      spanGaps: true, points: { show: false },
    }))],
  });
  const words = curves.map((one) => {
    const middle = one.values[Math.floor(one.values.length / 2)] / per;
    return `${one.label}: median ${digits(middle)} ${name}`;
  });
  return html`<figure><${Plot} options=${options} data=${data} height=${height}
    shape=${curves.map((one) => one.label).join() + name} label="${label}. ${words.join("; ")}" />
    <figcaption class="legend">${curves.map((one) => html`<span><${Swatch} index=${one.index} />${one.label}</span>`)}</figcaption></figure>`;
};
