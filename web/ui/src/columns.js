// What a chart draws: rows of a view as columns over time, one array of instants and one of values a
// series. It is brought up to date instant by instant, since a busy view changes its newest ones only.

import { nameOf } from "./format.js";
import { placeOf } from "./rows.js";

export const MOST_SERIES = 8;
const MANY = 200; // instants changed at once, from which on all are read anew
export const MARK_FOR = 8000; // a corrected point is marked this long

// joined is one value of two, as the measure allows it; undefined where it does not.
export function joined(a, b, how) {
  if (a === null || a === undefined) return b;
  if (b === null || b === undefined) return a;
  return { sum: a + b, min: Math.min(a, b), max: Math.max(a, b) }[how];
}

export class Columns {
  names = []; // a series keeps its place and its colour: new names join at the end
  xs = [];
  raw = []; // values by series
  open = []; // whether an instant's window is open
  before = null; // the values of the period before
  values = new Map(); // name → the value that it stands for
  marks = new Map(); // what was corrected just now
  rest = 0; // series that are not shown
  #slots = new Map();
  #totals = new Map();
  #clashes = 0;
  #comparing = false;

  constructor(config, merge) {
    this.config = config;
    this.how = merge(config.y[0]);
  }

  // take reads what has changed. from: rows of before it are the period before, span seconds earlier.
  take(rows, from, span) {
    const touched = rows.touched();
    const comparing = from !== undefined;
    if (!touched || touched.length > MANY || comparing || this.#comparing) this.#all(rows, from, span);
    else for (const at of touched) this.#one(rows, at);
    this.#comparing = comparing;
    const ranked = [...this.#totals].sort((a, b) => b[1].sum - a[1].sum).map(([name]) => name);
    const kept = this.names.filter((n) => this.#totals.has(n));
    const names = [...kept, ...ranked.filter((n) => !kept.includes(n))].slice(0, Math.min((this.config.series && this.config.limit) || MOST_SERIES, MOST_SERIES));
    this.rest = this.#totals.size - names.length;
    if (names.length !== this.names.length || names.some((n, k) => n !== this.names[k])) {
      this.names = names;
      this.#lay();
    }
    for (const [key, m] of this.marks) if (Date.now() > m.until) this.marks.delete(key);
  }

  // wasAt is a value before its correction.
  wasAt(i, name) {
    return this.#slots.get(this.xs[i])?.was?.get(name);
  }

  // clash says that several rows stand at one point and can't be put together.
  get clash() {
    return this.#clashes > 0;
  }

  #all(rows, from, span) {
    this.#slots = new Map();
    this.#totals = new Map();
    this.#clashes = 0;
    const earlier = new Map();
    for (const at of rows.instants) {
      if (from === undefined || at >= from) this.#count(this.#slot(at, rows.at(at)), at, 1);
      else if (!this.config.series || this.how === "sum") {
        let v;
        for (const e of rows.at(at)) v = joined(v, Number(e.row[this.config.y[0]] ?? 0), this.how);
        earlier.set(at + span, v ?? null);
      }
    }
    this.xs = [...this.#slots.keys(), ...[...earlier.keys()].filter((t) => !this.#slots.has(t))].sort((a, b) => a - b);
    // Undefined: nothing stands at this instant, and a line goes past it. Null breaks it.
    this.before = earlier.size ? this.xs.map((t) => (earlier.has(t) ? earlier.get(t) : undefined)) : null;
    this.#lay();
  }

  #one(rows, at) {
    const old = this.#slots.get(at);
    const entries = rows.at(at);
    if (old) this.#count(old, at, -1);
    const i = placeOf(this.xs, at);
    if (!entries) {
      if (!old) return;
      this.#slots.delete(at);
      this.xs.splice(i, 1);
      this.open.splice(i, 1);
      for (const ys of this.raw) ys.splice(i, 1);
      return;
    }
    const slot = this.#slot(at, entries);
    this.#count(slot, at, 1);
    if (!old) {
      this.xs.splice(i, 0, at);
      this.open.splice(i, 0, false);
      for (const ys of this.raw) ys.splice(i, 0, null);
    }
    this.open[i] = slot.open;
    this.names.forEach((n, k) => (this.raw[k][i] = slot.values.get(n) ?? null));
  }

  // #slot puts the entries of one instant together.
  #slot(at, entries) {
    const { series, y } = this.config;
    const slot = { open: false, values: new Map(), was: null, clash: false };
    const put = (e, name, column) => {
      const v = e.row[column];
      const n = v === null || v === undefined ? null : Number(v);
      if (slot.values.has(name)) {
        const both = joined(slot.values.get(name), n, this.how);
        if (both === undefined) slot.clash = true;
        else slot.values.set(name, both);
      } else slot.values.set(name, n);
      if (!e.was || e.was[column] === v) return;
      (slot.was ??= new Map()).set(name, e.was[column]);
      if (Date.now() - e.changed < MARK_FOR) this.marks.set(`${at} ${name}`, { at, name, until: e.changed + MARK_FOR });
    };
    for (const e of entries) {
      slot.open ||= e.status === "provisional";
      if (series) {
        const name = nameOf(e.row[series]);
        if (!this.values.has(name)) this.values.set(name, e.row[series] ?? null);
        put(e, name, y[0]);
      } else for (const n of y) put(e, n, n);
    }
    return slot;
  }

  // #count keeps how much each name stands for, so that the largest are shown.
  #count(slot, at, sign) {
    if (sign > 0) this.#slots.set(at, slot);
    if (slot.clash) this.#clashes += sign;
    for (const [name, v] of slot.values) {
      const t = this.#totals.get(name) ?? { sum: 0, n: 0 };
      t.sum += sign * Math.abs(v ?? 0);
      t.n += sign;
      if (t.n > 0) this.#totals.set(name, t);
      else this.#totals.delete(name);
    }
  }

  #lay() {
    const slots = this.xs.map((t) => this.#slots.get(t));
    this.open = slots.map((s) => !!s?.open);
    this.raw = this.names.map((n) => slots.map((s) => (s ? (s.values.get(n) ?? null) : undefined)));
  }
}
