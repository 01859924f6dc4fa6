// The rows of a view as the page holds them: a snapshot plus every change since.

const statusText = { provisional: "open", final: "final", corrected: "corrected" };
export { statusText };

// keyOf names a row by its dimensions, so that a correction finds the row that it replaces.
export function keyOf(row, measures) {
  let key = "";
  for (const name in row) if (!measures.has(name)) key += name + "\u0000" + String(row[name]) + "\u0001";
  return key;
}

// Rows holds entries {row, status, revision, was, changed}: was is the row before its latest
// correction.
export class Rows {
  #entries = new Map();
  #withdrawn = new Map();

  constructor(measures) {
    this.measures = new Set(measures);
    this.asOf = null;
    this.position = null;
  }

  snapshot(message) {
    if (!this.partial) this.#entries.clear();
    this.partial = !!message.more;
    message.rows.forEach((row, i) =>
      this.#entries.set(keyOf(row, this.measures), { row, status: message.statuses?.[i] ?? "provisional", revision: 0, was: null, changed: 0 }),
    );
    this.#stamp(message);
  }

  changes(message, now) {
    this.#withdrawn.clear();
    for (const c of message.changes) {
      const key = keyOf(c.row, this.measures);
      if (c.op === "-") {
        const old = this.#entries.get(key);
        if (old) {
          this.#withdrawn.set(key, old);
          this.#entries.delete(key);
        }
        continue;
      }
      const old = this.#withdrawn.get(key) ?? this.#entries.get(key);
      const corrected = c.status === "corrected";
      this.#entries.set(key, {
        row: c.row,
        status: c.status,
        revision: c.revision ?? 0,
        was: corrected && old ? old.row : (old?.was ?? null),
        changed: corrected ? now : (old?.changed ?? 0),
      });
    }
    this.#stamp(message);
  }

  #stamp(message) {
    this.asOf = message.as_of ?? this.asOf;
    this.position = message.position ?? this.position;
  }

  // drop forgets rows for which gone(row) holds, such as those that left the range.
  drop(gone) {
    for (const [key, e] of this.#entries) if (gone(e.row)) this.#entries.delete(key);
  }

  clear() {
    this.#entries.clear();
    this.partial = false;
  }

  get size() {
    return this.#entries.size;
  }

  [Symbol.iterator]() {
    return this.#entries.values();
  }
}
