// The plan of a view as a tree: what feeds what, what each step holds, and what grows without bound.

import { h } from "./dom.js";
import { get } from "./server.js";

// bytes is a size as people read it.
const bytes = (n) => (n < 1e3 ? `${n} B` : n < 1e6 ? `${(n / 1e3).toFixed(1)} kB` : n < 1e9 ? `${(n / 1e6).toFixed(1)} MB` : `${(n / 1e9).toFixed(1)} GB`);
const many = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

// steps reads the indented lines of a plan's text; those behind the tree are facts about it.
export function steps(text) {
  const out = [];
  const facts = [];
  for (const line of text.split("\n").filter(Boolean)) {
    const depth = (line.length - line.trimStart().length) / 2;
    const [, name, rest] = /^(row key|\S+)\s*(.*)$/.exec(line.trim());
    if (depth === 0 && out.length) facts.push([name, rest]);
    else out.push({ depth, name, text: rest });
  }
  return { out, facts };
}

export async function plan() {
  const root = document.getElementById("plan");
  if (!root) return;
  const told = await get(`/v1/views/${root.dataset.view}/explain`).catch(() => null);
  if (!told) return;
  const { out, facts } = steps(told.plan ?? root.querySelector("pre").textContent);
  const list = told.operators?.length ? told.operators : out;
  const top = h("ul", { class: "plan-steps" });
  const open = [{ depth: -1, children: top }];
  for (const o of list) {
    while (open.length > 1 && open.at(-1).depth >= o.depth) open.pop();
    const held = o.rows ? h("span", { class: "badge" }, `${many(o.rows, "row")} · ${bytes(o.bytes ?? 0)}`) : null;
    const children = h("ul", null);
    const item = h(
      "li",
      null,
      h("p", null, h("strong", null, o.name), " ", h("code", null, o.text ?? ""), " ", held, o.shared ? h("span", { class: "badge live", title: String(o.shared) }, "shared") : null, o.unbounded ? h("span", { class: "badge corrected" }, "grows without bound") : null),
      o.unbounded ? h("p", { class: "warning" }, String(o.unbounded)) : null,
      children,
    );
    open.at(-1).children.append(item);
    open.push({ depth: o.depth, children });
  }
  const notes = facts.map(([name, text]) => h("li", null, h("strong", null, name), " ", text));
  const state = told.state?.length ? [h("h3", null, "What it holds"), h("table", { class: "compact held" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "state"), h("th", { scope: "col", class: "num" }, "rows"), h("th", { scope: "col", class: "num" }, "size"))), h("tbody", null, told.state.map((s) => h("tr", null, h("td", null, s.kind), h("td", { class: "num" }, s.rows.toLocaleString("en")), h("td", { class: "num" }, bytes(s.bytes))))))] : [];
  root.querySelector(".plan-tree").replaceChildren(top, h("ul", { class: "plan-facts" }, notes), ...state);
  root.querySelector("details").open = false;
}
