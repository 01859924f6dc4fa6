// What all panels of a dashboard share: the range, its zone, filters, pause, comparison, and one
// drawing frame for all. All of it stands in the address, so a link shows what its sender saw.

import { h } from "./dom.js";
import { parseRange, rangeTitle, identifier, literal, cell } from "./format.js";
import { parse, stringify } from "./json.js";
import { picker, iso, isZone } from "./picker.js";
import { search } from "./search.js";
import { Notes } from "./notes.js";
import { get, link } from "./server.js";

const FRAME = 120; // milliseconds between two drawings at the least
const ASK_EVERY = 10000; // milliseconds between two questions about the views' states and counts
const LONG_PRESS = 5000; // a pointer that is down longer than this holds no drawing back

const sum = (list) => list.reduce((a, b) => a + b, 0);

export class Board {
  #frames = new Set();
  #asks = "";
  #changes = new Set();
  #zoomed = []; // ranges to go back to
  #seen = new Map(); // stream → partitions' next offsets, the highest that any panel has shown
  #held = new Map(); // stream → how many of its events were known when the page was paused
  #down = 0;
  #views = new Map(); // view or alert → what the server says of it

  constructor(root) {
    this.root = root;
    this.name = root.dataset.name;
    this.zone = root.dataset.tz || "UTC";
    this.shared = root.dataset.shared !== undefined;
    this.home = root.dataset.range;
    this.fixed = Object.entries(JSON.parse(root.dataset.filters || "{}")); // a shared link's filters, which nobody can take off
    this.button = document.getElementById("pause");
    this.button?.addEventListener("click", () => this.toggle());
    this.picker = document.getElementById("range");
    this.crumbs = document.getElementById("filters");
    this.comparing = document.getElementById("compare");
    this.comparing?.addEventListener("click", () => this.go({ compare: !this.compare }));
    this.#crumbs();
    picker(this);
    this.#keys();
    this.notes = new Notes(this);
    addEventListener("popstate", () => this.#read(true));
    root.addEventListener("pointerdown", () => (this.#down = Date.now()));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => (this.#down = 0));
    this.#read(false);
    let last = 0;
    const frame = (now) => {
      if (now - last >= FRAME) {
        last = now;
        for (const f of this.#frames) f();
        this.#count();
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    queueMicrotask(() => this.#ask()); // when it has its panels
    setInterval(() => this.#ask(), ASK_EVERY);
  }

  // held says that nothing is to be drawn: paused, hidden, or a pointer is dragging.
  get held() {
    return this.paused || document.hidden || (this.#down > 0 && Date.now() - this.#down < LONG_PRESS);
  }

  onFrame(f) {
    this.#frames.add(f);
    return () => this.#frames.delete(f);
  }

  // onChange calls back when range, filters or comparison have changed.
  onChange(f) {
    this.#changes.add(f);
    return () => this.#changes.delete(f);
  }

  // go changes parts of the state and writes it into the address.
  go(change, push = true) {
    history[push ? "pushState" : "replaceState"](null, "", this.address(change));
    this.#read(true);
  }

  // address is the page's address with parts of the state changed.
  address(change) {
    const next = { range: this.range, filters: this.filters, compare: this.compare, tz: this.tz, ...change };
    const url = new URL(location.href);
    for (const name of [...url.searchParams.keys()]) if (name.startsWith("f.") || ["range", "compare", "paused", "tz"].includes(name)) url.searchParams.delete(name);
    if (next.range !== this.home) url.searchParams.set("range", next.range);
    for (const [column, value] of next.filters) url.searchParams.set(`f.${column}`, stringify(value));
    if (next.tz !== this.zone) url.searchParams.set("tz", next.tz);
    if (next.compare) url.searchParams.set("compare", "previous");
    if (next.paused ?? (this.paused && !parseRange(this.range)?.fixed)) url.searchParams.set("paused", "1");
    return url;
  }

  // #read takes the state from the address.
  #read(tell) {
    const asked = new URL(location.href).searchParams;
    const range = asked.get("range");
    this.range = range && parseRange(range) ? range : this.home;
    if (!parseRange(this.range)) this.range = "now-1h";
    this.tz = isZone(asked.get("tz") ?? "") ? asked.get("tz") : this.zone;
    this.filters = new Map();
    for (const [name, text] of asked) {
      if (!name.startsWith("f.")) continue;
      try {
        const value = parse(text);
        if (value === null || typeof value !== "object") this.filters.set(name.slice(2), value);
      } catch {
        this.filters.set(name.slice(2), text);
      }
    }
    this.compare = asked.get("compare") === "previous";
    if (!parseRange(this.range).fixed) this.live = this.range;
    this.#pause(asked.get("paused") === "1" || parseRange(this.range).fixed);
    this.#show();
    // Pausing and going on changes nothing that a panel has asked for.
    const asks = stringify([this.range, [...this.filters], this.compare, this.tz]);
    const changed = asks !== this.#asks;
    this.#asks = asks;
    if (tell && changed) for (const f of this.#changes) f();
  }

  get window() {
    return parseRange(this.range) ?? parseRange("now-1h");
  }

  zoom(from, to) {
    if (to - from < 1000) return;
    this.#zoomed.push(this.range);
    this.go({ range: `${iso(from)},${iso(to)}` });
  }

  zoomOut() {
    const back = this.#zoomed.pop() ?? (this.window.fixed ? (this.live ?? this.home) : null);
    if (back) this.go({ range: back });
  }

  // filter narrows every panel that has the column; the same value again takes the filter away.
  filter(column, value) {
    const filters = new Map(this.filters);
    if (filters.has(column) && filters.get(column) === value) filters.delete(column);
    else filters.set(column, value);
    this.go({ filters });
  }

  // where is the filters as a condition over some columns, and the names it could not take in.
  where(columns) {
    const parts = [];
    const column = (name) => columns?.find((x) => x.name.toLowerCase() === name.toLowerCase() && !x.measure);
    const missing = this.fixed.map(([name]) => name).filter((name) => !column(name)); // the server narrows by these
    for (const [name, value] of this.filters) {
      const c = column(name);
      if (!c) missing.push(name);
      else parts.push(value === null ? `${identifier(c.name)} IS NULL` : `${identifier(c.name)} = ${literal(value, c.type)}`);
    }
    return { text: parts.join(" AND "), missing };
  }

  toggle() {
    if (this.window.fixed) this.go({ range: this.live ?? "now-1h", paused: false });
    else this.go({ paused: !this.paused }, false);
  }

  #pause(on) {
    if (on && !this.paused) this.#held = new Map([...this.#seen].map(([stream, offsets]) => [stream, sum(offsets)]));
    this.paused = on;
    this.button?.setAttribute("aria-pressed", String(on));
    document.body.classList.toggle("paused", on);
    this.#count();
  }

  // note keeps how far the streams have come.
  note(asOf) {
    for (const [stream, offsets] of Object.entries(asOf?.offsets ?? {})) {
      const had = this.#seen.get(stream) ?? [];
      this.#seen.set(stream, offsets.map((n, i) => Math.max(n, had[i] ?? 0)));
      // Of a stream that it hears of only now, the page knows what is there now.
      if (this.paused && !this.#held.has(stream)) this.#held.set(stream, sum(offsets));
    }
  }

  // #missed counts the events since the page was paused.
  #missed() {
    let n = 0;
    for (const [stream, offsets] of this.#seen) n += sum(offsets) - (this.#held.get(stream) ?? sum(offsets));
    return n;
  }

  #count() {
    if (!this.button) return;
    const n = this.paused ? this.#missed() : 0;
    const text = !this.paused ? "Pause" : n ? `Live · ${n.toLocaleString("en")} new ${n === 1 ? "update" : "updates"}` : "Live";
    if (this.button.textContent !== text) this.button.textContent = text;
    this.button.title = this.paused ? (this.window.fixed ? "A fixed range stands still; this goes back to the live one (p)" : "Go on showing changes (p)") : "Hold the page still (p)";
  }

  #show() {
    const title = this.picker?.querySelector("summary span");
    if (title) title.textContent = rangeTitle(this.range, this.tz);
    const zone = this.picker?.querySelector("summary small");
    if (zone) zone.textContent = this.tz;
    this.comparing?.setAttribute("aria-pressed", String(this.compare));
    if (!this.crumbs) return;
    this.crumbs.hidden = this.filters.size + this.fixed.length === 0;
    const items = [...this.filters].map(([column, value]) =>
      h("li", null, h("button", { type: "button", class: "crumb", "data-column": column, "aria-label": `Remove the filter ${column} = ${cell(value)}` }, `${column} = ${cell(value, null, this.tz)}`, h("i", { "aria-hidden": "true" }, "✕"))),
    );
    if (this.filters.size > 1) items.push(h("li", null, h("button", { type: "button", class: "crumb", "data-column": "" }, "clear all")));
    const fixed = this.fixed.map(([column, value]) => h("li", null, h("span", { class: "crumb" }, `${column} = ${cell(value, null, this.tz)}`)));
    this.crumbs.replaceChildren(h("li", { class: "muted" }, "Only"), ...fixed, ...items);
  }

  #crumbs() {
    this.crumbs?.addEventListener("click", (e) => {
      const column = e.target.closest("button")?.dataset.column;
      if (column === undefined) return;
      const filters = new Map(this.filters);
      if (column) filters.delete(column);
      else filters.clear();
      this.go({ filters });
    });
  }

  // forget makes the present range the one to go back to.
  forget() {
    this.#zoomed = [];
  }

  #keys() {
    addEventListener("keydown", (e) => {
      if (e.target.matches("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      const does = {
        t: () => (this.picker.open = true),
        p: () => this.toggle(),
        r: () => this.refresh(),
        "/": () => search(this.root),
        e: () => document.getElementById("edit")?.click(),
        "?": () => document.getElementById("keys")?.showModal(),
      }[e.key];
      if (!does) return;
      e.preventDefault();
      does();
    });
  }

  refresh() {
    for (const f of this.#changes) f();
  }

  // about is what the server says of a view: its state, and how many of its events came late.
  about(view) {
    return this.#views.get(view);
  }

  async #ask() {
    if (document.hidden || link) return;
    try {
      const kinds = ["views", ...(this.panels?.some((p) => p?.config.type === "alerts") ? ["alerts"] : [])];
      for (const kind of kinds) for (const v of (await get(`/v1/${kind}`, { limit: 1000 })).items) this.#views.set(v.name, v);
    } catch {
      // the banner tells that the server is away
    }
  }
}
