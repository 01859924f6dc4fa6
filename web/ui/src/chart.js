// The only module that knows uPlot. Axis widths are fixed and the y-range grows at once and
// shrinks slowly, so that a live chart does not jump.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { h, patch } from "./dom.js";
import { number, axisNumber, time, axisTime } from "./format.js";

const MAX_SERIES = 8;
const SHRINK = 0.04; // share of the way a frame that the y-range takes back towards its data
const MARK_FOR = 8000; // a corrected point is ringed this long
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

export class Chart {
  constructor(panel) {
    this.panel = panel;
    this.config = panel.config;
    this.tz = panel.tz;
    this.style = this.config.type === "bar" ? (this.config.series ? "stacked bars" : "bars") : (this.config.style ?? "line");
    this.stacked = this.style.startsWith("stacked");
    this.barred = this.style.includes("bars");
    this.frame = h("div", { class: "chart", tabindex: "0", role: "application", "aria-roledescription": "chart" });
    this.legend = h("ul", { class: "legend" });
    this.at = h("p", { class: "chart-at" });
    this.region = h("p", { class: "visually-hidden", role: "status", "aria-live": "polite" });
    panel.body.append(this.frame, h("div", { class: "chart-foot" }, this.legend, this.at), this.region);
    this.names = [];
    this.top = 0;
    this.low = 0;
    this.marks = [];
    this.sized = new ResizeObserver(() => this.#resize());
    this.sized.observe(panel.body);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.#rebuild();
    this.dark.addEventListener("change", this.repaint);
    this.themed = new MutationObserver(this.repaint);
    this.themed.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.frame.addEventListener("keydown", (e) => this.#key(e));
    this.legend.addEventListener("click", (e) => {
      const i = e.target.closest("button")?.dataset.series;
      if (i !== undefined && this.config.series) panel.board.filter(this.config.series, this.values.get(this.names[i]) ?? this.names[i]);
    });
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

  // draw shows entries, and those of the period before moved onto it.
  draw(entries, previous, window) {
    this.window = window;
    const { x, y, series } = this.config;
    const measure = y[0];
    const how = this.panel.merge(measure);
    const times = new Map();
    const totals = new Map();
    const now = Date.now();
    this.values = new Map();
    this.marks = [];
    const slotAt = (t) => {
      if (!times.has(t)) times.set(t, { open: false, values: new Map(), was: new Map() });
      return times.get(t);
    };
    const put = (slot, name, v) => {
      const n = v === null || v === undefined ? null : Number(v);
      const had = slot.values.get(name);
      if (had === undefined || had === null || n === null) slot.values.set(name, n ?? had ?? null);
      else if (how === "sum") slot.values.set(name, had + n);
      else if (how === "min") slot.values.set(name, Math.min(had, n));
      else if (how === "max") slot.values.set(name, Math.max(had, n));
      else this.clash = true;
      totals.set(name, (totals.get(name) ?? 0) + Math.abs(n ?? 0));
    };
    this.clash = false;
    for (const e of entries) {
      const t = (e.at ??= Date.parse(e.row[x]) / 1000);
      const slot = slotAt(t);
      slot.open ||= e.status === "provisional";
      if (series) this.values.set(String(e.row[series] ?? "–"), e.row[series] ?? null);
      for (const [name, v, was] of series ? [[String(e.row[series] ?? "–"), e.row[measure], e.was?.[measure]]] : y.map((n) => [n, e.row[n], e.was?.[n]])) {
        put(slot, name, v);
        if (e.was && was !== v) {
          slot.was.set(name, was);
          if (now - e.changed < MARK_FOR) this.marks.push({ t, name });
        }
      }
    }
    const before = "period before";
    if (previous.length) {
      for (const e of previous) {
        const slot = slotAt((Date.parse(e.row[x]) + window.span) / 1000);
        if (!series) put(slot, before, e.row[measure]);
        else if (how === "sum") put(slot, before, e.row[measure]);
      }
      totals.delete(before);
    }
    // A series keeps its colour: new names join at the end.
    const ranked = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a)).slice(0, MAX_SERIES);
    const names = [...this.names.filter((n) => totals.has(n)), ...ranked.filter((n) => !this.names.includes(n))].slice(0, MAX_SERIES);
    const left = totals.size - names.length;
    this.rest = left > 0 ? `and ${left} more` : "";
    const xs = [...times.keys()].sort((a, b) => a - b);
    this.raw = names.map((n) => xs.map((t) => times.get(t).values.get(n) ?? null));
    this.was = names.map((n) => xs.map((t) => times.get(t).was.get(n)));
    this.beforeLine = previous.length && xs.some((t) => times.get(t).values.has(before)) ? xs.map((t) => times.get(t).values.get(before) ?? null) : null;
    let drawn = this.raw;
    if (this.stacked) {
      const sums = xs.map(() => 0);
      drawn = this.raw.map((ys) => ys.map((v, i) => (sums[i] += v ?? 0)));
    }
    // Stacked bars hide what lies behind them: the highest is drawn first.
    this.order = names.map((_, k) => (this.stacked && this.barred ? names.length - 1 - k : k));
    const data = [xs, ...this.order.map((k) => drawn[k])];
    if (this.beforeLine) data.push(this.beforeLine);
    this.open = xs.map((t) => times.get(t).open);
    const shape = [...names, this.beforeLine ? before : ""].join("\u0000");
    this.data = data;
    if (!this.plot || shape !== this.shape) {
      this.shape = shape;
      this.names = names;
      this.#rebuild();
    } else {
      this.plot.setData(data, false);
      this.#scale();
    }
    this.#legend();
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
    this.plot?.destroy();
    const ink = css("ink-2");
    const grid = css("line");
    this.openGround = css("open-ground");
    this.markColor = css("warn");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font: "11px system-ui" };
    const narrow = this.panel.body.clientWidth < 380;
    const series = [{}, ...this.order.map((k) => this.#series(this.names[k], k))];
    if (this.beforeLine) series.push({ label: "period before", stroke: ink, width: 1.5, dash: [3, 4], points: { show: false } });
    const options = {
      ...this.#size(),
      cursor: { points: { size: 7 }, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => () => this.#back() } },
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
      hooks: { setCursor: [() => this.#legend()], drawAxes: [(u) => this.#shade(u)], draw: [(u) => this.#ring(u)], setSelect: [(u) => this.#select(u)] },
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
      width: this.barred ? 0 : 2,
      dash: this.stacked || this.barred ? undefined : dashes[i],
      fill: filled ? faded(color, alpha) : undefined,
      paths: this.barred ? uPlot.paths.bars({ size: [0.8, 60], align: 0 }) : undefined,
      points: { show: !this.barred && this.data[0].length < 3 },
      spanGaps: false,
    };
  }

  // Windows that are still open lie on a hatched ground.
  #shade(u) {
    const first = this.open?.indexOf(true) ?? -1;
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
    for (const { t, name } of this.marks) {
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

  #legend() {
    const { unit, series } = this.config;
    const last = this.data[0].length - 1;
    const i = this.plot?.cursor.idx ?? last;
    const at = this.data[0][i];
    const items = this.names.map((name, k) => {
      const was = this.was[k][i];
      const inside = [h("i", { class: `swatch s${k + 1}` }), h("span", null, name), was === undefined ? null : h("del", { title: "before the correction" }, number(was, unit)), h("b", { class: "num" }, number(this.raw[k][i] ?? null, unit))];
      return h("li", null, series ? h("button", { type: "button", "data-series": k, title: `Only ${series} = ${name}` }, inside) : inside);
    });
    if (this.beforeLine) items.push(h("li", null, h("i", { class: "swatch before" }), h("span", null, "before"), h("b", { class: "num" }, number(this.beforeLine[i] ?? null, unit))));
    if (this.rest) items.push(h("li", { class: "muted" }, this.rest));
    if (this.clash) items.push(h("li", { class: "warning" }, "several rows a point, and this measure can’t be put together: choose a series"));
    patch(this.legend, items);
    const text = at === undefined ? "" : `${time(new Date(at * 1000).toISOString(), this.tz)}${this.open[i] ? " · still open" : ""}`;
    if (this.at.textContent !== text) this.at.textContent = text;
    const label = `${this.config.title}: ${this.names.map((n, k) => `${n} ${number(this.raw[k][last] ?? null, unit)}`).slice(0, 4).join(", ")}. Arrow keys move along time, Enter tells where a point comes from, plus and minus zoom.`;
    if (this.frame.getAttribute("aria-label") !== label) this.frame.setAttribute("aria-label", label);
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
    this.region.textContent = `${time(new Date(xs[j] * 1000).toISOString(), this.tz)}: ${this.names.map((name, k) => `${name} ${number(this.raw[k][j], this.config.unit)}`).join(", ")}`;
  }

  #size() {
    const box = this.panel.body.getBoundingClientRect();
    const foot = this.legend.parentElement?.offsetHeight || 24;
    return { width: Math.max(120, Math.floor(box.width)), height: Math.max(90, Math.floor(box.height) - foot - 4) };
  }

  #resize() {
    if (!this.plot) return;
    const size = this.#size();
    if (size.width !== this.plot.width || size.height !== this.plot.height) this.plot.setSize(size);
  }
}
