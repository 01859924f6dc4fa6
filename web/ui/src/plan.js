// The plan of a view as a tree: what feeds what, what each step holds, and what grows without bound.

import { h } from "./dom.js";
import { get } from "./server.js";

// bytes is a size as people read it.
const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`);
const many = (n, one, more) => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;

// lines reads the indented lines of a plan's text, for what has no operators: {depth, text}.
const lines = (text) => text.split("\n").filter(Boolean).map((l) => ({ depth: (l.length - l.trimStart().length) / 2, text: l.trim() }));

// facts are the lines behind the tree.
function facts(text) {
  const all = lines(text);
  const from = all.findIndex((l, i) => i > 0 && l.depth === 0);
  return from < 0 ? [] : all.slice(from).map((l) => /^(row key|\S+)\s*(.*)$/.exec(l.text));
}

function step(o) {
  const [, name, rest] = /^(\S+)\s*(.*)$/s.exec(o.text); // a text or a name in it may hold line ends
  const badge = (kind, text, title) => h("span", { class: `badge ${kind}`, title }, text);
  return [
    h(
      "p",
      null,
      h("strong", null, name),
      " ",
      h("code", null, rest),
      " ",
      o.operator === undefined || o.operator === null ? null : badge("", `${many(o.rows, "entry", "entries")} · ${bytes(o.bytes)}`, "what this step keeps"),
      o.shared_as ? badge("live", o.again ? `again ${o.shared_as}` : `shared ${o.shared_as}`, "computed once, read by several") : null,
      o.unbounded ? badge("corrected", "grows without bound") : null,
    ),
    o.unbounded ? h("p", { class: "warning" }, o.unbounded) : null,
  ];
}

export async function plan() {
  const root = document.getElementById("plan");
  if (!root) return;
  const told = await get(`/v1/views/${root.dataset.view}/explain`).catch(() => null);
  if (!told) return;
  const top = h("ul", { class: "plan-steps" });
  const open = [{ depth: -1, children: top }];
  for (const o of told.operators?.length ? told.operators : lines(told.plan)) {
    while (open.length > 1 && open.at(-1).depth >= o.depth) open.pop();
    const children = h("ul", null);
    open.at(-1).children.append(h("li", null, step(o), children));
    open.push({ depth: o.depth, children });
  }
  const notes = [
    ...facts(told.plan).map(([, name, text]) => h("li", null, h("strong", null, name), " ", text)),
    ...(told.shared ?? []).map((s) => h("li", null, h("strong", null, "shared"), " ", s.text)),
    ...(told.memory ? [h("li", null, h("strong", null, "memory"), ` ${bytes(told.memory.bytes)} of its state in memory${told.memory.spilled_entries ? `, ${many(told.memory.spilled_entries, "entry", "entries")} (${bytes(told.memory.spilled_bytes)}) in the store alone` : ""}`)] : []),
    ...(told.warnings ?? []).map((w) => h("li", { class: "warning" }, w.detail ?? w.message ?? String(w))),
  ];
  const held = [...(told.state ?? []), ...[["rows of the view", told.rows], ["change stream", told.change_stream], ["late events", told.late_events], ["row errors", told.row_errors]].filter(([, z]) => z?.rows).map(([kind, z]) => ({ kind, ...z }))];
  const sizes = h("table", { class: "compact held" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "what it keeps"), h("th", { scope: "col", class: "num" }, "entries"), h("th", { scope: "col", class: "num" }, "size"))), h("tbody", null, held.map((z) => h("tr", null, h("td", null, z.kind), h("td", { class: "num" }, z.rows.toLocaleString("en")), h("td", { class: "num" }, bytes(z.bytes))))));
  root.querySelector(".plan-tree").replaceChildren(top, h("ul", { class: "plan-facts" }, notes), ...(held.length ? [sizes] : []));
  root.querySelector("details").open = false;
}
