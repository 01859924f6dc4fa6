// The legend of a chart: each series with its value at the cursor, or its newest. It is built when the
// series change; after that only texts do. A series under the pointer stands out in the chart.

import { h } from "./dom.js";
import { number, time } from "./format.js";

const put = (node, text) => node.textContent !== text && (node.textContent = text);

export class Legend {
  #built = "";
  #values = []; // [b, del] by series

  constructor(panel, focus) {
    this.panel = panel;
    this.list = h("ul", { class: "legend" });
    this.at = h("p", { class: "chart-at" });
    this.foot = h("div", { class: "chart-foot" }, this.list, this.at);
    const on = (e) => {
      const k = e.target.closest("[data-k]")?.dataset.k;
      focus(k === undefined ? null : Number(k));
    };
    for (const kind of ["pointerover", "focusin"]) this.list.addEventListener(kind, on);
    for (const kind of ["pointerleave", "focusout"]) this.list.addEventListener(kind, () => focus(null));
  }

  // show brings the legend to the values at instant i; nothing there is the dash.
  show(columns, i) {
    const { unit, series } = this.panel.config;
    const { names, raw, before, clash } = columns;
    const shape = [...names, before ? 1 : 0, clash ? 1 : 0].join("\u0000");
    if (shape !== this.#built) {
      this.#built = shape;
      this.#values = [];
      const item = (name, swatch, k) => {
        const value = h("b", { class: "num" });
        const was = h("del", { title: "before the correction", hidden: true });
        this.#values.push([value, was]);
        const inside = [h("i", { class: `swatch ${swatch}` }), h("span", null, name), was, value];
        return h("li", { "data-k": k, title: name.length > 12 ? name : null }, series && k !== null ? h("button", { type: "button", "data-series": k, title: `Only ${series} = ${name}` }, inside) : inside);
      };
      const items = names.map((name, k) => item(name, `s${k + 1}`, k));
      if (before) items.push(item("before", "before", null));
      if (clash) items.push(h("li", { class: "warning" }, "several rows a point, and this measure can’t be put together: choose a series"));
      this.list.replaceChildren(...items);
    }
    this.#values.forEach(([value, was], k) => {
      put(value, number((names[k] === undefined ? before : raw[k])[i] ?? null, unit));
      const old = names[k] === undefined ? undefined : columns.wasAt(i, names[k]);
      was.hidden = old === undefined;
      if (old !== undefined) put(was, number(old, unit));
    });
    const at = columns.xs[i];
    put(this.at, at === undefined ? "" : `${time(new Date(at * 1000).toISOString(), this.panel.tz)}${columns.open[i] ? " · still open" : ""}`);
  }
}
