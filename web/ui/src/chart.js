// The only module that knows uPlot. Axis widths are fixed and the y-range grows at once and
// shrinks slowly, so that a live chart does not jump.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h } from "./dom.js";
import { number, time, axisTime } from "./format.js";

const MAX_SERIES = 8;
const SHRINK = 0.04; // share of the way a frame that the y-range takes back towards its data
const dashes = [[], [6, 3], [2, 3], [10, 4], [1, 4], [8, 3, 2, 3], [4, 4], [12, 3]];

// css is the present value of a colour. A canvas can't read light-dark(), so the browser resolves it.
const probe = document.createElement("i");
const css = (name) => {
  if (!probe.isConnected) document.body.append(probe);
  probe.className = `probe ${name.slice(2)}`;
  return getComputedStyle(probe).color;
};

export class Chart {
  constructor(root, config, tz) {
    this.config = config;
    this.tz = tz;
    this.frame = h("div", { class: "chart", tabindex: "0", role: "img" });
    this.legend = h("ul", { class: "legend" });
    this.region = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    root.append(this.frame, this.legend, this.region);
    this.names = [];
    this.top = 0;
    this.low = 0;
    new ResizeObserver(() => this.#resize()).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#rebuild());
    new MutationObserver(() => this.#rebuild()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.frame.addEventListener("keydown", (e) => this.#key(e));
  }

  draw(entries, span) {
    const { x, y, series } = this.config;
    const measure = y[0];
    const times = new Map();
    const totals = new Map();
    for (const e of entries) {
      const t = Date.parse(e.row[x]) / 1000;
      if (!times.has(t)) times.set(t, { open: false, values: new Map() });
      const slot = times.get(t);
      slot.open ||= e.status === "provisional";
      const put = (name, v) => {
        const n = v === null ? null : Number(v);
        slot.values.set(name, n);
        totals.set(name, (totals.get(name) ?? 0) + Math.abs(n ?? 0));
      };
      if (series) put(String(e.row[series] ?? "–"), e.row[measure]);
      else for (const name of y) put(name, e.row[name]);
    }
    // A series keeps its colour: new names join at the end.
    const ranked = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, MAX_SERIES);
    const names = [...this.names.filter((n) => totals.has(n)), ...ranked.filter((n) => !this.names.includes(n))].slice(0, MAX_SERIES);
    const xs = [...times.keys()].sort((a, b) => a - b);
    const data = [xs, ...names.map((n) => xs.map((t) => times.get(t).values.get(n) ?? null))];
    this.open = xs.map((t) => times.get(t).open);
    this.span = span;
    if (!this.plot || names.join("\u0000") !== this.names.join("\u0000")) {
      this.names = names;
      this.data = data;
      this.#rebuild();
    } else {
      this.data = data;
      this.plot.setData(data, false);
      this.#scale();
    }
    this.#legend();
  }

  #scale() {
    const now = Date.now() / 1000;
    const xs = this.data[0];
    const from = this.span ? now - this.span / 1000 : (xs[0] ?? now - 60);
    const to = this.span ? now : (xs.at(-1) ?? now);
    let high = 0;
    let low = 0;
    for (const ys of this.data.slice(1)) for (const v of ys) if (v !== null) (high = Math.max(high, v)), (low = Math.min(low, v));
    high *= 1.08;
    low *= 1.08;
    this.top = high >= this.top ? high : this.top + (high - this.top) * SHRINK;
    this.low = low <= this.low ? low : this.low + (low - this.low) * SHRINK;
    this.plot.batch(() => {
      this.plot.setScale("x", { min: from, max: Math.max(to, from + 1) });
      this.plot.setScale("y", { min: this.low, max: this.top || 1 });
    });
  }

  #rebuild() {
    if (!this.data) return;
    this.plot?.destroy();
    const ink = css("--ink-2");
    const grid = css("--line");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font: "11px system-ui" };
    const options = {
      ...this.#size(),
      cursor: { points: { size: 7 }, drag: { setScale: false } },
      legend: { show: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), this.tz === "UTC" ? "Etc/UTC" : this.tz),
      axes: [
        { ...axis, space: 80, size: 28, values: (_, ticks) => this.#clock(ticks) },
        { ...axis, size: 62, space: 34, values: (_, ticks) => ticks.map((v) => number(v, this.config.unit)) },
      ],
      series: [{}, ...this.names.map((name, i) => this.#series(name, i))],
      hooks: { setCursor: [() => this.#legend()], drawAxes: [(u) => this.#shade(u)] },
    };
    this.plot = new uPlot(options, this.data, this.frame);
    this.#scale();
  }

  // #clock labels the time axis: hours and minutes, seconds or days where the ticks lie closer or
  // further apart.
  #clock(ticks) {
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
    return ticks.map((t) => (t === null ? null : axisTime(t * 1000, step, this.tz)));
  }

  #series(name, i) {
    const color = css(`--series-${i + 1}`);
    const bars = this.config.style === "bars";
    return {
      label: name,
      stroke: color,
      width: 2,
      dash: dashes[i],
      fill: i === 0 && this.names.length === 1 ? css("--series-fill") : undefined,
      paths: bars ? uPlot.paths.bars({ size: [0.8, 60] }) : undefined,
      points: { show: this.data[0].length < 3 },
      spanGaps: false,
    };
  }

  // Windows that are still open lie on a shaded ground.
  #shade(u) {
    const first = this.open?.indexOf(true) ?? -1;
    if (first < 0) return;
    const from = u.valToPos(u.data[0][Math.max(0, first - 1)], "x", true);
    const { left, top, width, height } = u.bbox;
    const x = Math.max(left, from);
    u.ctx.save();
    u.ctx.fillStyle = css("--open-ground");
    u.ctx.fillRect(x, top, left + width - x, height);
    u.ctx.restore();
  }

  #legend() {
    const i = this.plot?.cursor.idx ?? this.data[0].length - 1;
    const at = this.data[0][i];
    const items = this.names.map((name, k) => {
      const li = h("li", null, h("i", { class: `swatch s${k + 1}` }), h("span", null, name), h("b", { class: "num" }, number(this.data[k + 1][i] ?? null, this.config.unit)));
      return li;
    });
    if (at) items.push(h("li", { class: "at" }, `${time(new Date(at * 1000).toISOString(), this.tz)}${this.open[i] ? " · still open" : ""}`));
    this.legend.replaceChildren(...items);
    this.frame.setAttribute("aria-label", `${this.config.title}: ${this.names.map((n, k) => `${n} ${number(this.data[k + 1].at(-1) ?? null, this.config.unit)}`).slice(0, 4).join(", ")}. Arrow keys move along time.`);
  }

  #key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!step || !this.plot) return;
    e.preventDefault();
    const n = this.data[0].length;
    const i = Math.min(n - 1, Math.max(0, (this.plot.cursor.idx ?? n - 1) + step));
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][i], "x"), top: 10 });
    this.region.textContent = `${time(new Date(this.data[0][i] * 1000).toISOString(), this.tz)}: ${this.names.map((name, k) => `${name} ${number(this.data[k + 1][i], this.config.unit)}`).join(", ")}`;
  }

  #size() {
    const box = this.frame.parentElement.getBoundingClientRect();
    return { width: Math.max(120, Math.floor(box.width)), height: Math.max(90, Math.floor(box.height) - 34) };
  }

  #resize() {
    if (this.plot) this.plot.setSize(this.#size());
  }
}
