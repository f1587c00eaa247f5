// Replaces the picture of each timeline by uPlot charts of the same data, one per panel, with a common
// time axis and cursor. Without script and in print, the picture is shown.

"use strict";

(() => {
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(4))));
  const HEIGHT = 150;

  /** Vertical lines at the changes of the link, with their numbers in the first panel. */
  const marks = (all, isFirst) => (plot) => {
    const { ctx, bbox } = plot;
    const dot = window.devicePixelRatio || 1;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--soft");
    ctx.setLineDash([3 * dot, 3 * dot]);
    ctx.font = `${11 * dot}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    for (const { time, number } of all) {
      const x = plot.valToPos(time, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (isFirst) ctx.fillText(String(number), x + 4 * dot, bbox.top + 12 * dot);
    }
    ctx.restore();
  };

  const ink = (curve) => () => {
    const colour = curve.colour === "#000000" ? css("--ink") : curve.colour;
    return curve.thin ? `${colour}70` : colour;
  };

  function draw(figure, place, timeline, key) {
    const axis = { stroke: css("--ink"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18 };
    const last = timeline.time.at(-1) ?? 1;
    return timeline.panels.map((panel, index) => {
      const isLast = index === timeline.panels.length - 1;
      return new uPlot({
        width: place.clientWidth, height: HEIGHT + (isLast ? 40 : 20),
        scales: {
          x: { time: false, range: (_, low, high) => (low === null || low === high ? [0, last] : [low, high]) },
          y: { range: (_, _low, high) => [0, (high || 1) * 1.08] },
        },
        padding: [8, 16, 0, 0],
        cursor: { y: false, sync: { key } },
        axes: [
          { ...axis, ...(isLast ? { label: "Time (s)" } : { values: (_, all) => all.map(() => ""), size: 10 }) },
          { ...axis, label: `${panel.title} (${panel.unit})`, size: 52 },
        ],
        series: [
          { label: "s", value: (_, value) => shown(value) },
          ...panel.curves.map((curve) => ({
            label: curve.label, stroke: ink(curve), width: curve.thin ? 1 : 2, dash: curve.dash,
            ...(panel.steps ? { paths: uPlot.paths.stepped({ align: -1 }) } : {}),
            points: { show: false }, value: (_, value) => shown(value),
          })),
        ],
        hooks: { draw: [marks(timeline.marks, index === 0)] },
      }, [timeline.time, ...panel.curves.map((curve) => curve.y)], place);
    });
  }

  document.querySelectorAll("figure.has-chart").forEach((figure, number) => {
    const timeline = JSON.parse(figure.querySelector("script").textContent);
    const place = figure.querySelector(".live");
    let plots = [];
    const redraw = () => {
      plots.forEach((plot) => plot.destroy());
      place.replaceChildren();
      plots = draw(figure, place, timeline, `timeline-${number}`);
    };
    figure.classList.add("is-live");
    // A folded section has no width until it is opened.
    new ResizeObserver(() => {
      if (place.clientWidth > 0 && place.clientWidth !== plots[0]?.width) redraw();
    }).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  });
})();
