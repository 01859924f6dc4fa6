// The only module that knows uPlot. Axis widths are fixed and the y-range grows at once and
// shrinks slowly, so that a live chart does not jump.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h } from "./dom.js";
import { number, axisNumber, time, axisTime } from "./format.js";
import { Columns } from "./columns.js";
import { Legend } from "./legend.js";
import { flags } from "./notes.js";

const SHRINK = 0.04; // share of the way a frame that the y-range takes back towards its data
const MOST_DENSE = 10; // pixels a point, below which a dashed line is a thicket
const DOUBLE = 280; // milliseconds that a second click may take
const dashes = [[], [6, 3], [2, 3], [10, 4], [1, 4], [8, 3, 2, 3], [4, 4], [12, 3]];

// css is the present value of a colour. A canvas can't read light-dark(), so the browser resolves it.
const probe = document.createElement("i");
const css = (name) => {
  if (!probe.isConnected) document.body.append(probe);
  probe.className = `probe ${name}`;
  return getComputedStyle(probe).color;
};
const faded = (color, alpha) => color.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);

// alone picks the points that have no neighbour: no line shows them.
const alone = (u, k) => {
  const ys = u.data[k];
  const out = [];
  const none = (v) => v === null || v === undefined;
  for (let i = 0; i < ys.length; i++) if (!none(ys[i]) && none(ys[i - 1]) && none(ys[i + 1])) out.push(i);
  return out;
};

export class Chart {
  constructor(panel) {
    this.panel = panel;
    this.config = panel.config;
    this.style = this.config.type === "bar" ? (this.config.series ? "stacked bars" : "bars") : (this.config.style ?? "line");
    this.stacked = this.style.startsWith("stacked");
    this.barred = this.style.includes("bars");
    this.frame = h("div", { class: "chart", tabindex: "0", role: "application", "aria-roledescription": "chart" });
    this.legend = new Legend(panel, (k) => this.#focus(k));
    this.region = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    panel.body.append(this.frame, this.legend.foot, this.region);
    this.columns = new Columns(this.config, (y) => panel.merge(y));
    this.top = 0;
    this.low = 0;
    this.sized = new ResizeObserver(() => this.#resize());
    this.sized.observe(panel.body);
    this.sized.observe(this.legend.foot);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.#rebuild();
    this.dark.addEventListener("change", this.repaint);
    this.themed = new MutationObserver(this.repaint);
    this.themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.frame.addEventListener("keydown", (e) => this.#key(e));
    this.legend.list.addEventListener("click", (e) => {
      const i = e.target.closest("button")?.dataset.series;
      if (i !== undefined && this.config.series) panel.board.filter(this.config.series, this.columns.values.get(this.names[i]) ?? this.names[i]);
    });
  }

  get tz() {
    return this.panel.tz;
  }

  get names() {
    return this.columns.names;
  }

  end() {
    this.sized.disconnect();
    this.themed.disconnect();
    this.dark.removeEventListener("change", this.repaint);
    this.plot?.destroy();
  }

  // clear empties the chart; the axes stay.
  clear() {
    if (this.frame.isConnected) this.end();
    this.panel.chart = null;
  }

  // draw shows rows; comparing: those of before the window as the period before.
  draw(rows, window, comparing) {
    this.window = window;
    const c = this.columns;
    c.take(rows, comparing ? window.from / 1000 : undefined, window.span / 1000);
    const names = c.names;
    let drawn = c.raw;
    if (this.stacked) {
      const sums = c.xs.map(() => 0);
      drawn = c.raw.map((ys) => ys.map((v, i) => (sums[i] += v ?? 0)));
    }
    // Stacked bars hide what lies behind them: the highest is drawn first.
    this.order = names.map((_, k) => (this.stacked && this.barred ? names.length - 1 - k : k));
    const data = [c.xs, ...this.order.map((k) => drawn[k])];
    if (c.before) data.push(c.before);
    const shape = [...names, c.before ? "before" : "", this.#dense(c.xs.length)].join("\u0000");
    this.data = data;
    if (!this.plot || shape !== this.shape) {
      this.shape = shape;
      this.#rebuild();
    } else {
      this.plot.setData(data, false);
      this.#scale();
    }
    this.#say();
  }

  // #dense says whether points lie too close for dashes to be told apart.
  #dense(points) {
    return points * MOST_DENSE > (this.plot?.width ?? 0);
  }

  #scale() {
    const xs = this.data[0];
    const { from, to, moving, span } = this.window;
    const end = moving ? Date.now() : to;
    const start = moving ? end - span : from;
    // Windows are drawn from their start: the newest bar needs room.
    const step = this.barred && xs.length > 1 ? xs[1] - xs[0] : 0;
    let high = 0;
    let low = 0;
    for (const ys of this.data.slice(1)) for (const v of ys) if (v !== null) (high = Math.max(high, v)), (low = Math.min(low, v));
    high *= 1.08;
    low *= 1.08;
    this.top = high >= this.top ? high : this.top + (high - this.top) * SHRINK;
    this.low = low <= this.low ? low : this.low + (low - this.low) * SHRINK;
    this.plot.batch(() => {
      this.plot.setScale("x", { min: start / 1000 - step / 2, max: Math.max(end / 1000, start / 1000 + 1) + step / 2 });
      this.plot.setScale("y", { min: this.low, max: this.top || 1 });
    });
  }

  #rebuild() {
    if (!this.data) return;
    if (this.layer?.contains(document.activeElement)) this.focused = document.activeElement;
    this.plot?.destroy();
    const ink = css("ink-2");
    const grid = css("line");
    this.openGround = css("open-ground");
    this.markColor = css("warn");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font: "11px system-ui" };
    const narrow = this.panel.body.clientWidth < 380;
    const series = [{}, ...this.order.map((k) => this.#series(this.names[k], k))];
    if (this.columns.before) series.push({ label: "period before", stroke: ink, width: 1.5, dash: [3, 4], points: { show: false } });
    const options = {
      ...this.#size(),
      focus: { alpha: 0.25 },
      cursor: { points: { size: 7 }, focus: this.names.length > 1 && !this.stacked && !this.barred ? { prox: 18 } : undefined, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => this.#back() } },
      select: { show: true, left: 0, top: 0, width: 0, height: 0 },
      legend: { show: false },
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), this.tz === "UTC" ? "Etc/UTC" : this.tz),
      axes: [
        { ...axis, space: narrow ? 64 : 80, size: 28, values: (_, ticks) => this.#clock(ticks) },
        { ...axis, size: narrow ? 50 : 62, space: 34, values: (_, ticks) => ticks.map((v) => axisNumber(v, this.config.unit)) },
      ],
      series,
      bands: this.stacked && !this.barred ? this.names.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : undefined,
      hooks: { setCursor: [() => this.#say()], drawAxes: [(u) => this.#shade(u)], draw: [(u) => this.#ring(u), (u) => this.#flags(u)], setSelect: [(u) => this.#select(u)] },
    };
    this.plot = new uPlot(options, this.data, this.frame);
    // A click waits a moment: the first of two must not open a dialog under the second.
    this.plot.over.addEventListener("click", () => {
      clearTimeout(this.clicking);
      this.clicking = setTimeout(() => this.#clicked(), DOUBLE);
    });
    this.#scale();
  }

  #select(u) {
    const { left, width } = u.select;
    if (width < 6) return;
    const from = u.posToVal(left, "x") * 1000;
    const to = u.posToVal(left + width, "x") * 1000;
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.dragged = Date.now();
    this.panel.board.zoom(from, to);
  }

  #back() {
    clearTimeout(this.clicking);
    this.panel.board.zoomOut();
  }

  // A click on a point asks for its story.
  #clicked() {
    if (Date.now() - (this.dragged ?? 0) < DOUBLE + 100) return;
    const i = this.plot.cursor.idx;
    if (i === null || i === undefined) return;
    this.panel.root.dispatchEvent(new CustomEvent("point", { detail: new Date(this.data[0][i] * 1000).toISOString().replace(".000Z", "Z") }));
  }

  // #clock labels the time axis: hours and minutes, seconds or days where the ticks lie closer or
  // further apart.
  #clock(ticks) {
    const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
    return ticks.map((t) => (t === null ? null : axisTime(t * 1000, step, this.tz)));
  }

  #series(name, i) {
    const color = css(`series-${i + 1}`);
    const filled = this.style === "area" || this.stacked || this.barred || (this.names.length === 1 && this.style === "line");
    const alpha = this.barred ? (this.stacked ? 1 : 0.75) : this.stacked ? 0.45 : 0.14;
    return {
      label: name,
      stroke: color,
      width: this.barred ? 0 : this.#dense(this.data[0].length) ? 1.5 : 2,
      dash: this.stacked || this.barred || this.#dense(this.data[0].length) ? undefined : dashes[i],
      fill: filled ? faded(color, alpha) : undefined,
      paths: this.barred ? uPlot.paths.bars({ size: [0.8, 60], align: 0 }) : undefined,
      points: this.barred ? { show: false } : { show: true, size: 5, filter: alone },
      spanGaps: false,
    };
  }

  // Windows that are still open lie on a hatched ground.
  #shade(u) {
    const first = this.columns.open.indexOf(true) ?? -1;
    if (first < 0) return;
    const half = this.barred && u.data[0].length > 1 ? (u.data[0][1] - u.data[0][0]) / 2 : 0;
    const from = u.valToPos(this.barred ? u.data[0][first] - half : u.data[0][Math.max(0, first - 1)], "x", true);
    const { left, top, width, height } = u.bbox;
    const x = Math.max(left, from);
    const end = left + width;
    if (x >= end) return;
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(x, top, end - x, height);
    u.ctx.clip();
    u.ctx.fillStyle = this.openGround;
    u.ctx.fillRect(x, top, end - x, height);
    u.ctx.strokeStyle = this.openGround;
    u.ctx.lineWidth = 2;
    for (let d = -height; d < end - x; d += 9) {
      u.ctx.beginPath();
      u.ctx.moveTo(x + d, top + height);
      u.ctx.lineTo(x + d + height, top);
      u.ctx.stroke();
    }
    u.ctx.restore();
  }

  // A point that was corrected just now has a ring.
  #ring(u) {
    for (const { at: t, name } of this.columns.marks.values()) {
      const i = this.data[0].indexOf(t);
      const k = this.names.indexOf(name);
      if (i < 0 || k < 0) continue;
      u.ctx.save();
      u.ctx.strokeStyle = this.markColor;
      u.ctx.lineWidth = 2;
      u.ctx.beginPath();
      u.ctx.arc(u.valToPos(t, "x", true), u.valToPos(this.data[1 + this.order.indexOf(k)][i], "y", true), 7, 0, 2 * Math.PI);
      u.ctx.stroke();
      u.ctx.restore();
    }
  }

  #flags(u) {
    if (!this.panel.board.notes) return;
    if (this.layer?.parentElement !== u.over) u.over.append((this.layer ??= h("div", { class: "flags" })));
    this.focused?.focus(); // who stands on a flag stays there when the chart is built anew
    this.focused = null;
    flags(u, this.layer, this.panel.board.notes.of(this.config.id), this.panel.board);
  }

  #say() {
    const last = this.data[0].length - 1;
    this.legend.show(this.columns, this.plot?.cursor.idx ?? last);
    const { title, unit } = this.config;
    const label = `${title}: ${this.names.map((n, k) => `${n} ${number(this.columns.raw[k][last] ?? null, unit)}`).slice(0, 4).join(", ")}. Arrow keys move along time, Enter tells where a point comes from, plus and minus zoom.`;
    if (label !== this.label) this.frame.setAttribute("aria-label", (this.label = label));
  }

  // #focus lets one series stand out, or none.
  #focus(k) {
    if (!this.plot || this.names.length < 2) return;
    this.plot.setSeries(k === null ? null : 1 + this.order.indexOf(k), { focus: k !== null });
  }

  #key(e) {
    if (!this.plot) return;
    const xs = this.data[0];
    const n = xs.length;
    const i = this.plot.cursor.idx ?? n - 1;
    if (e.key === "Enter") return this.#clicked();
    if (e.key === "+") {
      const { from, to } = this.window;
      const middle = this.plot.cursor.idx === null || this.plot.cursor.idx === undefined ? to : xs[i] * 1000;
      const quarter = (to - from) / 4;
      const start = Math.min(Math.max(from, middle - quarter), to - 2 * quarter);
      return this.panel.board.zoom(start, start + 2 * quarter);
    }
    if (e.key === "-") return this.panel.board.zoomOut();
    const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: n - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const j = Math.min(n - 1, Math.max(0, to));
    this.plot.setCursor({ left: this.plot.valToPos(xs[j], "x"), top: 10 });
    this.region.textContent = `${time(new Date(xs[j] * 1000).toISOString(), this.tz)}: ${this.names.map((name, k) => `${name} ${number(this.columns.raw[k][j], this.config.unit)}`).join(", ")}`;
  }

  #size() {
    const box = this.panel.body.getBoundingClientRect();
    // A legend that has once needed two lines keeps them: the chart must not jump with its numbers.
    const foot = this.legend.foot.offsetHeight || 24;
    this.legend.foot.style.minHeight = `${foot}px`;
    return { width: Math.max(120, Math.floor(box.width)), height: Math.max(90, Math.floor(box.height) - foot - 4) };
  }

  #resize() {
    if (!this.plot) return;
    const size = this.#size();
    if (size.width !== this.plot.width || size.height !== this.plot.height) this.plot.setSize(size);
  }
}
