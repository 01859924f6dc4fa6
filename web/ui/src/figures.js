// Panels that are HTML and SVG: a number, bar lists, bars, heat map, histogram.

import { h, s, patch } from "./dom.js";
import { number, axisNumber, cell, nameOf, time } from "./format.js";
import { stringify } from "./json.js";
import { statusText } from "./rows.js";

const finite = (v) => (v === null || v === undefined || v === "" ? NaN : Number(v));

// A list of all rows of a view is too long to be the arguments of Math.min.
const least = (list, first = Infinity) => list.reduce((a, b) => Math.min(a, b), first);
const most = (list, first = -Infinity) => list.reduce((a, b) => Math.max(a, b), first);

// together makes one value of several, as the measure allows it; null where it does not.
function together(values, how) {
  const list = values.map(finite).filter((v) => !Number.isNaN(v));
  if (!list.length || !how) return null;
  return { sum: () => list.reduce((a, b) => a + b, 0), min: () => least(list), max: () => most(list) }[how]();
}

// cannot says why values are not put together, and what to do.
function cannot(panel, y) {
  return h(
    "div",
    { class: "state" },
    h("strong", null, `${y} can’t be put together`),
    h("p", null, "An average, a distinct count or a quantile of several rows is not made of their values. A view with the wanted grouping computes it."),
    h("p", null, h("a", { class: "button", href: `/new?from=${encodeURIComponent(panel.config.view)}` }, "Make that view")),
  );
}

export function stat(panel) {
  const { x, unit } = panel.config;
  const y = panel.config.y[0];
  const { current, previous } = panel.split();
  const how = panel.merge(y);
  const { series } = panel.config;
  // One value an instant: a view by country as well is put together over the countries if it may be.
  const line = [];
  if (x) {
    const at = new Map();
    for (const e of current) {
      if (!at.has(e.row[x])) at.set(e.row[x], []);
      at.get(e.row[x]).push(e);
    }
    for (const list of at.values()) {
      if (list.length > 1 && !how) return patch(panel.body, [cannot(panel, y)]);
      line.push({ value: list.length > 1 ? together(list.map((e) => e.row[y]), how) : list[0].row[y], open: list.some((e) => e.status === "provisional"), status: list[0].status });
    }
  } else if (current.length > 1) {
    if (!how) return patch(panel.body, [cannot(panel, series ?? y)]);
    line.push({ value: together(current.map((e) => e.row[y]), how), open: false });
  } else line.push({ value: current[0]?.row[y] ?? null, status: current[0]?.status, open: false });
  if (!line.length) line.push({ value: null });
  const last = line.at(-1);
  const delta = (a, b, title) => {
    if (a === null || b === null || typeof a === "string" || typeof b === "string") return null;
    const [from, to] = [Number(b), Number(a)];
    if (!from) return null;
    const d = ((to - from) / Math.abs(from)) * 100;
    const sign = d > 0 ? "▲" : d < 0 ? "▼" : "=";
    return h("span", { class: `delta ${d > 0 ? "up" : d < 0 ? "down" : ""}`, title }, `${sign} ${Math.abs(d).toFixed(Math.abs(d) < 10 ? 1 : 0)} %`);
  };
  let value = last.value;
  const sub = [];
  if (x && panel.compares && how) {
    value = together(line.map((e) => e.value), how);
    const before = together(previous.map((e) => e.row[y]), how);
    sub.push(h("span", { class: "badge" }, how === "sum" ? "whole range" : `${how} of the range`));
    sub.push(before === null || panel.beyond ? null : delta(value, before, `against ${number(before, unit)} in the period before`));
    sub.push(h("span", { class: "muted" }, panel.beyond || `before: ${number(before, unit)}`));
  } else if (x) {
    const closed = line.filter((e) => !e.open);
    sub.push(last.open ? h("span", { class: "badge open" }, "still open") : h("span", { class: `badge ${last.status ?? ""}` }, statusText[last.status] ?? ""));
    const change = delta(closed.at(-1)?.value ?? null, closed.at(-2)?.value ?? null, "the last closed window against the one before");
    if (change) sub.push(change, h("span", { class: "muted" }, "last closed"));
  }
  const parts = [h("div", { class: "stat-value", title: value === null ? null : String(value) }, number(value, unit))];
  if (x) parts.push(h("div", { class: "stat-sub" }, sub), spark(line.map((e) => finite(e.value)), last.open));
  else parts.push(...since(panel, value, unit));
  patch(panel.body, [h("div", { class: "stat" }, parts)]);
}

const STEP = 5000; // milliseconds between two points of a number that has no time of its own
const STEPS = 120;

// since is what a number without a time has done since the page was opened.
function since(panel, value, unit) {
  const v = finite(value);
  const at = Date.parse(panel.rows.asOf?.watermark ?? "") || Date.now();
  const key = panel.where();
  if (panel.since?.key !== key) panel.since = { key, first: v, at, points: [], last: 0 };
  const { first, points } = panel.since;
  if (Number.isFinite(v)) {
    if (Date.now() - panel.since.last >= STEP || points.length < 2) {
      points.push(v);
      panel.since.last = Date.now();
      if (points.length > STEPS) points.shift();
    } else points[points.length - 1] = v;
  }
  const d = v - first;
  const moved = d ? h("span", { class: `delta ${d > 0 ? "up" : "down"}` }, `${d > 0 ? "+" : "−"}${number(Math.round(Math.abs(d) * 100) / 100, unit)}`) : h("span", { class: "muted" }, "unchanged");
  return [h("div", { class: "stat-sub" }, moved, h("span", { class: "muted" }, `since ${time(new Date(panel.since.at).toISOString(), panel.tz)}`)), spark(points.map((p) => p - Math.min(...points)), false)];
}

// byLabel gives one value a label. Over windows it is the newest one's, unless the measure adds up.
function byLabel(panel, label, y) {
  const { x } = panel.config;
  const how = panel.merge(y);
  const groups = new Map();
  for (const e of panel.sorted()) {
    const v = e.row[label];
    const same = v !== null && typeof v === "object" ? stringify(v) : v;
    if (!groups.has(same)) groups.set(same, []);
    groups.get(same).push(e);
  }
  const list = [...groups.values()].map((entries) => {
    const value = entries[0].row[label];
    if (entries.length === 1) return { label: value, value: entries[0].row[y], open: entries[0].status === "provisional", n: 1 };
    if (how) return { label: value, value: together(entries.map((e) => e.row[y]), how), open: entries.some((e) => e.status === "provisional"), n: entries.length };
    if (x && label !== x) return { label: value, value: entries.at(-1).row[y], open: entries.at(-1).status === "provisional", newest: true, n: 1 };
    return { label: value, value: null, broken: true, n: entries.length };
  });
  return { list, how };
}

// labelOf is the column whose values a list names.
function labelOf(panel) {
  const { series, x, columns, y } = panel.config;
  if (series) return series;
  const words = columns?.find((c) => !c.measure && !/^(TIMESTAMP|DATE)/.test(c.type));
  return words?.name ?? x ?? Object.keys([...panel.rows][0].row).find((n) => n !== y[0]);
}

export function toplist(panel) {
  const { unit, limit } = panel.config;
  const y = panel.config.y[0];
  const label = labelOf(panel);
  const { list, how } = byLabel(panel, label, y);
  if (list.some((e) => e.broken)) return patch(panel.body, [cannot(panel, y)]);
  list.sort((a, b) => finite(b.value) - finite(a.value) || String(a.label).localeCompare(String(b.label)));
  const total = how === "sum" && !panel.more ? list.reduce((n, e) => n + (finite(e.value) || 0), 0) : 0;
  const shown = list.slice(0, limit || 10);
  const longest = most(shown.map((e) => Math.abs(finite(e.value)) || 0), 1e-9);
  const active = panel.board.filters.get(label);
  patch(panel.body, [
    h(
      "ol",
      { class: "bars", tabindex: "0" },
      shown.map((e) =>
        h(
          "li",
          null,
          h(
            "button",
            { type: "button", "data-filter": e.label !== null && typeof e.label === "object" ? null : label, "data-value": stringify(e.label), "aria-pressed": active !== undefined && active === e.label ? "true" : null, title: `Only ${label} = ${cell(e.label)}` },
            h("span", { class: "bar-label" }, cell(e.label, null, panel.tz)),
            ground((100 * (Math.abs(finite(e.value)) || 0)) / longest),
            h("span", { class: "num" }, number(e.value, unit)),
            total > 0 ? h("span", { class: "share num" }, `${((100 * finite(e.value)) / total).toFixed(0)} %`) : null,
          ),
        ),
      ),
      list.length > shown.length ? h("li", { class: "rest muted" }, panel.more ? (panel.total ? `and ${(panel.total - shown.length).toLocaleString("en")} more` : "and more") : `and ${(list.length - shown.length).toLocaleString("en")} more`) : null,
    ),
  ]);
}

const MOST_BARS = 40;
const MOST_LABELS = 12; // beyond it not every bar has its name below

// bars draws upright bars over categories, one beside the other for each series.
export function bars(panel) {
  const { x, series, unit, y, style } = panel.config;
  const names = [];
  const at = new Map();
  for (const e of panel.sorted()) {
    const key = e.row[x];
    if (!at.has(key)) at.set(key, new Map());
    for (const [name, v] of series ? [[nameOf(e.row[series]), e.row[y[0]]]] : y.map((n) => [n, e.row[n]])) {
      if (!names.includes(name)) names.push(name);
      const had = at.get(key).get(name);
      const how = panel.merge(series ? y[0] : name);
      if (had !== undefined && !how) return patch(panel.body, [cannot(panel, y[0])]);
      at.get(key).set(name, had === undefined ? finite(v) : together([had, v], how));
    }
  }
  // Of more categories than there is room for, the largest stand here, unless the panel has its order.
  const total = (key) => [...at.get(key).values()].reduce((n, v) => n + (v || 0), 0);
  const all = [...at.keys()];
  const ranked = all.length > MOST_BARS && !panel.config.order && typeof all[0] === "string";
  const keys = (ranked ? all.sort((a, b) => total(b) - total(a)) : all).slice(0, MOST_BARS);
  const rest = at.size - keys.length > 0 ? `the ${ranked ? "largest" : "first"} ${MOST_BARS} of ${at.size.toLocaleString("en")}` : "";
  const every = Math.ceil(keys.length / MOST_LABELS);
  const stacked = style === "stacked";
  const sum = (m) => [...m.values()].reduce((n, v) => n + (v || 0), 0);
  const high = ceiling(Math.max(...keys.map((k) => (stacked ? sum(at.get(k)) : Math.max(...at.get(k).values()))), 1e-9));
  const wide = 100 / keys.length;
  const svg = s("svg", { class: "plot", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${panel.config.title}: ${keys.slice(0, 5).map((k) => `${cell(k)} ${names.map((n) => number(at.get(k).get(n) ?? null, unit)).join("/")}`).join(", ")}` });
  keys.forEach((k, i) => {
    let base = 100;
    names.slice(0, 8).forEach((n, j) => {
      const v = at.get(k).get(n);
      if (!(v > 0)) return;
      const tall = (100 * v) / high;
      const slot = stacked ? wide * 0.8 : (wide * 0.8) / names.length;
      const left = i * wide + wide * 0.1 + (stacked ? 0 : j * slot);
      svg.append(s("rect", { class: `fill s${j + 1}`, x: left.toFixed(3), width: (slot * 0.96).toFixed(3), y: (base - tall).toFixed(3), height: tall.toFixed(3) }, title(`${cell(k, null, panel.tz)}${names.length > 1 ? `, ${n}` : ""}: ${number(v, unit)}`)));
      if (stacked) base -= tall;
    });
  });
  patch(panel.body, [
    h("div", { class: "plot-box" }, scale(high, unit), svg, h("ul", { class: every > 1 ? "categories thin" : "categories" }, keys.filter((_, i) => i % every === 0).map((k) => h("li", { title: cell(k, null, panel.tz) }, cell(k, null, panel.tz))))),
    names.length > 1 ? h("ul", { class: "legend" }, [...names.slice(0, 8).map((n, j) => h("li", null, h("i", { class: `swatch s${j + 1}` }), n)), names.length > 8 ? h("li", { class: "muted" }, `and ${names.length - 8} more`) : null, rest ? h("li", { class: "muted" }, rest) : null]) : h("ul", { class: "legend" }, h("li", { class: "muted" }, y[0].replaceAll("_", " "), rest && ` · ${rest}`)),
  ]);
}

// ceiling is a round number that is not below: its half is round too.
function ceiling(v) {
  const p = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((k) => k * p >= v * 0.9999) * p;
}

const scale = (high, unit) => h("ul", { class: "scale", "aria-hidden": "true" }, h("li", null, axisNumber(high, unit)), h("li", null, axisNumber(high / 2, unit)), h("li", null, "0"));
const title = (text) => {
  const t = s("title", null);
  t.textContent = text;
  return t;
};

const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const steps = 8;
const MOST_LINES = 60;

// heatmap colours a grid: series by x, or, for one line over time, weekday by hour.
export function heatmap(panel) {
  const { x, series, unit } = panel.config;
  const y = panel.config.y[0];
  const how = panel.merge(y);
  const cells = new Map();
  const parts = new Intl.DateTimeFormat("en-GB", { timeZone: panel.tz, weekday: "short", hour: "2-digit", hourCycle: "h23" });
  const calendar = !series && panel.temporal();
  const columns = calendar ? Array.from({ length: 24 }, (_, i) => String(i).padStart(2, "0")) : [];
  const lines = calendar ? days : [];
  for (const e of panel.sorted()) {
    let line = nameOf(e.row[series]);
    let column = e.row[x];
    if (calendar) {
      const p = Object.fromEntries(parts.formatToParts(Date.parse(e.row[x])).map((q) => [q.type, q.value]));
      [line, column] = [p.weekday, p.hour];
    }
    if (!lines.includes(line)) lines.push(line);
    if (!columns.includes(column)) columns.push(column);
    const key = `${line}\u0000${column}`;
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(e);
  }
  const shown = columns.slice(calendar ? 0 : -60);
  const values = new Map();
  for (const [key, list] of cells) {
    if (list.length > 1 && !how) return patch(panel.body, [cannot(panel, y)]);
    values.set(key, list.length > 1 ? together(list.map((e) => e.row[y]), how) : finite(list[0].row[y]));
  }
  const all = [...values.values()].filter((v) => Number.isFinite(v));
  const [low, high] = [least(all, 0), most(all, 1e-9)];
  const every = Math.max(1, Math.ceil(shown.length / 8));
  const name = (c) => (calendar ? c : cell(c, null, panel.tz));
  patch(panel.body, [
    h(
      "div",
      { class: "table-scroll", tabindex: "0" },
      h(
        "table",
        { class: "heat" },
        h("caption", { class: "visually-hidden" }, `${y} by ${calendar ? "weekday and hour" : `${series} and ${x}`}`),
        h("tbody", null, lines.slice(0, MOST_LINES).map((l) => h("tr", null, h("th", { scope: "row", title: l }, l), shown.map((c) => {
          const v = values.get(`${l}\u0000${c}`);
          const q = v === undefined ? "none" : Math.min(steps, 1 + Math.floor((steps * (v - low)) / (high - low || 1)));
          return h("td", { class: `q${q}`, title: `${l} ${name(c)}: ${v === undefined ? "nothing" : number(v, unit)}` }, h("span", { class: "visually-hidden" }, v === undefined ? "nothing" : number(v, unit)));
        })))),
        h("tfoot", null, h("tr", null, h("td", null), shown.map((c, i) => (i % every ? null : h("th", { colspan: Math.min(every, shown.length - i), scope: "col" }, name(c)))))),
      ),
    ),
    h("div", { class: "heat-key" }, h("span", null, number(low, unit)), Array.from({ length: steps }, (_, i) => h("i", { class: `q${i + 1}` })), h("span", null, number(high, unit)), lines.length > MOST_LINES ? h("span", { class: "muted" }, `and ${(lines.length - MOST_LINES).toLocaleString("en")} more lines`) : null),
  ]);
}

// histogram shows how a measure is spread: x as the bins' edges when the view has bins, or the
// values of the rows in bins of equal width.
export function histogram(panel) {
  const { x, unit } = panel.config;
  const y = panel.config.y?.[0] ?? panel.measures()[0];
  let bins;
  if (x && !panel.temporal()) bins = panel.sorted().map((e) => ({ from: Number(e.row[x]), n: finite(e.row[y]) || 0 })).sort((a, b) => a.from - b.from);
  else {
    const values = [...panel.rows].map((e) => finite(e.row[y])).filter((v) => Number.isFinite(v));
    if (!values.length) return;
    const low = least(values);
    const high = most(values);
    const count = Math.min(24, Math.max(4, Math.ceil(Math.sqrt(values.length))));
    const step = nice((high - low) / count || 1);
    const first = Math.floor(low / step) * step;
    bins = [];
    for (let b = first; b <= high; b += step) bins.push({ from: b, to: b + step, n: 0 });
    for (const v of values) bins[Math.min(bins.length - 1, Math.floor((v - first) / step))].n++;
  }
  const high = ceiling(Math.max(...bins.map((b) => b.n), 1e-9));
  const svg = s("svg", { class: "plot", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${panel.config.title}: ${bins.length} bins, the largest holds ${number(high)}` });
  const wide = 100 / bins.length;
  bins.forEach((b, i) => {
    const tall = (100 * b.n) / high;
    svg.append(s("rect", { class: "fill s1", x: (i * wide + wide * 0.03).toFixed(3), width: (wide * 0.94).toFixed(3), y: (100 - tall).toFixed(3), height: tall.toFixed(3) }, title(`${number(b.from, unit)}${b.to === undefined ? "" : ` – ${number(b.to, unit)}`}: ${number(b.n)}`)));
  });
  const edges = [bins[0].from, bins[Math.floor(bins.length / 2)].from, bins.at(-1).to ?? bins.at(-1).from];
  patch(panel.body, [
    h("div", { class: "plot-box" }, scale(high), svg, h("ul", { class: "categories spread" }, edges.map((v) => h("li", null, axisNumber(v, unit))))),
    h("ul", { class: "legend" }, h("li", { class: "muted" }, x && !panel.temporal() ? y : `rows by ${y}`)),
  ]);
}

// nice rounds a step up to 1, 2 or 5 times a power of ten.
function nice(step) {
  const p = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].find((k) => k * p >= step) * p;
}

// spark is a small line of the values; the last piece is dashed while its window is open.
export function spark(values, open) {
  const points = values.filter((v) => Number.isFinite(v)).slice(-60);
  const svg = s("svg", { class: "spark", viewBox: "0 0 200 40", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (points.length < 2) return svg;
  const high = Math.max(...points, 0);
  const low = Math.min(...points, 0);
  const xy = points.map((v, i) => [(i * 200) / (points.length - 1), 38 - ((v - low) / (high - low || 1)) * 36]);
  const path = (list) => "M" + list.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
  const solid = open ? xy.slice(0, -1) : xy;
  svg.append(s("path", { class: "spark-area", d: `${path(xy)}L200 40L0 40Z` }), s("path", { class: "spark-line", d: path(solid) }));
  if (open) svg.append(s("path", { class: "spark-line open", d: path(xy.slice(-2)) }));
  return svg;
}

// ground is the ground of a list's line, so long as its share in percent.
function ground(share) {
  const svg = s("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(s("rect", { width: share.toFixed(2), height: 1 }));
  return svg;
}
