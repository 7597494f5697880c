import { Swatch } from "./basics.js";
import { moment } from "./format.js";
import { html, useEffect, useRef, useState } from "./html.js";

const height = 200;

/** @typedef {typeof import("../lib/uplot.js").default} UPlot */

/** uPlot is larger than the rest of the page, so it is loaded with the first chart. */
let uPlot = /** @type {UPlot | undefined} */ (undefined);

async function loadLibrary() {
  uPlot ??= (await import("../lib/uplot.js")).default;
}

/**
 * A chart, and a line of text that describes the bars under the pointer. `data`: undefined until it has been read.
 * `stepSeconds`: width of a bar. `isStacked`: false for lines instead of stacked bars; a missing value is null.
 * `hasLegend`: true to name the lines while no bar is under the pointer. `colour`: name of a custom property without
 * its dashes. `unit`: formats a value.
 * @param {{ label: string, data: undefined | {
 *   from: string, stepSeconds: number, lines: { label: string, colour: string, values: (number | null)[] }[],
 *   unit: (value: number) => string, isStacked?: boolean, hasLegend?: boolean,
 * } }} props
 */
export function Chart({ label, data }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {ReturnType<typeof createChart> | undefined} */ (undefined));
  const [step, setStep] = useState(/** @type {number | undefined} */ (undefined));
  useEffect(() => {
    chart.current = createChart(place.current, setStep);
    return chart.current.stop;
  }, []);
  useEffect(() => {
    if (data !== undefined) chart.current?.set(data);
  }, [data]);
  return html`<div class="chart" hidden=${data?.lines.length === 0}>
    <div class="chart-area" role="img" aria-label=${label} ref=${place} />
    <p class="readout">
      ${data !== undefined && (step === undefined ? legend(data) : readout(data, step))}
    </p>
  </div>`;
}

function legend({ hasLegend = false, lines }) {
  return (
    hasLegend &&
    lines.map(({ label, colour }) => html`<span><${Swatch} colour=${colour} />${label}</span>`)
  );
}

function readout({ from, stepSeconds, lines, unit }, step) {
  const start = new Date(Date.parse(from) + step * stepSeconds * 1000).toISOString();
  return html`<span class="quiet">${moment(start)}</span> ${lines
      .filter(({ values }) => values[step] > 0)
      .map(
        ({ label, colour, values }) =>
          html`<span><${Swatch} colour=${colour} />${label} <b>${unit(values[step])}</b></span>`,
      )}`;
}

/** `point`: called with the step under the pointer, or undefined. */
function createChart(place, point) {
  let plot;
  let shown;
  let isStopped = false;
  const draw = () => {
    if (uPlot === undefined || isStopped) return;
    if (shown === undefined || place.clientWidth === 0) return;
    plot?.destroy();
    plot = new uPlot(options(uPlot, place, shown, point), stacked(shown), place);
  };
  void loadLibrary().then(draw);
  const size = new ResizeObserver(() => {
    if (plot === undefined) draw();
    else if (plot.width !== place.clientWidth) plot.setSize({ width: place.clientWidth, height });
  });
  size.observe(place);
  document.addEventListener("themechange", draw);
  return {
    set(data) {
      const isSame =
        plot !== undefined &&
        shown.stepSeconds === data.stepSeconds &&
        shown.lines.map(({ label }) => label).join("\n") ===
          data.lines.map(({ label }) => label).join("\n");
      shown = data;
      if (isSame) plot.setData(stacked(data));
      else draw();
    },
    stop() {
      isStopped = true;
      size.disconnect();
      document.removeEventListener("themechange", draw);
      plot?.destroy();
    },
  };
}

/** uPlot paints in order: the sum of all lines first, and the lowest line last, on top. */
function stacked({ from, stepSeconds, lines, isStacked = true }) {
  const start = Date.parse(from) / 1000;
  const steps = lines[0]?.values.length ?? 0;
  const times = Array.from({ length: steps }, (_, i) => start + i * stepSeconds);
  if (!isStacked) return [times, ...lines.toReversed().map(({ values }) => values)];
  const sums = [];
  const below = Array(steps).fill(0);
  for (const { values } of lines) {
    for (let i = 0; i < steps; i++) below[i] += values[i];
    sums.unshift([...below]);
  }
  return [times, ...sums];
}

/**
 * @param {UPlot} library
 * @returns {import("../lib/uplot.js").default.Options}
 */
function options(library, place, { lines, unit, stepSeconds, isStacked = true }, point) {
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
        stroke: resolve(place, colour),
        ...(isStacked
          ? {
              fill: resolve(place, colour),
              width: 0,
              points: { show: false },
              paths: library.paths.bars?.({ size: [0.8, 48], align: 0 }),
            }
          : { width: 2, points: { show: true, size: 4, fill: resolve(place, colour) } }),
      })),
    ],
    axes: [
      {
        ...axis,
        grid: { show: false },
        // Keeps the labels away from the lowest label of the other axis.
        gap: 9,
        size: 32,
        space: 72,
        values: (_, ticks) => ticks.map((tick) => tickLabel(tick, stepSeconds)),
      },
      { ...axis, size: 72, space: 36, values: (_, ticks) => ticks.map((tick) => unit(tick)) },
    ],
    hooks: {
      setCursor: [
        ({ cursor }) => point((cursor.left ?? -1) < 0 ? undefined : (cursor.idx ?? undefined)),
      ],
    },
  };
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dayName = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Returns the day at midnight, and if a bar is at least half a day. Otherwise, it returns the time. */
function tickLabel(seconds, stepSeconds) {
  const when = new Date(seconds * 1000);
  const isMidnight = when.getHours() === 0 && when.getMinutes() === 0 && when.getSeconds() === 0;
  return (stepSeconds >= 43_200 || isMidnight ? dayName : clock).format(when);
}

/** A canvas does not resolve the names of custom properties. */
function resolve(place, name) {
  const probe = document.createElement("i");
  probe.className = "unseen";
  probe.style.color = `var(--${name})`;
  place.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
