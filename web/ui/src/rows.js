// The rows of a view as the page holds them: a snapshot plus every change since.

import { stringify } from "./json.js";

const statusText = { provisional: "open", final: "final", corrected: "corrected" };
export { statusText };

// keyOf names a row by its dimensions, so that a correction finds the row that it replaces.
export function keyOf(row, measures) {
  let key = "";
  for (const name in row) if (!measures.has(name)) key += name + "\u0000" + tell(row[name]) + "\u0001";
  return key;
}

// tell is a value as text that no other value has.
function tell(v) {
  if (typeof v === "string") return `"${v}`;
  return typeof v === "object" ? stringify(v) : String(v);
}

// placeOf is where an instant stands in a sorted list, or belongs. Most are the newest or next to it.
export function placeOf(list, at) {
  let high = list.length;
  if (!high || list[high - 1] < at) return high;
  let low = 0;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Rows holds entries {key, row, status, revision, was, changed, at}: was is the row before its latest
// correction, at the instant of the time column in seconds, null without one. With a time column the rows are also kept
// by instant, and which instants have changed since somebody asked, so that a chart need not look at
// all of them again.
export class Rows {
  #entries = new Map();
  #withdrawn = new Map();
  #before = new Map(); // the entries of before a snapshot, while it comes
  #instants = new Map(); // instant → its entries
  #order = []; // the instants, sorted
  #touched = new Set();
  #timeless = 0;
  #all = true;

  constructor(measures, x) {
    this.measures = new Set(measures);
    this.x = x;
    this.asOf = null;
    this.position = null;
  }

  snapshot(message) {
    // A snapshot that comes again, such as after a gap, keeps what is known of corrections.
    if (!this.partial) {
      this.#before = this.#entries;
      this.clear();
    }
    this.partial = !!message.more;
    message.rows.forEach((row, i) => {
      const key = keyOf(row, this.measures);
      const status = message.statuses?.[i] ?? "provisional";
      this.#put(key, row, status, 0, ...this.#corrected(status, row, this.#before.get(key), Date.now()));
    });
    if (!this.partial) this.#before = new Map();
    this.#stamp(message);
  }

  // older takes rows of before the oldest one, as history has them: nothing can change them any more.
  older(rows) {
    for (const row of rows) {
      const key = keyOf(row, this.measures);
      if (!this.#entries.has(key)) this.#put(key, row, "final", 0, null, 0);
    }
  }

  changes(message, now) {
    this.#withdrawn.clear();
    for (const c of message.changes) {
      const key = keyOf(c.row, this.measures);
      if (c.op === "-") {
        const old = this.#entries.get(key);
        if (old) {
          this.#withdrawn.set(key, old);
          this.#remove(old);
        }
        continue;
      }
      const old = this.#withdrawn.get(key) ?? this.#entries.get(key);
      this.#put(key, c.row, c.status, c.revision ?? 0, ...this.#corrected(c.status, c.row, old, now));
    }
    this.#stamp(message);
  }

  // #corrected is what a row was before its latest correction, and when that came. The same row again,
  // such as after a reconnect, is no correction.
  #corrected(status, row, old, now) {
    const anew = status === "corrected" && old && [...this.measures].some((n) => old.row[n] !== row[n]);
    return anew ? [old.row, now] : [old?.was ?? null, old?.changed ?? 0];
  }

  #stamp(message) {
    this.asOf = message.as_of ?? this.asOf;
    this.position = message.position ?? this.position;
  }

  #put(key, row, status, revision, was, changed) {
    const old = this.#entries.get(key);
    if (old) this.#remove(old);
    const e = { key, row, status, revision, was, changed, at: this.x && row[this.x] ? Date.parse(row[this.x]) / 1000 : null };
    this.#entries.set(key, e);
    if (e.at === null) return void this.#timeless++;
    const there = this.#instants.get(e.at);
    if (there) there.push(e);
    else {
      this.#instants.set(e.at, [e]);
      this.#order.splice(placeOf(this.#order, e.at), 0, e.at);
    }
    this.#touched.add(e.at);
  }

  #remove(e) {
    this.#entries.delete(e.key);
    if (e.at === null) return void this.#timeless--;
    const there = this.#instants.get(e.at);
    there.splice(there.indexOf(e), 1);
    if (!there.length) {
      this.#instants.delete(e.at);
      this.#order.splice(placeOf(this.#order, e.at), 1);
    }
    this.#touched.add(e.at);
  }

  // dropBefore forgets rows of before an instant, such as those that left the range.
  dropBefore(seconds) {
    const gone = placeOf(this.#order, seconds);
    if (!gone) return;
    for (const at of this.#order.splice(0, gone)) {
      for (const e of this.#instants.get(at)) this.#entries.delete(e.key);
      this.#instants.delete(at);
      this.#touched.add(at);
    }
  }

  clear() {
    this.#entries = new Map();
    this.#instants.clear();
    this.#order = [];
    this.#timeless = 0;
    this.#all = true;
    this.partial = false;
  }

  get size() {
    return this.#entries.size;
  }

  // instants are those of the time column, sorted; at gives the entries of one.
  get instants() {
    return this.#order;
  }

  at(instant) {
    return this.#instants.get(instant);
  }

  // touched gives the instants that have changed since the last call; null: all of them.
  touched() {
    const out = this.#all ? null : [...this.#touched];
    this.#all = false;
    this.#touched.clear();
    return out;
  }

  // sorted gives the entries, from the oldest to the newest when there is a time column.
  sorted() {
    if (!this.x) return [...this.#entries.values()];
    const out = this.#timeless ? [...this.#entries.values()].filter((e) => e.at === null) : [];
    for (const at of this.#order) for (const e of this.#instants.get(at)) out.push(e);
    return out;
  }

  [Symbol.iterator]() {
    return this.#entries.values();
  }
}
