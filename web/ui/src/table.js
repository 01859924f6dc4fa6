// A table of rows: sorted by a click on a head, values as their column's unit, old values beside
// corrected ones, and the whole of it as CSV.

import { h, patch } from "./dom.js";
import { cell, isTime } from "./format.js";
import { stringify } from "./json.js";
import { statusText } from "./rows.js";

const MOST = 200; // rows, when the definition names no limit
const HIGHLIGHT_FOR = 6000; // a corrected value stays marked this long

export function table(panel) {
  const { x, y, unit, columns, limit } = panel.config;
  let list = panel.sorted();
  if (x) list.reverse();
  const names = columns?.length ? columns.map((c) => c.name) : Object.keys(list[0].row);
  const measures = new Set(panel.measures());
  const shown = y?.length ? names.filter((n) => !measures.has(n) || y.includes(n)) : names;
  const sort = (panel.sort ??= sortOf(panel.config.order, shown));
  if (sort) list.sort((a, b) => sort.sign * compare(a.row[sort.name], b.row[sort.name]));
  list = panel.listed = list.slice(0, limit || MOST);
  const now = Date.now();
  const number = (n) => (columns?.length ? /INT|DOUBLE|FLOAT|DECIMAL/.test(panel.column(n)?.type ?? "") : measures.has(n));
  const head = (n) =>
    h(
      "th",
      { scope: "col", class: number(n) ? "num" : null, "aria-sort": sort?.name === n ? (sort.sign > 0 ? "ascending" : "descending") : null },
      h("button", { type: "button", class: "sort", "data-sort": n }, n.replaceAll("_", " "), sort?.name === n ? h("i", { "aria-hidden": "true" }, sort.sign > 0 ? " ↑" : " ↓") : null),
    );
  const value = (e, n) => {
    const v = e.row[n];
    const u = measures.has(n) ? unit : null;
    if (e.was && measures.has(n) && e.was[n] !== v) return [h("del", { title: "before the correction" }, cell(e.was[n], u, panel.tz)), " ", cell(v, u, panel.tz)];
    if (!measures.has(n) && n !== x && !isTime(v) && (v === null || typeof v !== "object")) return [h("button", { type: "button", class: "plain", "data-filter": n, "data-value": stringify(v), title: `Only ${n} = ${cell(v)}` }, cell(v, u, panel.tz))];
    return [cell(v, u, panel.tz)];
  };
  patch(panel.body, [
    h(
      "div",
      { class: "table-scroll", tabindex: "0" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, shown.map(head), h("th", { scope: "col" }, h("span", null, "status"), h("button", { type: "button", class: "csv", title: "Save these rows as CSV" }, "CSV")))),
        h(
          "tbody",
          null,
          list.map((e) =>
            h(
              "tr",
              { class: `${e.status}${now - e.changed < HIGHLIGHT_FOR ? " fresh" : ""}` },
              shown.map((n) => h("td", { class: number(n) ? "num" : null }, value(e, n))),
              h("td", null, h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? e.status)),
            ),
          ),
        ),
      ),
    ),
  ]);
  panel.body.onclick = (e) => {
    const name = e.target.closest("[data-sort]")?.dataset.sort;
    if (name) {
      panel.sort = { name, sign: panel.sort?.name === name ? -panel.sort.sign : measures.has(name) ? -1 : 1 };
      table(panel);
      panel.resort?.();
    } else if (e.target.closest(".csv")) save(panel.config.title || panel.config.view, shown, list);
  };
  if (list.some((e) => now - e.changed < HIGHLIGHT_FOR)) setTimeout(() => (panel.dirty = true), HIGHLIGHT_FOR);
}

// sortOf reads an order such as "revenue DESC, country" as far as a click would have made it.
function sortOf(order, names) {
  const m = /^\s*"?(\w+)"?(\s+desc)?/i.exec(order ?? "");
  const name = m && names.find((n) => n.toLowerCase() === m[1].toLowerCase());
  return name ? { name, sign: m[2] ? -1 : 1 } : null;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" || typeof a === "bigint") return a < b ? -1 : a > b ? 1 : 0;
  return String(a) < String(b) ? -1 : 1;
}

// csv is rows as CSV. Text that a spreadsheet would take for a formula gets an apostrophe.
export function csv(names, rows) {
  const field = (v) => {
    if (v === null || v === undefined) return "";
    let text = typeof v === "object" ? stringify(v) : String(v);
    if (typeof v === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows].map((r) => r.map(field).join(",")).join("\r\n") + "\r\n";
}

export function download(name, text, type) {
  const a = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

function save(title, names, list) {
  download(`${title.replace(/[^\w-]+/g, "_")}.csv`, csv([...names, "status"], list.map((e) => [...names.map((n) => e.row[n]), e.status])), "text/csv");
}
