/** Draws stacked bars over time with uPlot, in the colours of the page. */
import uPlot from "./uplot.js";
import { h } from "./dom.js";
import { moment } from "./format.js";

const height = 200;

/**
 * Creates a chart. `set` shows `{ from, stepSeconds, lines: [{ label, colour, values }], unit }`. `colour`: name of a
 * custom property without its dashes. `unit`: formats a value. A line of text describes the bars under the pointer.
 */
export function stackedBars(label) {
  const place = h("div", { class: "chart-area", role: "img", "aria-label": label });
  const readout = h("p", { class: "readout" });
  const element = h("div", { class: "chart" }, place, readout);
  let plot;
  let shown;

  const draw = () => {
    if (shown === undefined || place.clientWidth === 0) return;
    plot?.destroy();
    plot = new uPlot(options(place, shown, say), stacked(shown), place);
  };
  const say = (step) => {
    const { from, stepSeconds, lines, unit } = shown;
    if (step === null || step === undefined) {
      readout.replaceChildren();
      return;
    }
    const start = moment(new Date(Date.parse(from) + step * stepSeconds * 1000).toISOString());
    readout.replaceChildren(
      h("span", { class: "quiet" }, start),
      ...lines
        .filter(({ values }) => values[step] > 0)
        .map(({ label: name, colour, values }) =>
          h("span", {}, swatch(colour), `${name} `, h("b", {}, unit(values[step]))),
        ),
    );
  };
  const size = new ResizeObserver(() => {
    if (plot === undefined) draw();
    else if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height });
  });
  size.observe(place);
  document.addEventListener("themechange", draw);
  return {
    element,
    set(data) {
      const isSame =
        plot !== undefined &&
        shown.stepSeconds === data.stepSeconds &&
        shown.lines.map(({ label: name }) => name).join("\n") ===
          data.lines.map(({ label: name }) => name).join("\n");
      shown = data;
      if (isSame) plot.setData(stacked(data));
      else draw();
    },
    stop() {
      size.disconnect();
      document.removeEventListener("themechange", draw);
      plot?.destroy();
    },
  };
}

export function swatch(colour) {
  const mark = h("i", { class: "swatch", "aria-hidden": "true" });
  mark.style.setProperty("--swatch", `var(--${colour})`);
  return mark;
}

/** Returns cumulative sums. uPlot paints in order: the sum of all lines first, and the lowest line last, on top. */
function stacked({ from, stepSeconds, lines }) {
  const start = Date.parse(from) / 1000;
  const steps = lines[0]?.values.length ?? 0;
  const times = Array.from({ length: steps }, (_, i) => start + i * stepSeconds);
  const sums = [];
  const below = Array(steps).fill(0);
  for (const { values } of lines) {
    for (let i = 0; i < steps; i++) below[i] += values[i];
    sums.unshift([...below]);
  }
  return [times, ...sums];
}

/** @returns {uPlot.Options} */
function options(place, { lines, unit, stepSeconds }, say) {
  const ink = resolve(place, "ink-quiet");
  const rule = resolve(place, "rule");
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const axis = {
    stroke: ink,
    font,
    ticks: { show: false },
    grid: { stroke: rule, width: 1 },
  };
  return {
    width: place.clientWidth,
    height,
    legend: { show: false },
    padding: [12, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: {
      x: {
        time: true,
        range: (_, low, high) => [low - stepSeconds / 2, high + stepSeconds / 2],
      },
      y: { range: (_, _low, high) => [0, high > 0 ? high * 1.1 : 1] },
    },
    series: [
      {},
      ...lines.toReversed().map(({ colour, label }) => ({
        label,
        fill: resolve(place, colour),
        stroke: resolve(place, colour),
        width: 0,
        points: { show: false },
        paths: uPlot.paths.bars?.({ size: [0.8, 48], align: 0 }),
      })),
    ],
    axes: [
      {
        ...axis,
        grid: { show: false },
        // Keeps distance from the lowest label of the other axis.
        gap: 9,
        size: 32,
        space: 72,
        values: (_, ticks) => ticks.map((tick) => tickLabel(tick, stepSeconds)),
      },
      { ...axis, size: 72, space: 36, values: (_, ticks) => ticks.map((tick) => unit(tick)) },
    ],
    hooks: { setCursor: [({ cursor }) => say((cursor.left ?? -1) < 0 ? null : cursor.idx)] },
  };
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayName = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Returns the day if a bar is at least half a day, else the time. */
function tickLabel(seconds, stepSeconds) {
  const when = new Date(seconds * 1000);
  return (stepSeconds >= 43_200 ? dayName : clock).format(when);
}

/** Returns the value of a custom property, because a canvas does not resolve names of custom properties. */
function resolve(place, name) {
  const probe = h("i", { class: "unseen" });
  probe.style.color = `var(--${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
