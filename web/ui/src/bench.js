// What a tick of a busy dashboard costs: 8 charts of 4 series of 1,800 points, each of which gets a
// new point at every tick. `make bench-ui` runs it in a browser; it is no part of any page.

import { Chart } from "./chart.js";
import { Rows } from "./rows.js";
import { h } from "./dom.js";

const CHARTS = 8;
const SERIES = 4;
const POINTS = 1800;
const TICKS = 60;
const WARM = 10;

const style = h("style", null, ".panel-body{width:420px;height:260px;float:left}");
document.head.append(style);
const now = Math.floor(Date.now() / 1000);
const row = (i, s) => ({ window_start: new Date((now - POINTS + i) * 1000).toISOString().replace(".000Z", "Z"), name: `series ${s}`, n: 50 + 40 * Math.sin(i / 60 + s) + ((i * 7919 * (s + 1)) % 13) });
const config = { title: "bench", type: "timeseries", x: "window_start", y: ["n"], series: "name" };
const panels = Array.from({ length: CHARTS }, () => {
  const body = h("div", { class: "panel-body" });
  document.body.append(body);
  const panel = { config, tz: "UTC", body, root: body, merge: () => "sum", board: { filters: new Map() } };
  panel.rows = new Rows(["n"], "window_start");
  const rows = [];
  for (let i = 0; i < POINTS; i++) for (let s = 0; s < SERIES; s++) rows.push(row(i, s));
  panel.rows.snapshot({ rows, statuses: rows.map(() => "final") });
  panel.chart = new Chart(panel);
  return panel;
});

let tick = 0;
let spent = 0;
const frame = () => {
  const start = performance.now();
  for (const p of panels) {
    const changes = [];
    for (let s = 0; s < SERIES; s++) changes.push({ op: "-", row: row(tick, s) }, { op: "+", row: row(POINTS + tick, s), status: "provisional" });
    p.rows.changes({ changes }, Date.now());
    const from = (now - POINTS + tick) * 1000;
    p.chart.draw(p.rows, { from, to: from + POINTS * 1000, span: POINTS * 1000, fixed: true, moving: false }, false);
  }
  // uPlot draws in a microtask behind this one: the tick ends when the canvases are painted.
  queueMicrotask(() =>
    queueMicrotask(() => {
      if (tick >= WARM) spent += performance.now() - start;
      if (++tick < TICKS + WARM) setTimeout(frame, 200);
      else window.benched = spent / TICKS;
    }),
  );
};
frame();
