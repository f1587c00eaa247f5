// The page of a live run: one value per second and direction. The state is fetched every second; its
// counters are cumulative, and the page computes differences.

import { html, render } from "../view.js";
import { ask, findToken } from "../api.js";
import { Plot, axis, colour } from "../charts.js";

const PERIOD = 1000;

/** Panels of a link: title and function that computes the value of a second from two states. */
const PANELS = [
  ["Goodput (Mbps)", (now, before, seconds) => ((now.delivered_bytes - before.delivered_bytes) * 8) / seconds / 1e6],
  ["Queue (packets)", (now) => now.queue],
  ["One-way delay, 95 % (ms)", (now) => (now.delay ? now.delay.p95_s * 1e3 : null)],
  ["Time in the queue, 95 % (ms)", (now) => (now.queueing ? now.queueing.p95_s * 1e3 : null)],
  ["Frame loss (%)", (now, before) => (now.frames > before.frames ? (100 * (now.lost - before.lost)) / (now.frames - before.frames) : 0)],
  ["Retransmissions (1/s)", (now, before, seconds) => (now.retransmissions - before.retransmissions) / seconds],
];

const NOTHING = { delivered_bytes: 0, frames: 0, lost: 0, retransmissions: 0 };

/** Returns the columns of a panel: times, then values of each direction. */
function columns(ticks, link, value) {
  const times = [];
  const ways = [[], []];
  let before = null;
  for (const tick of ticks) {
    times.push(tick.time);
    const own = tick.links.filter((one) => one.link === link);
    const old = before ? before.links.filter((one) => one.link === link) : [NOTHING, NOTHING];
    const seconds = tick.time - (before ? before.time : 0);
    own.forEach((one, index) => ways[index].push(value(one, old[index], seconds)));
    before = tick;
  }
  return [times, ...ways];
}

const options = (title) => () => ({
  cursor: { y: false },
  legend: { show: true },
  scales: { x: { time: false }, y: { range: (_plot, _low, high) => [0, Math.max(high * 1.05, 1)] } },
  axes: [axis({ label: "Time (s)" }), axis({ label: title, size: 60 })],
  series: [
    { label: "s", value: (_plot, at) => (at === null ? "–" : at.toFixed(1)) },
    ...["forward", "reverse"].map((label, index) => ({
      label,
      stroke: colour(index),
      width: 2,
      dash: index ? [8, 4] : [],
      points: { show: false },
      value: (_plot, found) => (found === null ? "–" : found.toFixed(2)),
    })),
  ],
});

const Link = ({ name, between, ticks }) => html`<section>
  <h3>${name} <span class="soft">${between[0]} – ${between[1]}; forward: to ${between[1]}</span></h3>
  <div class="live-panels">
    ${PANELS.map(([title, value]) => html`<${Plot} options=${options(title)} data=${columns(ticks, name, value)} height=${220} shape=${name + title} label="${title} of ${name} over time" />`)}
  </div>
</section>`;

function draw(state, trouble) {
  const end = state.end;
  const codes = end ? end.programs.map((one) => `${one.host}: ${one.argv} – ${one.code ?? "killed"}`).join("; ") : "";
  const words = trouble || (end ? `ended after ${end.time.toFixed(1)} s; exit codes: ${codes}` : "running");
  render(
    html`<header><h1>${state.name}</h1><span class="soft" role="status">${words}</span></header>
      <main>${state.links.map((link) => html`<${Link} key=${link.name} ...${link} ticks=${state.ticks} />`)}</main>`,
    document.getElementById("app"),
  );
}

let known = null;

async function follow() {
  try {
    // Only fetch new seconds.
    const since = known ? known.ticks.length : 0;
    const more = await ask("state", { since });
    if (known && more.run !== known.run) {
      known = null;
      setTimeout(follow, 0);
      return;
    }
    known = { ...more, ticks: [...(known ? known.ticks : []), ...more.ticks] };
    draw(known, null);
  } catch (error) {
    if (known) draw(known, known.end ? null : "the run has ended, or its server does not respond");
    else document.getElementById("app").textContent = `${error.message}`;
    return;
  }
  // Another run may follow.
  setTimeout(follow, known.end ? 3 * PERIOD : PERIOD);
}

document.getElementById("app").replaceChildren();
await findToken();
follow();
