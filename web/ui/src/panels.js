// One panel: it subscribes to its view, keeps the rows, and draws them by its type.

import { h, s, patch } from "./dom.js";
import { Rows, statusText } from "./rows.js";
import { number, cell, time, isTime, rangeMillis, ago } from "./format.js";
import { passport } from "./passport.js";

const HIGHLIGHT_FOR = 6000; // a corrected value stays marked this long
const STALE_AFTER = 12000;

export function mount(root, live, board) {
  const config = JSON.parse(root.dataset.panel);
  if (config.type === "text") return null;
  const kind = { feed: Feed, alerts: Alerts }[config.type] ?? ViewPanel;
  return new kind(root, config, live, board);
}

class Panel {
  constructor(root, config, live, board) {
    this.root = root;
    this.config = config;
    this.board = board;
    this.live = live;
    this.body = root.querySelector(".panel-body");
    this.foot = root.querySelector(".panel-foot");
    this.note = root.querySelector(".panel-note");
    this.tz = board.tz;
    this.pending = 0;
    this.heard = Date.now();
    this.stop = live.subscribe(this.request(), (m) => this.#message(m));
    board.onFrame(() => this.#frame());
  }

  #message(m) {
    this.heard = Date.now();
    if (m.type === "error") {
      this.failed = m;
      this.dirty = true;
      return;
    }
    if (this.take(m)) {
      this.failed = null;
      this.dirty = true;
      if (this.board.paused) this.pending++;
    }
  }

  #frame() {
    this.root.classList.toggle("stale", this.live.state !== "live" || Date.now() - this.heard > STALE_AFTER);
    if (this.board.paused || document.hidden || this.root.matches(":has(.panel-body:active)")) return;
    this.pending = 0;
    if (!this.dirty && !this.ticks?.()) return;
    this.dirty = false;
    if (this.failed) this.#showFailure();
    else this.draw();
  }

  #showFailure() {
    patch(this.body, [
      h("div", { class: "state error", role: "alert" }, h("strong", null, "This panel can’t be shown"), h("p", null, this.failed.message ?? this.failed.code)),
    ]);
  }

  setNote(text, kind = "") {
    if (this.note.textContent !== text) this.note.textContent = text;
    this.note.dataset.kind = kind;
  }
}

// ViewPanel shows rows of a view: stat, timeseries, toplist, bar, table.
class ViewPanel extends Panel {
  constructor(root, config, live, board) {
    super(root, config, live, board);
    this.rows = new Rows(this.measures());
    this.opened = h("button", { type: "button", class: "passport-open", title: "Where this number comes from", "aria-label": `Passport of ${config.title}` }, "i");
    this.opened.addEventListener("click", () => passport(this));
    root.querySelector("header").append(this.opened);
  }

  measures() {
    const y = this.config.y ?? [];
    return y.length ? y : (this.config.columns ?? []).filter((c) => c.measure).map((c) => c.name);
  }

  request() {
    const { view, where, order, limit, x } = this.config;
    const request = { to: view, from: "snapshot" };
    if (where) request.where = where;
    if (order && limit) Object.assign(request, { order, limit });
    if (x && rangeMillis(this.board.range)) request.range = this.board.range;
    return request;
  }

  take(m) {
    if (m.type === "snapshot") {
      this.rows.snapshot(m);
      return !m.more;
    }
    if (m.type === "changes") {
      this.rows.changes(m, Date.now());
      return true;
    }
    if (m.type === "progress") {
      this.rows.asOf = m.as_of ?? this.rows.asOf;
      this.rows.position = m.position ?? this.rows.position;
      return true;
    }
    return false;
  }

  draw() {
    const span = rangeMillis(this.board.range);
    const { x } = this.config;
    if (x && span) {
      const oldest = Date.now() - span - 60000;
      this.rows.drop((row) => Date.parse(row[x]) < oldest);
    }
    if (!this.rows.size) this.#empty();
    else {
      this.body.querySelector(":scope > .state")?.remove();
      this[this.config.type === "bar" ? "toplist" : this.config.type]?.();
    }
    this.#footer();
  }

  #empty() {
    const w = this.rows.asOf?.watermark;
    patch(this.body, [
      h(
        "div",
        { class: "state empty" },
        h("strong", null, "No rows in this range yet"),
        h("p", null, w ? `Event time has come to ${time(w, this.tz)}.` : "The stream has no event yet. This panel fills by itself when the first one arrives."),
      ),
    ]);
  }

  #footer() {
    const w = this.rows.asOf?.watermark;
    let open = 0;
    let corrected = 0;
    for (const e of this.rows) {
      if (e.status === "provisional") open++;
      else if (e.status === "corrected") corrected++;
    }
    const parts = [];
    if (w) parts.push(h("span", { title: "Nothing older than this is expected any more" }, `complete to ${time(w, this.tz)}`));
    if (open && this.config.x) parts.push(h("span", { class: "badge open" }, `${open} open`));
    if (corrected) parts.push(h("span", { class: "badge corrected" }, `${corrected} corrected`));
    patch(this.foot, parts);
  }

  // sorted gives the entries from the oldest to the newest by x.
  sorted() {
    const { x } = this.config;
    const list = [...this.rows];
    if (x) list.sort((a, b) => (a.row[x] < b.row[x] ? -1 : a.row[x] > b.row[x] ? 1 : 0));
    return list;
  }

  stat() {
    const y = this.config.y[0];
    const list = this.sorted();
    const last = list.at(-1);
    const closed = this.config.x ? list.filter((e) => e.status !== "provisional") : [];
    const a = closed.at(-1)?.row[y];
    const b = closed.at(-2)?.row[y];
    const parts = [h("div", { class: "stat-value" }, number(last.row[y], this.config.unit))];
    if (this.config.x) {
      parts.push(h("div", { class: "stat-sub" }, last.status === "provisional" ? h("span", { class: "badge open" }, "still open") : h("span", { class: "badge" }, statusText[last.status])));
      if (typeof a === "number" && typeof b === "number" && b !== 0) {
        const delta = ((a - b) / Math.abs(b)) * 100;
        parts.at(-1).append(h("span", { class: `delta ${delta >= 0 ? "up" : "down"}`, title: "the last closed window against the one before" }, `${delta >= 0 ? "▲" : "▼"} ${Math.abs(delta).toFixed(delta > -10 && delta < 10 ? 1 : 0)} %`));
      }
      parts.push(spark(list.map((e) => Number(e.row[y])), last.status === "provisional"));
    }
    patch(this.body, [h("div", { class: "stat" }, parts)]);
  }

  toplist() {
    const y = this.config.y[0];
    const label = this.config.series ?? this.config.x ?? Object.keys([...this.rows][0].row).find((n) => n !== y);
    let list = [...this.rows];
    if (this.config.x && label !== this.config.x) {
      // One row a label: the newest window, so that nothing is summed that can't be.
      const newest = new Map();
      for (const e of this.sorted()) newest.set(e.row[label], e);
      list = [...newest.values()];
    }
    list.sort((a, b) => Number(b.row[y]) - Number(a.row[y]) || String(a.row[label]).localeCompare(String(b.row[label])));
    list = list.slice(0, this.config.limit || 10);
    const most = Math.max(...list.map((e) => Math.abs(Number(e.row[y])) || 0), 1e-9);
    patch(this.body, [
      h(
        "ol",
        { class: "bars" },
        list.map((e) =>
          h(
            "li",
            { class: e.status },
            h("span", { class: "bar-label" }, cell(e.row[label], null, this.tz)),
            bar((100 * (Math.abs(Number(e.row[y])) || 0)) / most),
            h("span", { class: "num" }, number(e.row[y], this.config.unit)),
          ),
        ),
      ),
    ]);
  }

  table() {
    const list = this.sorted();
    if (this.config.x) list.reverse();
    const names = this.config.columns?.length ? this.config.columns.map((c) => c.name) : Object.keys(list[0].row);
    const shown = this.config.y?.length ? names.filter((n) => n === this.config.x || n === this.config.series || this.config.y.includes(n)) : names;
    const measures = new Set(this.measures());
    const now = Date.now();
    patch(this.body, [
      h(
        "div",
        { class: "table-scroll", tabindex: "0" },
        h(
          "table",
          null,
          h("thead", null, h("tr", null, shown.map((n) => h("th", { scope: "col", class: measures.has(n) ? "num" : null }, n.replaceAll("_", " "))), h("th", { scope: "col" }, "status"))),
          h(
            "tbody",
            null,
            list.slice(0, this.config.limit || 100).map((e) =>
              h(
                "tr",
                { class: `${e.status}${now - e.changed < HIGHLIGHT_FOR ? " fresh" : ""}` },
                shown.map((n) => {
                  const v = e.row[n];
                  const was = e.was && measures.has(n) && e.was[n] !== v ? e.was[n] : undefined;
                  const unit = measures.has(n) ? this.config.unit : null;
                  return h("td", { class: measures.has(n) ? "num" : null }, was === undefined ? null : h("del", { title: "before the correction" }, cell(was, unit, this.tz)), was === undefined ? null : " ", cell(v, unit, this.tz));
                }),
                h("td", null, h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? e.status)),
              ),
            ),
          ),
        ),
      ),
    ]);
    if (list.some((e) => now - e.changed < HIGHLIGHT_FOR)) setTimeout(() => (this.dirty = true), HIGHLIGHT_FOR);
  }

  async timeseries() {
    if (this.loading) return;
    if (!this.chart) {
      this.loading = true;
      const { Chart } = await import("./chart.js");
      this.loading = false;
      this.body.replaceChildren();
      this.chart = new Chart(this.body, this.config, this.tz);
    }
    this.chart.draw(this.sorted(), rangeMillis(this.board.range));
  }

  // A time axis moves with the clock, not with messages: redraw once a second.
  ticks() {
    if (this.config.type !== "timeseries" || !this.chart) return false;
    const second = Math.floor(Date.now() / 1000);
    if (second === this.second) return false;
    this.second = second;
    return true;
  }
}

// spark is a small line of the values; the last piece is dashed while its window is open.
function spark(values, open) {
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

// bar is the ground of a list's line, so long as its share in percent.
function bar(share) {
  const svg = s("svg", { class: "bar", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(s("rect", { width: share.toFixed(2), height: 1 }));
  return svg;
}

const KEEP = 60;

// Feed shows the newest events of a stream as they arrive.
class Feed extends Panel {
  events = [];

  request() {
    return { to: this.config.view, from: "latest" };
  }

  take(m) {
    if (m.type === "subscribed") return true;
    if (m.type !== "events") return false;
    this.events.unshift(...m.events.reverse());
    this.events.length = Math.min(this.events.length, KEEP);
    return true;
  }

  draw() {
    if (!this.events.length) {
      patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "Listening"), h("p", null, "The next event appears here as it arrives."))]);
      return;
    }
    patch(this.body, [
      h(
        "ol",
        { class: "feed", tabindex: "0" },
        this.events.map((e) =>
          h("li", { "data-offset": `${e.partition}/${e.offset}` }, h("time", null, time(e.time, this.tz)), h("code", null, cell(e.event))),
        ),
      ),
    ]);
  }
}

// Alerts shows what fired, and what was taken back.
class Alerts extends Panel {
  alerts = new Map();

  request() {
    return { to: this.config.view, from: "earliest" };
  }

  take(m) {
    if (m.type !== "alerts") return false;
    for (const a of m.alerts) {
      this.alerts.delete(a.alert_id);
      this.alerts.set(a.alert_id, a);
    }
    while (this.alerts.size > 200) this.alerts.delete(this.alerts.keys().next().value);
    return true;
  }

  ticks() {
    const second = Math.floor(Date.now() / 5000);
    if (second === this.second) return false;
    this.second = second;
    return true;
  }

  draw() {
    const list = [...this.alerts.values()].reverse().slice(0, 30);
    if (!list.length) {
      patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "No alert so far"), h("p", null, "The rule is watching: an alert appears here the moment it fires."))]);
      return;
    }
    patch(this.body, [
      h(
        "ol",
        { class: "alerts" },
        list.map((a) =>
          h(
            "li",
            { class: `${a.severity ?? ""} ${a.op}` },
            h("span", { class: "alert-dot", "aria-hidden": "true" }),
            h("span", { class: "alert-title" }, a.op === "withdraw" ? h("del", null, a.title) : a.title),
            h("span", { class: "badge" }, a.op === "fire" ? "firing" : a.op === "update" ? "updated" : "taken back"),
            h("time", { datetime: a.emit_time, title: a.emit_time }, ago(Date.now() - Date.parse(a.emit_time))),
          ),
        ),
      ),
    ]);
  }
}

export { isTime };
