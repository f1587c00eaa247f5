// Diagrams of one replication, drawn on uPlot's canvas. Columns are sorted by time, so that the visible
// part is found by bisection. Marks on the same pixel are drawn once: the cost depends on the number of
// pixels, not of events.

import { axis, colour, css, DASHES } from "./charts.js";

/** Index of the first value that is not less than `wanted`. */
export function lower(values, wanted) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** From values to pixels of the canvas, without a call for each. */
function lens(plot, scale = "y") {
  const { left, top, width, height } = plot.bbox;
  const { min, max } = plot.scales.x;
  const { min: low, max: high } = plot.scales[scale];
  const [kx, ky] = [width / (max - min), height / (high - low)];
  return { x: (time) => left + (time - min) * kx, y: (value) => top + (high - value) * ky, min, max, left, top, width, height };
}

function clipped(plot, draw) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.setLineDash([]);
  draw(ctx, devicePixelRatio || 1);
  ctx.restore();
}

/** Shades recoveries, and marks timeouts. */
function shade(plot, columns, number) {
  const at = lens(plot);
  clipped(plot, (ctx, dot) => {
    const start = columns[`phase.start.${number}`];
    const end = columns[`phase.end.${number}`];
    const kind = columns[`phase.kind.${number}`];
    for (let index = 0; index < start.length && start[index] < at.max; index += 1) {
      if (end[index] < at.min) continue;
      ctx.fillStyle = kind[index] ? css("--timeout") : css("--recovery");
      ctx.fillRect(at.x(start[index]), at.top, Math.max(at.x(end[index]) - at.x(start[index]), dot), at.height);
    }
    const times = columns[`timeout.time.${number}`];
    ctx.fillStyle = css("--bad");
    for (let index = lower(times, at.min); index < times.length && times[index] <= at.max; index += 1) {
      ctx.fillRect(at.x(times[index]) - dot / 2, at.top, 1.5 * dot, at.height);
    }
  });
}

function cursorLine(plot, at) {
  if (at === null || at < plot.scales.x.min || at > plot.scales.x.max) return;
  clipped(plot, (ctx, dot) => {
    ctx.fillStyle = css("--ink");
    ctx.fillRect(plot.valToPos(at, "x", true) - dot / 2, plot.bbox.top, dot, plot.bbox.height);
  });
}

/** Segments, acknowledgments, SACK blocks and losses of one sender. */
function drawSequence(plot, columns, number) {
  const of = (name) => columns[`${name}.${number}`];
  const at = lens(plot);
  clipped(plot, (ctx, dot) => {
    // Data held by receivers above the cumulative acknowledgment.
    const [sackTime, first, held] = [of("sack.time"), of("sack.first"), of("sack.size")];
    ctx.fillStyle = css("--sack");
    let before = "";
    for (let index = lower(sackTime, at.min); index < sackTime.length && sackTime[index] <= at.max; index += 1) {
      const [x, y] = [at.x(sackTime[index]), at.y((first[index] + held[index]) / 1000)];
      const height = Math.max(at.y(first[index] / 1000) - y, dot);
      const place = `${x | 0},${y | 0},${height | 0}`;
      if (place !== before) ctx.fillRect(x - dot, y, 2 * dot, height);
      before = place;
    }
    // The cumulative acknowledgment as a staircase; duplicates as ticks on it.
    const [ackTime, ack, duplicate] = [of("ack.time"), of("ack.sequence"), of("ack.duplicate")];
    const from = Math.max(lower(ackTime, at.min) - 1, 0);
    ctx.strokeStyle = ctx.fillStyle = css("--ack");
    ctx.lineWidth = dot;
    ctx.beginPath();
    let [lastX, lastY] = [-1, -1];
    for (let index = from; index < ackTime.length && (index === from || ackTime[index - 1] <= at.max); index += 1) {
      const [x, y] = [at.x(ackTime[index]), at.y(ack[index] / 1000)];
      if ((x | 0) === (lastX | 0) && (y | 0) === (lastY | 0)) continue;
      if (lastX < 0) ctx.moveTo(x, y);
      else {
        ctx.lineTo(x, lastY);
        ctx.lineTo(x, y);
      }
      [lastX, lastY] = [x, y];
    }
    ctx.stroke();
    let lastTick = -10;
    for (let index = from; index < ackTime.length && ackTime[index] <= at.max; index += 1) {
      const x = at.x(ackTime[index]);
      if (!duplicate[index] || x - lastTick < dot) continue;
      ctx.fillRect(x - dot / 2, at.y(ack[index] / 1000) - 5 * dot, dot, 5 * dot);
      lastTick = x;
    }
    const [time, sequence, size] = [of("sent.time"), of("sent.sequence"), of("sent.size")];
    const [repeated, lost] = [of("sent.repeated"), of("sent.lost")];
    const start = lower(time, at.min);
    const stop = lower(time, at.max);
    const colours = [css("--sent"), css("--again")];
    for (const pass of [0, 1]) {
      ctx.fillStyle = colours[pass];
      let [px, py] = [-1, -1];
      for (let index = start; index < stop; index += 1) {
        if (repeated[index] !== pass) continue;
        const [x, y] = [at.x(time[index]) | 0, at.y((sequence[index] + size[index]) / 1000) | 0];
        if (x === px && y === py) continue;
        ctx.fillRect(x - dot, y, (2 + pass) * dot, Math.max(at.y(sequence[index] / 1000) - y, 1.5 * dot));
        [px, py] = [x, y];
      }
    }
    ctx.strokeStyle = css("--bad");
    ctx.lineWidth = 1.5 * dot;
    ctx.beginPath();
    const r = 4 * dot;
    for (let index = start; index < stop; index += 1) {
      if (!lost[index]) continue;
      const [x, y] = [at.x(time[index]), at.y((sequence[index] + size[index] / 2) / 1000)];
      ctx.moveTo(x - r, y - r);
      ctx.lineTo(x + r, y + r);
      ctx.moveTo(x + r, y - r);
      ctx.lineTo(x - r, y + r);
    }
    ctx.stroke();
  });
}

/** A value that holds until the next one. */
function steps(plot, times, values, style, dash = []) {
  const at = lens(plot);
  clipped(plot, (ctx, dot) => {
    ctx.strokeStyle = style;
    ctx.lineWidth = 1.5 * dot;
    ctx.setLineDash(dash.map((one) => one * dot));
    ctx.beginPath();
    const from = Math.max(lower(times, at.min) - 1, 0);
    let [x0, y0, top, bottom] = [null, null, 0, 0];
    for (let index = from; index < times.length && (index === from || times[index - 1] <= at.max); index += 1) {
      if (!Number.isFinite(values[index])) continue;
      const [x, y] = [Math.max(at.x(times[index]), at.left - 5), at.y(values[index])];
      if (x0 === null) ctx.moveTo(x, y);
      else if ((x | 0) === (x0 | 0)) {
        // Many in one column: its highest and its lowest say all.
        if (y < top) ctx.lineTo(x, (top = y));
        if (y > bottom) ctx.lineTo(x, (bottom = y));
        y0 = y;
        continue;
      } else {
        ctx.lineTo(x, y0);
        ctx.lineTo(x, y);
      }
      [x0, y0, top, bottom] = [x, y, y, y];
    }
    if (x0 !== null) ctx.lineTo(at.left + at.width, y0);
    ctx.stroke();
  });
}

/** Frames of a link as arrows between its two ends. */
function drawLadder(plot, columns, directions) {
  const at = lens(plot);
  const [up, down] = [at.top + at.height * 0.11, at.top + at.height * 0.89];
  clipped(plot, (ctx, dot) => {
    ctx.fillStyle = css("--ink");
    for (const y of [up, down]) ctx.fillRect(at.left, y - dot / 2, at.width, dot);
    directions.forEach((number, side) => {
      const [y0, y1] = side ? [down, up] : [up, down];
      const of = (name) => columns[`frame.${name}.${number}`];
      const [start, end, arrival, kind, repeated] = ["start", "end", "arrival", "kind", "repeated"].map(of);
      // A frame that began earlier may still be in transit.
      let longest = 0;
      for (let index = 0; index < start.length; index += Math.max(start.length >> 6, 1)) {
        if (arrival[index] > 0) longest = Math.max(longest, arrival[index] - start[index]);
      }
      const from = lower(start, at.min - 2 * longest);
      const groups = [[css("--sent"), []], [css("--again"), []], [css("--control"), []], [css("--bad"), []]];
      for (let index = from; index < start.length && start[index] <= at.max; index += 1) {
        const isLost = Number.isNaN(arrival[index]);
        groups[isLost ? 3 : repeated[index] ? 1 : plot.control.has(kind[index]) ? 2 : 0][1].push(index);
      }
      for (const [style, own] of groups) {
        ctx.strokeStyle = ctx.fillStyle = style;
        ctx.lineWidth = (style === groups[2][0] ? 1 : 1.5) * dot;
        // Where arrows cover each other, a loss among them must still be seen.
        ctx.globalAlpha = style === groups[0][0] && own.length * 8 * dot > at.width ? 0.35 : 1;
        ctx.beginPath();
        let px = -10;
        const marks = [];
        for (const index of own) {
          const x0 = at.x(start[index]);
          if (x0 - px < 1.5 * dot) continue;
          px = x0;
          ctx.moveTo(x0, y0);
          if (style === groups[3][0]) {
            const [x1, half] = [at.x(end[index] + longest / 2), (y0 + y1) / 2];
            ctx.lineTo(x1, half);
            marks.push([x1, half]);
          } else ctx.lineTo(at.x(arrival[index]), y1);
        }
        const r = 4 * dot;
        for (const [x, y] of marks) {
          ctx.moveTo(x - r, y - r);
          ctx.lineTo(x + r, y + r);
          ctx.moveTo(x + r, y - r);
          ctx.lineTo(x - r, y + r);
        }
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
      // Numbers, where there is room for them: each begins behind the previous one.
      const sequence = of("sequence");
      ctx.fillStyle = css("--ink");
      ctx.font = `${11 * dot}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      let room = at.left;
      for (let index = lower(start, at.min); index < start.length && start[index] <= at.max; index += 1) {
        const x = at.x(start[index]) + 2 * dot;
        if (x < room || !Number.isFinite(sequence[index])) continue;
        const text = String(sequence[index]);
        const end = x + ctx.measureText(text).width;
        if (end > at.left + at.width) break;
        ctx.fillText(text, x, y0 + (side ? 13 : -5) * dot);
        room = end + 6 * dot;
      }
    });
  });
}

/** Minimum and maximum of the visible values. */
function extent(times, values, from, to) {
  let [low, high] = [Infinity, -Infinity];
  for (let index = Math.max(lower(times, from) - 1, 0); index < times.length && times[index] <= to; index += 1) {
    const value = values[index];
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

const round = (limits, [low, high]) => (low <= high && Number.isFinite(low) ? limits(low, high) : [0, 1]);

/**
 * The panels of a look: each `{ key, title, label, height, options(window), legend }`, for `Plot`.
 * `window` has `from` and `to`, and `at`, the time of the cursor, as the page moves them.
 */
export function panels(look, link) {
  const { columns } = look;
  const found = [];
  const plain = (draw, y, label, more = {}) => (window) => ({
    scales: { x: { time: false, range: () => [window.from, window.to] }, y: { range: () => y(window) } },
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    axes: [axis({ label: "Time (s)", size: 28, labelSize: 16 }), axis({ label, size: 52, ...more })],
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    hooks: { draw: [(plot) => { draw(plot); cursorLine(plot, window.at); }] },
  });
  look.transfers.forEach((name, number) => {
    const of = (one) => columns[`${one}.${number}`];
    const top = (window) => {
      const [low, high] = extent(of("sent.time"), of("sent.sequence"), window.from, window.to);
      const [acked] = extent(of("ack.time"), of("ack.sequence"), window.from, window.to);
      return round((a, b) => [a - (b - a) * 0.04, b + (b - a) * 0.06 + 1], [Math.min(low, acked) / 1000, high / 1000]);
    };
    found.push({
      key: `sequence.${number}`, title: `Sequence numbers, ${name}`, height: 300,
      options: plain((plot) => { shade(plot, columns, number); drawSequence(plot, columns, number); }, top, "Sequence (kB)"),
      legend: [["sent", "segment sent"], ["again", "retransmitted"], ["bad", "lost ×"], ["ack", "acknowledged, ticks: duplicates"], ["sack", "SACK block"]],
    });
    found.push({
      key: `window.${number}`, title: `Windows, ${name}`, height: 170,
      options: plain((plot) => {
        shade(plot, columns, number);
        steps(plot, of("ssthresh.time"), of("ssthresh.value"), css("--again"), DASHES[1]);
        steps(plot, of("cwnd.time"), of("cwnd.value"), css("--sent"));
      }, (window) => {
        const [, high] = extent(of("cwnd.time"), of("cwnd.value"), window.from, window.to);
        return round((_, b) => [0, b * 1.1 + 1], [0, high]);
      }, "Segments"),
      legend: [["sent", "cwnd"], ["again", "ssthresh"], ["recovery", "fast recovery"], ["timeout", "after a timeout"]],
    });
  });
  const busy = look.links.map((one, number) => ({ ...one, number })).filter(({ number }) => {
    const values = columns[`queue.value.${number}`];
    for (let index = 0; index < values.length; index += 1) if (values[index] > 1) return true;
    return false;
  });
  if (busy.length) {
    found.push({
      key: "queue", title: "Queues", height: 150,
      options: plain((plot) => {
        if (look.transfers.length) shade(plot, columns, 0);
        busy.forEach(({ number }, index) => steps(plot, columns[`queue.time.${number}`], columns[`queue.value.${number}`], colour(index), DASHES[index % 6]));
        const at = lens(plot);
        clipped(plot, (ctx, dot) => {
          ctx.fillStyle = css("--bad");
          for (const { number } of busy) {
            const times = columns[`drop.time.${number}`];
            for (let index = lower(times, at.min); index < times.length && times[index] <= at.max; index += 1) {
              ctx.fillRect(at.x(times[index]) - dot, at.top, 2 * dot, 8 * dot);
            }
          }
        });
      }, (window) => {
        const most = busy.map(({ number }) => extent(columns[`queue.time.${number}`], columns[`queue.value.${number}`], window.from, window.to)[1]);
        return round((_, b) => [0, b * 1.1 + 1], [0, Math.max(...most)]);
      }, "Packets"),
      legend: [...busy.map(({ name }, index) => [index, name]), ["bad", "dropped"]],
    });
  }
  look.datagrams.forEach((name, number) => {
    const of = (one) => columns[`datagram.${one}.${number}`];
    found.push({
      key: `datagram.${number}`, title: `Delays of packets, ${name}`, height: 180,
      options: plain((plot) => {
        const at = lens(plot);
        const [time, delay] = [of("time"), of("delay")];
        clipped(plot, (ctx, dot) => {
          for (let index = lower(time, at.min); index < time.length && time[index] <= at.max; index += 1) {
            const isLost = Number.isNaN(delay[index]);
            ctx.fillStyle = css(isLost ? "--bad" : "--sent");
            if (isLost) ctx.fillRect(at.x(time[index]) - dot, at.top + at.height - 8 * dot, 2 * dot, 8 * dot);
            else ctx.fillRect(at.x(time[index]) - dot, at.y(delay[index] * 1000) - dot, 2 * dot, 2 * dot);
          }
        });
      }, (window) => round((_, b) => [0, b * 1100 + 1], [0, extent(of("time"), of("delay"), window.from, window.to)[1]]), "Delay (ms)"),
      legend: [["sent", "arrived"], ["bad", "lost"]],
    });
  });
  const own = look.links.map((one, number) => ({ ...one, number })).filter((one) => one.link === link);
  const sides = own.filter(({ number }) => columns[`frame.start.${number}`].length).map(({ number }) => number);
  if (own.length) {
    const data = new Set(["data", "segment"].map((one) => look.kinds.indexOf(one)));
    const control = new Set(look.kinds.map((_, index) => index).filter((index) => !data.has(index)));
    found.push({
      key: `ladder.${link}`, title: `Frames of ${link}: ${own[0].from} above, ${own[0].to} below`, height: 220,
      options: plain((plot) => { plot.control = control; drawLadder(plot, columns, sides); }, () => [0, 1], `${own[0].to} – ${own[0].from}`, { values: () => [], grid: { show: false } }),
      legend: [["sent", "frame"], ["again", "retransmitted"], ["control", "control frame"], ["bad", "lost ×"]],
    });
  }
  return found;
}
