// What all panels of a dashboard share: the range, filters, pause, comparison, and one drawing
// frame for all. All of it stands in the address, so a link shows what its sender saw.

import { h, patch } from "./dom.js";
import { parseRange, rangeTitle, identifier, literal, cell } from "./format.js";

const FRAME = 120; // milliseconds between two drawings at the least
const LONG_PRESS = 5000; // a pointer that is down longer than this holds no drawing back

export class Board {
  #frames = new Set();
  #asks = "";
  #changes = new Set();
  #zoomed = []; // ranges to go back to
  #seen = new Map(); // stream → partitions' next offsets, the highest that any panel has shown
  #base = 0;
  #down = 0;

  constructor(root) {
    this.root = root;
    this.name = root.dataset.name;
    this.tz = root.dataset.tz || "UTC";
    this.home = root.dataset.range;
    this.button = document.getElementById("pause");
    this.button?.addEventListener("click", () => this.toggle());
    this.picker = document.getElementById("range");
    this.crumbs = document.getElementById("filters");
    this.comparing = document.getElementById("compare");
    this.comparing?.addEventListener("click", () => this.go({ compare: !this.compare }));
    this.#pickers();
    this.#keys();
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
    const next = { range: this.range, filters: this.filters, compare: this.compare, ...change };
    const url = new URL(location.href);
    for (const name of [...url.searchParams.keys()]) if (name.startsWith("f.") || ["range", "compare", "paused"].includes(name)) url.searchParams.delete(name);
    if (next.range !== this.home) url.searchParams.set("range", next.range);
    for (const [column, value] of next.filters) url.searchParams.set(`f.${column}`, JSON.stringify(value));
    if (next.compare) url.searchParams.set("compare", "previous");
    if (next.paused ?? (this.paused && !parseRange(this.range)?.fixed)) url.searchParams.set("paused", "1");
    history[push ? "pushState" : "replaceState"](null, "", url);
    this.#read(true);
  }

  // #read takes the state from the address.
  #read(tell) {
    const asked = new URL(location.href).searchParams;
    const range = asked.get("range");
    this.range = range && parseRange(range) ? range : this.home;
    if (!parseRange(this.range)) this.range = "now-1h";
    this.filters = new Map();
    for (const [name, text] of asked) {
      if (!name.startsWith("f.")) continue;
      try {
        const value = JSON.parse(text);
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
    const asks = JSON.stringify([this.range, [...this.filters], this.compare]);
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
    const text = (t) => new Date(Math.round(t)).toISOString().replace(/\.\d+Z$/, "Z");
    this.go({ range: `${text(from)},${text(to)}` });
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
    const missing = [];
    for (const [name, value] of this.filters) {
      const c = columns?.find((x) => x.name.toLowerCase() === name.toLowerCase() && !x.measure);
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
    if (on && !this.paused) this.#base = this.#events();
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
    }
    if (this.paused && this.#base === 0) this.#base = this.#events();
  }

  #events() {
    let n = 0;
    for (const offsets of this.#seen.values()) for (const o of offsets) n += o;
    return n;
  }

  #count() {
    if (!this.button) return;
    const n = this.paused ? Math.max(0, this.#events() - this.#base) : 0;
    const text = !this.paused ? "Pause" : n ? `Live · ${n.toLocaleString("en")} new ${n === 1 ? "update" : "updates"}` : "Live";
    if (this.button.textContent !== text) this.button.textContent = text;
    this.button.title = this.paused ? (this.window.fixed ? "A fixed range stands still; this goes back to the live one (p)" : "Go on showing changes (p)") : "Hold the page still (p)";
  }

  #show() {
    const title = this.picker?.querySelector("summary span");
    if (title) title.textContent = rangeTitle(this.range, this.tz);
    this.comparing?.setAttribute("aria-pressed", String(this.compare));
    if (!this.crumbs) return;
    this.crumbs.hidden = this.filters.size === 0;
    const items = [...this.filters].map(([column, value]) =>
      h("li", null, h("button", { type: "button", class: "crumb", "data-column": column, "aria-label": `Remove the filter ${column} = ${cell(value)}` }, `${column} = ${cell(value, null, this.tz)}`, h("i", { "aria-hidden": "true" }, "✕"))),
    );
    if (this.filters.size > 1) items.push(h("li", null, h("button", { type: "button", class: "crumb", "data-column": "" }, "clear all")));
    this.crumbs.replaceChildren(h("li", { class: "muted" }, "Only"), ...items);
  }

  #pickers() {
    this.crumbs?.addEventListener("click", (e) => {
      const column = e.target.closest("button")?.dataset.column;
      if (column === undefined) return;
      const filters = new Map(this.filters);
      if (column) filters.delete(column);
      else filters.clear();
      this.go({ filters });
    });
    if (!this.picker) return;
    const form = this.picker.querySelector("form");
    const typed = form.elements.typed;
    const wrong = form.querySelector(".wrong");
    const close = (range) => {
      this.picker.open = false;
      this.#zoomed = [];
      this.go({ range, paused: false });
      this.picker.querySelector("summary").focus();
    };
    this.picker.addEventListener("toggle", () => {
      if (!this.picker.open) return;
      typed.value = this.range;
      wrong.hidden = true;
      const w = this.window;
      form.elements.from.value = this.#local(w.from);
      form.elements.to.value = this.#local(w.to);
      typed.focus();
      typed.select();
    });
    this.picker.addEventListener("click", (e) => {
      const preset = e.target.closest("[data-range]")?.dataset.range;
      if (preset) close(this.#preset(preset));
      if (e.target.closest("[data-absolute]")) {
        const [a, b] = ["from", "to"].map((n) => this.#instant(form.elements[n].value));
        if (a && b && a < b) close(`${new Date(a).toISOString().replace(".000Z", "Z")},${new Date(b).toISOString().replace(".000Z", "Z")}`);
        else this.#say(wrong, "The first instant must lie before the second.");
      }
    });
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      const text = typed.value.trim();
      if (parseRange(text)) close(text);
      else this.#say(wrong, "Write now-6h, now-7d,now-1d, or two instants with a comma.");
    });
    this.picker.addEventListener("keydown", (e) => {
      if (e.key !== "Escape") return;
      this.picker.open = false;
      this.picker.querySelector("summary").focus();
    });
    document.addEventListener("click", (e) => {
      if (!this.picker.contains(e.target)) this.picker.open = false;
    });
  }

  #say(where, text) {
    where.hidden = false;
    where.textContent = text;
  }

  // #offset is how far the board's zone is ahead of UTC at an instant, in milliseconds.
  #offset(at) {
    const parts = new Intl.DateTimeFormat("en-CA", { timeZone: this.tz, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" }).formatToParts(at);
    const p = Object.fromEntries(parts.map((x) => [x.type, Number(x.value)]));
    return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) - Math.floor(at / 1000) * 1000;
  }

  // #local and #instant turn instants into what a datetime-local field holds, in the board's zone.
  #local(at) {
    return new Date(at + this.#offset(at)).toISOString().slice(0, 16);
  }

  #instant(text) {
    const wall = Date.parse(`${text}Z`);
    if (Number.isNaN(wall)) return null;
    const guess = wall - this.#offset(wall);
    return wall - this.#offset(guess);
  }

  #preset(name) {
    const now = Date.now();
    const day = this.#local(now).slice(0, 10);
    const at = (d) => new Date(this.#instant(`${d}T00:00`)).toISOString().replace(".000Z", "Z");
    if (name === "today") return `${at(day)},now`;
    if (name === "month") return `${at(day.slice(0, 8) + "01")},now`;
    if (name === "yesterday") return `${at(new Date(Date.parse(`${day}T00:00Z`) - 864e5).toISOString().slice(0, 10))},${at(day)}`;
    return name;
  }

  #keys() {
    addEventListener("keydown", (e) => {
      if (e.target.matches("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
      const does = {
        t: () => (this.picker.open = true),
        p: () => this.toggle(),
        r: () => this.refresh(),
        "/": () => this.search(),
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

  // search finds panels by their title.
  search() {
    const box = document.getElementById("search");
    if (!box) return;
    box.hidden = false;
    box.focus();
    box.oninput = () => {
      for (const p of this.root.querySelectorAll(".panel")) p.classList.toggle("unlike", !p.getAttribute("aria-label").toLowerCase().includes(box.value.toLowerCase()));
    };
    box.onkeydown = (e) => {
      if (e.key !== "Escape" && e.key !== "Enter") return;
      const found = [...this.root.querySelectorAll(".panel:not(.unlike)")][0];
      if (e.key === "Enter" && box.value) found?.focus();
      if (e.key === "Escape" || !box.value) {
        box.value = "";
        box.oninput();
        box.hidden = true;
      }
    };
  }
}
