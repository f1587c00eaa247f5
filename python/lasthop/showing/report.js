// Replaces the pictures of a report by interactive uPlot charts of the same data. Without script and
// in print, the pictures are shown.

"use strict";

(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Intervals behind the points of a curve. */
  const bars = (chart) => (plot) => {
    const { ctx } = plot;
    const dot = window.devicePixelRatio || 1;
    ctx.save();
    ctx.beginPath();
    ctx.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
    ctx.clip();
    ctx.setLineDash([]);
    chart.curves.forEach((curve, index) => {
      if (!plot.series[index + 1].show) return;
      ctx.strokeStyle = plot.series[index + 1].stroke(plot, index + 1);
      ctx.lineWidth = 1.2 * dot;
      ctx.beginPath();
      curve.low.forEach((low, place) => {
        const high = curve.high[place];
        if (low === null || high === null || !(high > low)) return;
        const x = plot.valToPos(curve.x[place], "x", true);
        const [y0, y1] = [plot.valToPos(low, "y", true), plot.valToPos(high, "y", true)];
        ctx.moveTo(x, y0);
        ctx.lineTo(x, y1);
        for (const y of [y0, y1]) {
          ctx.moveTo(x - 3 * dot, y);
          ctx.lineTo(x + 3 * dot, y);
        }
      });
      ctx.stroke();
    });
    ctx.restore();
  };

  const shown = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(5))));

  /** Numbers on an axis, all with the same decimals. */
  const numbers = (_, values) => {
    const plain = values.map((value) => String(Number(value.toPrecision(12))));
    if (plain.some((text) => text.includes("e"))) return plain;
    const most = Math.max(...plain.map((text) => (text.split(".")[1] || "").length));
    return values.map((value) => value.toFixed(most));
  };

  function draw(figure) {
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector(".live");
    place.replaceChildren();
    const words = chart.words && new Map(chart.words);
    // uPlot wants each x of a curve once and in order.
    const tables = chart.curves.map((curve) => {
      const order = curve.x.map((_, index) => index).sort((a, b) => curve.x[a] - curve.x[b] || a - b);
      return [order.map((index, rank) => curve.x[index] + rank * 1e-9), order.map((index) => curve.y[index])];
    });
    const isDashed = (index) => index > 0 && (chart.curves[index - 1].dash || []).length > 0;
    const ink = (colour) => () => (colour === "#000000" ? css("--ink") : colour);
    const axis = { stroke: css("--ink"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20 };
    const ends = chart.curves.flatMap((curve) => [...curve.y, ...curve.low, ...curve.high]).filter((one) => one !== null && (!chart.ylog || one > 0));
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    const span = most - least || Math.abs(most) || 1;
    const plot = new uPlot({
      width: place.clientWidth, height: 320,
      scales: {
        x: { time: false, distr: chart.xlog ? 3 : 1, ...(chart.xlog ? {} : { range: (_, low, high) => { const edge = words ? 0.4 : 0.03 * (high - low); return [low - edge, high + edge]; } }) },
        y: chart.ylog ? { distr: 3 } : { range: (_, low, high) => { const whole = low === null || (low >= least && high <= most); return whole ? [least >= 0 && least < span ? 0 : least - 0.06 * span, most + 0.06 * span] : [low, high]; } },
      },
      // The colour of a curve without a line has no width in uPlot's own marker.
      // Markers of dashed curves are hollow and dashed: curves of two keys share colours.
      legend: { markers: { width: 2, dash: (_, index) => (isDashed(index) ? "dashed" : "solid"), stroke: (_, index) => (index ? ink(chart.curves[index - 1].colour)() : ""), fill: (_, index) => (index && !isDashed(index) ? ink(chart.curves[index - 1].colour)() : "transparent") } },
      cursor: { y: false, drag: { x: true, y: true, uni: 20 } },
      axes: [
        { ...axis, label: chart.xlabel, ...(chart.xlog ? {} : { values: numbers }), ...(words ? { splits: () => [...words.keys()], values: (_, all) => all.map((one) => words.get(one) ?? ""), grid: { show: false } } : {}) },
        { ...axis, label: chart.ylabel, size: 58, ...(chart.ylog ? {} : { values: numbers }) },
      ],
      series: [
        { label: chart.xlabel, value: (_, value) => (value === null ? "–" : words ? words.get(Math.round(value)) ?? "" : shown(value)) },
        ...chart.curves.map((curve) => ({
          label: curve.label || chart.ylabel, stroke: ink(curve.colour), width: curve.line ? 2 : 0, dash: curve.dash,
          spanGaps: true, points: { show: curve.points, size: 7, stroke: ink(curve.colour), fill: ink(curve.colour) },
          ...(curve.line ? {} : { paths: () => null }), value: (_, value) => shown(value),
        })),
      ],
      hooks: { draw: [bars(chart)] },
    }, tables.length > 1 ? uPlot.join(tables) : tables[0], place);
    return plot;
  }

  for (const figure of document.querySelectorAll("figure.has-chart")) {
    figure.classList.add("is-live");
    let plot = draw(figure);
    const place = figure.querySelector(".live");
    new ResizeObserver(() => {
      if (place.clientWidth > 0 && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: 320 });
    }).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      plot.destroy();
      plot = draw(figure);
    });
  }
})();
