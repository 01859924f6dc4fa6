// Notes on time, such as a deploy or a campaign: flags on the charts whose time they fall into.

import { h } from "./dom.js";
import { time } from "./format.js";
import { get } from "./server.js";

const ASK_EVERY = 15000;
const LABEL = 90; // pixels to the next flag that a label needs

export class Notes {
  #last = "";

  constructor(board) {
    this.board = board;
    this.path = `/v1/dashboards/${board.name}/annotations`;
    this.items = JSON.parse(board.root.dataset.annotations || "[]");
    board.onChange(() => this.ask());
    setInterval(() => document.hidden || this.ask(), ASK_EVERY);
    if (!board.root.dataset.annotations) queueMicrotask(() => this.ask());
    document.getElementById("note")?.addEventListener("click", () => this.open());
  }

  // of gives the notes that a panel shows: its own and the board's.
  of(panel) {
    return this.items.filter((n) => !n.panel || n.panel === panel);
  }

  async ask() {
    const { from, to, moving } = this.board.window;
    try {
      const { items } = await get(this.path, { from: new Date(from).toISOString(), to: moving ? undefined : new Date(to).toISOString() });
      const text = JSON.stringify(items);
      if (text === this.#last) return;
      this.#last = text;
      this.items = items;
      for (const p of this.board.panels ?? []) if (p?.chart) p.dirty = true;
    } catch {
      // those known before stay
    }
  }

  // open shows all notes, and the form of a new one; at is the instant that it starts with.
  async open(at) {
    (await import("./annotate.js")).annotate(this.board, at);
  }
}

// flags brings the flags over a chart in line with its notes.
export function flags(plot, layer, notes, board) {
  const { min, max } = plot.scales.x;
  const seen = notes.filter((n) => Date.parse(n.end ?? n.time) / 1000 >= min && Date.parse(n.time) / 1000 <= max).sort((a, b) => (a.time < b.time ? -1 : 1));
  const have = new Map([...layer.children].map((e) => [e.dataset.note, e]));
  const x = (t) => plot.valToPos(Math.min(max, Math.max(min, Date.parse(t) / 1000)), "x");
  seen.forEach((n, i) => {
    const label = `${n.text} · ${time(n.time, board.tz)}`;
    let flag = have.get(String(n.id));
    if (!flag) {
      flag = h("button", { type: "button", class: "flag", "data-note": n.id, title: label, "aria-label": `Note: ${label}` }, h("span", null, n.text));
      flag.addEventListener("click", (e) => (e.stopPropagation(), board.notes.open(n.time)));
      for (const kind of ["mousedown", "dblclick"]) flag.addEventListener(kind, (e) => e.stopPropagation());
      layer.append(flag);
    }
    have.delete(String(n.id));
    const left = x(n.time);
    const next = seen[i + 1] ? x(seen[i + 1].time) : Infinity;
    flag.style.left = `${left}px`;
    flag.style.width = n.end ? `${Math.max(2, x(n.end) - left)}px` : "";
    flag.classList.toggle("bare", next - left < LABEL);
    flag.classList.toggle("turned", plot.over.clientWidth - left < LABEL);
  });
  for (const gone of have.values()) gone.remove();
}
