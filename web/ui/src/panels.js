// One panel: it subscribes to what it shows, keeps the rows, and draws them by its type. What is on
// the screen stays until something newer can take its place.

import { h, patch } from "./dom.js";
import { parse, stringify } from "./json.js";
import { Rows } from "./rows.js";
import { time, parseRange, identifier } from "./format.js";
import { failure, empty, timeless, heavy, lacking, remark } from "./states.js";
import { get, link } from "./server.js";
import { Feed, Alerts } from "./feeds.js";
import { stat, toplist, bars, heatmap, histogram } from "./figures.js";
import { table } from "./table.js";

const STALE_AFTER = 12000;
const RETRY_UNKNOWN = 5000;
const MOST_OLDER = 20000; // rows of the older part of a range
const MOST_LISTED = 200; // rows that a table holds when its definition names no limit
const MOST_LINES = 500; // rows of a list, from which on it asks for the largest alone
const MOST_WHOLE = 50000; // rows that a page puts together; of more it shows nothing rather than a part
const SAY_FOR = 15000; // how long something that happened is told
const UNKNOWN = ["unknown_relation", "unknown_view", "unknown_stream", "unknown_alert"]; // what it follows is not there, yet or any more

// passport is loaded when somebody asks where a number comes from.
const passport = async (panel, at) => (await import("./passport.js")).passport(panel, at);

export function mount(root, live, board) {
  const config = JSON.parse(root.dataset.panel);
  if (config.type === "text") return null;
  const kind = { feed: FeedPanel, alerts: AlertsPanel }[config.type] ?? ViewPanel;
  return new kind(root, config, live, board);
}

// columnsOf are the columns of a panel's view as they are now. A link may not ask for the view: it finds
// them in its page.
async function columnsOf({ view, id }) {
  if (!link) return (await get(`/v1/views/${view}`)).columns.map(({ name, type, measure, merge }) => ({ name, type, measure, ...(merge && { merge }) }));
  const text = await (await fetch(location.href, { cache: "no-store" })).text();
  const page = new DOMParser().parseFromString(text.replace(/<style[^]*?<\/style>/g, ""), "text/html"); // they have that page's nonce
  return [...page.querySelectorAll("[data-panel]")].map((root) => JSON.parse(root.dataset.panel)).find((c) => c.id === id && c.view === view)?.columns;
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
    this.heard = Date.now();
    this.started();
    this.signed();
    this.renew();
    // What nobody sees is not drawn; it is as soon as it comes near.
    this.near = true;
    const watch = new IntersectionObserver(([e]) => (this.near = e.isIntersecting), { rootMargin: "200px" });
    watch.observe(root);
    this.#ends.push(board.onFrame(() => this.#frame()), board.onChange(() => this.renew()), () => watch.disconnect());
  }

  get tz() {
    return this.board.tz;
  }

  started() {}

  // signed puts the button that opens the passport into the head.
  signed() {
    const { title, view } = this.config;
    const opened = h("button", { type: "button", class: "passport-open", title: "Where this number comes from", "aria-label": `Passport of ${title || view}` }, "i");
    opened.addEventListener("click", () => passport(this));
    this.root.querySelector("header").append(opened);
    this.foot.addEventListener("click", (e) => e.target.closest("button") && passport(this));
  }

  // renew subscribes anew, such as for another range; what is shown stays until the answer comes.
  renew() {
    this.stop?.();
    clearTimeout(this.retry);
    this.heard = Date.now();
    this.asked = this.heard;
    this.catching = true;
    this.settled = false;
    this.forced = true; // what was asked for is drawn also while paused
    this.asking();
    this.stop = this.open();
  }

  // open begins to follow what the panel shows and returns what ends that.
  open() {
    return this.live.subscribe(this.request(), (m) => this.#message(m));
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
    if (m.as_of) {
      this.board.note(m.as_of);
      const version = m.as_of.view_version;
      if (this.version !== undefined && version > this.version) this.event = { text: `rebuilt: version ${version}`, until: this.heard + SAY_FOR };
      const other = version !== undefined && (this.version === undefined ? this.gone || !this.config.columns : version !== this.version);
      this.version = version ?? this.version;
      if (other) this.edited?.();
    }
    if (m.type === "gap") this.event = { text: "changes were missed: shown anew", until: this.heard + SAY_FOR };
    if (m.type === "progress") this.catching = false;
    if (m.type === "error") {
      this.failed = m;
      this.dirty = this.forced = true;
      if ((m.missing = UNKNOWN.includes(m.code))) {
        this.gone = true; // what comes under the name next is another view
        this.version = undefined;
        this.retry = setTimeout(() => this.renew(), RETRY_UNKNOWN);
      }
      return;
    }
    if (this.take(m)) {
      this.failed = null;
      this.dirty = true;
    }
  }

  #frame() {
    if (this.still) this.heard = Date.now(); // nothing is to be heard of what stands still
    const quiet = Date.now() - this.heard;
    const stale = this.live.state === "reconnecting" || this.live.state === "ended" || quiet > STALE_AFTER;
    if (stale !== this.stale) this.root.classList.toggle("stale", (this.stale = stale));
    const { text, kind } = remark(this, quiet);
    this.say(text, kind);
    if (document.hidden || (this.board.held && !this.forced)) return;
    if (!this.near && this.settled) return;
    if (!this.dirty && !this.ticks?.()) return;
    if (this.forced && this.dirty) this.forced = false;
    this.dirty = false;
    this.drawn = true;
    if (this.failed) failure(this);
    else this.draw();
    // Out of sight too, first rows are drawn: for who searches in the page, or prints it.
    this.settled = !this.catching && !this.body.querySelector(":scope > .state, :scope > .skeleton");
  }

  say(text, kind = "") {
    if (this.note.textContent !== text) this.note.title = this.note.textContent = text;
    if (this.note.dataset.kind !== kind) this.note.dataset.kind = kind;
  }
}

// ViewPanel shows rows of a view.
class ViewPanel extends Panel {
  started() {
    this.rows = this.none();
    this.body.addEventListener("click", (e) => this.#click(e));
    this.root.addEventListener("point", (e) => passport(this, e.detail));
  }

  // edited looks at the columns anew: those of an edited view, or of one that was not there when the
  // page was made, are others, and with them what may be put together.
  async edited() {
    let columns;
    try {
      columns = await columnsOf(this.config);
    } catch {
      return; // it will be gone again, or the server away
    }
    this.gone = false;
    if (!columns || stringify(columns) === stringify(this.config.columns)) return;
    this.config.columns = columns;
    this.sort = null;
    this.chart?.clear();
    this.rows = this.none();
    this.renew();
  }

  // none is where the rows will be.
  none() {
    return new Rows(this.measures(), this.config.x && this.temporal() ? this.config.x : undefined);
  }

  // lacks are the columns that the panel is made of and its view does not have.
  get lacks() {
    const { type, x, y, series, columns } = this.config;
    if (!columns || type === "table") return [];
    return [x, ...(y ?? []), series].filter((name) => name && !this.column(name));
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
    return [this.config.where && `(${this.config.where}\n)`, mine.text].filter(Boolean).join(" AND ");
  }

  get dimensions() {
    return (this.config.columns ?? []).filter((c) => !c.measure);
  }

  // apart says that every row is shown by itself: then the first rows are enough. What is put together
  // of many rows is not.
  get apart() {
    return ["table", "histogram"].includes(this.config.type) || this.dimensions.length === 1;
  }

  // first is how many rows are asked for, in what order; null: all.
  first() {
    const { type, order, limit, x, y } = this.config;
    const ranged = x && this.temporal();
    if (type === "table") return { limit: limit || MOST_LISTED, order: (!limit && this.sorting()) || order || (ranged ? `${identifier(x)} DESC` : this.plain(this.dimensions[0]?.name) || undefined) };
    if (type === "toplist" && this.bounded) return { limit: limit || 10, order: `${identifier(y[0])} DESC NULLS LAST` };
    return this.apart && order && limit && type !== "toplist" ? { limit, order } : null;
  }

  // plain is an order by a column whose values can be ordered.
  plain(name) {
    return name && /^[A-Z]+(\(\d+,\d+\))?$/.test(this.column(name)?.type ?? "") && this.column(name).type !== "JSON" ? identifier(name) : null;
  }

  // sorting is the order that a click on a table's head asks for.
  sorting() {
    const by = this.sort && this.plain(this.sort.name);
    return by && `${by}${this.sort.sign < 0 ? " DESC" : ""} NULLS LAST`;
  }

  // resort asks for the first rows in the new order, when not all are here.
  resort() {
    if (this.more && !this.config.limit) this.renew();
  }

  // more says that the view has rows that were not asked for.
  get more() {
    return !!this.most && this.rows.size > this.most;
  }

  request() {
    const { view, x } = this.config;
    const request = { to: view, from: "snapshot" };
    const where = this.where();
    if (where) request.where = where;
    const first = this.first();
    const lists = ["table", "toplist"].includes(this.config.type);
    this.most = lists ? first?.limit : 0;
    if (first) Object.assign(request, first, { limit: first.limit + (lists ? 1 : 0) }); // one more tells that there are more
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
    this.heavy = this.still = false;
    this.bounded = this.bounding ?? false;
    this.bounding = false;
    this.lookedAt = this.askedOlder = this.from = null;
  }

  // #older asks history for the part of the range that the view itself does not hold any more.
  async #older() {
    const { x, view } = this.config;
    const w = this.window;
    const from = w.from - (this.compares ? w.span : 0);
    const asked = `${this.range} ${this.where()}`;
    if (!x || !this.temporal() || this.more || (this.rows.instants[0] ?? Infinity) * 1000 <= from || asked === this.askedOlder) return;
    this.askedOlder = asked;
    try {
      const a = await get(`/v1/views/${view}/rows/older`, { x, from: new Date(from).toISOString(), to: new Date(w.to).toISOString(), where: this.where(), limit: MOST_OLDER });
      if (asked !== this.askedOlder || !a.rows?.length) return;
      this.rows.older(a.rows);
      this.from = a.oldest;
      this.dirty = this.forced = true;
    } catch {
      // what the view holds is shown; its footer says how far it is complete
    }
  }

  take(m) {
    if (m.type === "snapshot") {
      if (this.fresh) this.rows.clear();
      this.fresh = false;
      this.rows.snapshot(m);
      if (this.#bound()) return true;
      this.askedOlder = null; // they are not among a view's own rows
      if (!m.more) this.#older();
      return !m.more;
    }
    if (m.type === "changes") {
      this.rows.changes(m, Date.now());
      this.#bound();
      return true;
    }
    if (m.type === "progress") {
      this.rows.asOf = m.as_of ?? this.rows.asOf;
      this.rows.position = m.position ?? this.rows.position;
      return true;
    }
    return false;
  }

  // #bound holds a panel to what a page can hold: a list asks for its largest rows alone, and what would
  // have to put more together says so. True: nothing of what came is to be drawn as it is.
  #bound() {
    if (this.most || this.bounding) return false;
    if (this.config.type === "toplist" && !this.config.x && this.apart && !this.bounded && this.rows.size > MOST_LINES) {
      this.bounding = true;
      queueMicrotask(() => this.renew());
      return true;
    }
    if (this.rows.size <= MOST_WHOLE) return false;
    this.heavy = MOST_WHOLE;
    this.still = true;
    this.catching = false;
    this.stop();
    return true;
  }

  // total is how many rows the panel's rows are of, when that is known.
  get total() {
    const { x } = this.config;
    const all = this.board.about(this.config.view)?.rows;
    return this.where() || (x && this.temporal()) || all === undefined ? null : Math.max(all, this.rows.size);
  }

  remarks() {
    return [
      this.config.range && this.config.x && `own range: ${this.config.range}`,
      this.unfiltered?.length && `not by ${this.unfiltered.join(", ")}`,
      this.compares && this.beyond,
      this.from && `before ${time(this.from, this.tz)} from history`,
    ];
  }

  draw() {
    const { x, type } = this.config;
    if (x && this.temporal()) {
      this.rows.dropBefore((this.window.from - (this.compares ? this.window.span : 0)) / 1000 - 60);
    }
    if (this.heavy) {
      this.chart?.clear();
      return heavy(this);
    }
    if (this.bounding || (this.bounded && this.fresh)) return; // what is here is but the beginning
    if (this.lacks.length) {
      this.chart?.clear();
      return lacking(this);
    }
    if (type === "timeseries" && !this.temporal()) timeless(this);
    else if (!this.rows.size) {
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
    for (const e of this.listed ?? this.rows) {
      if (e.status === "provisional") open++;
      else if (e.status === "corrected") corrected++;
    }
    const parts = [];
    if (w) parts.push(h("span", { title: "Nothing older than this is expected any more" }, `complete to ${time(w, this.tz)}`));
    if (open && this.config.x && this.config.type !== "stat") parts.push(h("span", { class: "badge open", title: `${open.toLocaleString("en")} rows are provisional: their windows may still change` }, `${open.toLocaleString("en")} open`));
    if (corrected) parts.push(h("button", { type: "button", class: "badge corrected", title: "Changed after they were final: show which" }, `${corrected.toLocaleString("en")} corrected`));
    if (this.more) {
      const all = this.total;
      const n = this.most.toLocaleString("en");
      parts.push(h("span", { class: "of", title: `The range has more rows: ${this.config.limit ? "the panel is made for so many" : "a shorter range or a filter chooses others"}` }, all ? `showing ${n} of ${all.toLocaleString("en")}` : this.config.limit ? `the first ${n}` : `the first ${n}; there are more`));
    }
    const rest = this.chart?.columns.rest;
    if (rest > 0) parts.push(h("span", { class: "of", title: "The largest; a filter or a view with fewer groups shows others" }, `showing ${this.chart.names.length} of ${(this.chart.names.length + rest).toLocaleString("en")} lines`));
    const c = this.board.about(this.config.view)?.counts;
    const late = c ? c.late_corrected + c.late_dropped + (c.late_partial ?? 0) : 0;
    if (late) parts.push(h("button", { type: "button", class: "plain late", title: `Since the view was made ${late.toLocaleString("en")} events came late: ${c.late_corrected.toLocaleString("en")} corrected a row, ${c.late_dropped.toLocaleString("en")} were refused` }, `${late.toLocaleString("en")} late`));
    patch(this.foot, parts);
  }

  // current gives the entries in the range, previous those of the period before it.
  split() {
    const { x } = this.config;
    const list = this.sorted();
    if (!x || !this.compares) return { current: list, previous: [] };
    const { from, span } = this.window;
    const first = list.length ? list[0].at * 1000 : from;
    // What is known of the period before may begin in its middle: then it is no comparison.
    this.beyond = first > from - 0.9 * span ? (first >= from ? "no rows in the period before" : `of the period before only from ${time(new Date(first).toISOString(), this.tz)}`) : "";
    return { current: list.filter((e) => e.at * 1000 >= from), previous: list.filter((e) => e.at * 1000 < from) };
  }

  // sorted gives the entries from the oldest to the newest by x.
  sorted() {
    return this.rows.x ? this.rows.sorted() : sortedBy([...this.rows], this.config.x);
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
    if (this.compares) this.split(); // it says how far the period before reaches
    this.chart.draw(this.rows, this.window, this.compares);
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
    if (at && this.body.contains(at)) this.board.filter(at.dataset.filter, parse(at.dataset.value));
  }
}

class FeedPanel extends Feed(Panel) {}
class AlertsPanel extends Alerts(Panel) {}
