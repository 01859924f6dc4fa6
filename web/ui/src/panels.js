// One panel: it subscribes to what it shows, keeps the rows, and draws them by its type. What is on
// the screen stays until something newer can take its place.

import { h, patch } from "./dom.js";
import { Rows } from "./rows.js";
import { time, ago, parseRange } from "./format.js";
import { failure, empty } from "./states.js";
import { passport } from "./passport.js";
import { Feed, Alerts } from "./feeds.js";
import { stat, toplist, bars, heatmap, histogram } from "./figures.js";
import { table } from "./table.js";

const STALE_AFTER = 12000;
const RETRY_UNKNOWN = 5000;

export function mount(root, live, board) {
  const config = JSON.parse(root.dataset.panel);
  if (config.type === "text") return null;
  const kind = { feed: FeedPanel, alerts: AlertsPanel }[config.type] ?? ViewPanel;
  return new kind(root, config, live, board);
}

// sortedBy orders entries by a column. Rows come nearly in order, so that is looked at first.
export function sortedBy(list, x) {
  if (!x) return list;
  for (let i = 1; i < list.length; i++) {
    if (list[i - 1].row[x] > list[i].row[x]) return list.sort((a, b) => (a.row[x] < b.row[x] ? -1 : a.row[x] > b.row[x] ? 1 : 0));
  }
  return list;
}

class Panel {
  #ends = [];

  constructor(root, config, live, board) {
    this.root = root;
    this.config = config;
    this.board = board;
    this.live = live;
    this.body = root.querySelector(".panel-body");
    this.foot = root.querySelector(".panel-foot");
    this.note = root.querySelector(".panel-note");
    this.tz = board.tz;
    this.heard = Date.now();
    this.started();
    this.renew();
    this.#ends.push(board.onFrame(() => this.#frame()), board.onChange(() => this.renew()));
  }

  started() {}

  // renew subscribes anew, such as for another range; what is shown stays until the answer comes.
  renew() {
    this.stop?.();
    clearTimeout(this.retry);
    this.heard = Date.now();
    this.forced = true; // what was asked for is drawn also while paused
    this.asking();
    this.stop = this.live.subscribe(this.request(), (m) => this.#message(m));
  }

  asking() {}

  end() {
    this.stop?.();
    clearTimeout(this.retry);
    for (const end of this.#ends) end();
    this.closed?.();
  }

  #message(m) {
    this.heard = Date.now();
    if (m.as_of) this.board.note(m.as_of);
    if (m.type === "error") {
      this.failed = m;
      this.dirty = this.forced = true;
      if (m.code === "unknown_relation") this.retry = setTimeout(() => this.renew(), RETRY_UNKNOWN);
      return;
    }
    if (this.take(m)) {
      this.failed = null;
      this.dirty = true;
    }
  }

  #frame() {
    const quiet = Date.now() - this.heard;
    const stale = this.live.state === "reconnecting" || quiet > STALE_AFTER;
    if (stale !== this.stale) this.root.classList.toggle("stale", (this.stale = stale));
    if (stale) this.say(`last update ${ago(quiet)}`, "stale");
    else this.say(this.remark?.() ?? "");
    if (document.hidden || (this.board.held && !this.forced)) return;
    if (!this.dirty && !this.ticks?.()) return;
    if (this.forced && this.dirty) this.forced = false;
    this.dirty = false;
    if (this.failed) failure(this);
    else this.draw();
  }

  say(text, kind = "") {
    if (this.note.textContent !== text) this.note.textContent = text;
    if (this.note.dataset.kind !== kind) this.note.dataset.kind = kind;
  }
}

// ViewPanel shows rows of a view.
class ViewPanel extends Panel {
  started() {
    this.rows = new Rows(this.measures());
    const { title, view } = this.config;
    const opened = h("button", { type: "button", class: "passport-open", title: "Where this number comes from", "aria-label": `Passport of ${title || view}` }, "i");
    opened.addEventListener("click", () => passport(this));
    this.root.querySelector("header").append(opened);
    this.body.addEventListener("click", (e) => this.#click(e));
    this.root.addEventListener("point", (e) => passport(this, e.detail));
  }

  measures() {
    const y = this.config.y ?? [];
    const known = (this.config.columns ?? []).filter((c) => c.measure).map((c) => c.name);
    return known.length ? known : y;
  }

  column(name) {
    return this.config.columns?.find((c) => c.name === name);
  }

  // merge says how values of the measure make one over a dimension: sum, min, max, or not at all.
  merge(name) {
    return this.column(name)?.merge;
  }

  // range is the panel's own range, when it has one, or the board's.
  get range() {
    return this.config.range || this.board.range;
  }

  get window() {
    return parseRange(this.range) ?? this.board.window;
  }

  // compares says whether the period before is drawn too.
  get compares() {
    return !!this.config.x && (this.board.compare || this.config.compare === "previous") && ["timeseries", "stat"].includes(this.config.type);
  }

  where() {
    const mine = this.board.where(this.config.columns);
    this.unfiltered = mine.missing;
    return [this.config.where && `(${this.config.where})`, mine.text].filter(Boolean).join(" AND ");
  }

  request() {
    const { view, order, limit, x } = this.config;
    const request = { to: view, from: "snapshot" };
    const where = this.where();
    if (where) request.where = where;
    if (order && limit) Object.assign(request, { order, limit });
    if (!x || !this.temporal()) return request;
    const w = this.window;
    const back = this.compares ? w.span : 0;
    if (w.moving && /^now-\d+[smhdw]$/.test(this.range)) request.range = back ? `now-${Math.ceil((2 * w.span) / 1000)}s` : this.range;
    else if (!back && this.range.includes(",")) request.range = this.range.split(",");
    else request.range = [new Date(w.from - back).toISOString(), w.moving ? "now" : new Date(w.to).toISOString()];
    return request;
  }

  asking() {
    this.fresh = true; // the next snapshot is another selection: nothing of the old one is kept
    this.lookedAt = null;
  }

  take(m) {
    if (m.type === "snapshot") {
      if (this.fresh) this.rows.clear();
      this.fresh = false;
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

  remark() {
    const parts = [];
    if (this.config.range && this.config.x) parts.push(`own range: ${this.config.range}`);
    if (this.unfiltered?.length) parts.push(`not by ${this.unfiltered.join(", ")}`);
    if (this.compares && this.beyond) parts.push(this.beyond);
    return parts.join(" · ");
  }

  draw() {
    const { x, type } = this.config;
    if (x && this.temporal()) {
      const oldest = this.window.from - (this.compares ? this.window.span : 0) - 60000;
      this.rows.drop((row) => Date.parse(row[x]) < oldest);
    }
    if (!this.rows.size) {
      this.chart?.clear();
      empty(this);
    } else {
      this.body.querySelector(":scope > .state, :scope > .skeleton")?.remove();
      if (type === "timeseries" || (type === "bar" && this.temporal())) this.#chart();
      else ({ stat, toplist, bar: bars, heatmap, histogram, table })[type]?.(this);
    }
    this.#footer();
  }

  temporal() {
    const c = this.column(this.config.x);
    return c ? c.type === "TIMESTAMP" : !this.config.columns;
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
    if (open && this.config.x) parts.push(h("span", { class: "badge open", title: "Their windows may still change" }, `${open} open`));
    if (corrected) parts.push(h("button", { type: "button", class: "badge corrected", title: "Changed after they were final: show which" }, `${corrected} corrected`));
    patch(this.foot, parts);
    this.foot.onclick = (e) => e.target.closest(".corrected") && passport(this);
  }

  // current gives the entries in the range, previous those of the period before it.
  split() {
    const { x } = this.config;
    const list = this.sorted();
    if (!x || !this.compares) return { current: list, previous: [] };
    const { from, span } = this.window;
    const first = list.length ? Date.parse(list[0].row[x]) : from;
    // What is known of the period before may begin in its middle: then it is no comparison.
    this.beyond = first > from - 0.9 * span ? (first >= from ? "no rows in the period before" : `of the period before only from ${time(new Date(first).toISOString(), this.tz)}`) : "";
    return { current: list.filter((e) => Date.parse(e.row[x]) >= from), previous: list.filter((e) => Date.parse(e.row[x]) < from) };
  }

  // sorted gives the entries from the oldest to the newest by x.
  sorted() {
    return sortedBy([...this.rows], this.config.x);
  }

  async #chart() {
    if (this.loading) return;
    if (!this.chart) {
      this.loading = true;
      try {
        ({ Chart: this.Chart } = await import("./chart.js"));
      } catch {
        setTimeout(() => (this.dirty = true), 1000); // the server is away: again when it is back
        return;
      } finally {
        this.loading = false;
      }
      this.body.replaceChildren();
      this.chart = new this.Chart(this);
    }
    const { current, previous } = this.split();
    this.chart.draw(current, previous, this.window);
  }

  // A time axis moves with the clock, not with messages: redraw once a second.
  ticks() {
    if (!this.chart || this.window.fixed) return false;
    const second = Math.floor(Date.now() / 1000);
    if (second === this.second) return false;
    this.second = second;
    return true;
  }

  closed() {
    this.chart?.end();
  }

  #click(e) {
    const at = e.target.closest("[data-filter]");
    if (at && this.body.contains(at)) this.board.filter(at.dataset.filter, JSON.parse(at.dataset.value));
  }
}

class FeedPanel extends Feed(Panel) {}
class AlertsPanel extends Alerts(Panel) {}
