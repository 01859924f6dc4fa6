// The passport of a panel: as of which offsets its numbers are, what the watermark says, and the
// proof: the same SQL run over history.

import { h, patch } from "./dom.js";
import { cell } from "./format.js";

function dialog() {
  let d = document.getElementById("passport");
  if (!d) {
    d = h("dialog", { id: "passport", "aria-labelledby": "passport-title" });
    d.addEventListener("click", (e) => e.target === d && d.close());
    document.body.append(d);
  }
  return d;
}

export async function passport(panel) {
  const d = dialog();
  const { view, title } = panel.config;
  const asOf = panel.rows.asOf ?? {};
  const result = h("div", { class: "verify-result", role: "status", "aria-live": "polite" });
  const verify = h("button", { type: "button", class: "primary", onclick: () => run(view, result, verify) }, "Verify");
  const facts = h("dl", null);
  const entry = (name, value) => facts.append(h("dt", null, name), h("dd", null, value));
  entry("View", h("a", { href: `/views/${view}` }, view));
  entry("Complete to", asOf.watermark ?? "no event yet");
  for (const [stream, offsets] of Object.entries(asOf.offsets ?? {})) entry(`Events of ${stream}`, `all before offset ${offsets.join(", ")}`);
  entry("View version", String(asOf.view_version ?? "–"));
  entry("Position", h("code", null, panel.rows.position ?? "–"));
  d.replaceChildren(
    h("header", null, h("h2", { id: "passport-title" }, title), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")),
    facts,
    h("p", { class: "muted" }, "Verify runs the view’s own SQL in DuckDB over the same events and compares every row."),
    h("div", { class: "row" }, verify),
    result,
  );
  d.showModal();
}

async function run(view, out, button) {
  button.disabled = true;
  patch(out, [h("p", { class: "muted" }, "Recomputing from history …")]);
  try {
    const answer = await fetch(`/v1/views/${view}/verify?wait=30s`, { method: "POST" });
    const body = await answer.json();
    if (!answer.ok) throw new Error(`${body.detail ?? answer.statusText}${body.hint ? `: ${body.hint}` : ""}`);
    patch(out, verdict(body));
  } catch (e) {
    patch(out, [h("p", { class: "state error" }, `It could not be checked: ${e.message}`)]);
  } finally {
    button.disabled = false;
  }
}

function verdict(body) {
  if (body.result === "equal") return [h("p", { class: "verdict equal" }, `✓ Equal: the live view and DuckDB agree on all ${body.rows} rows.`), sample(body.sample ?? [])];
  if (body.result === "different") return [h("p", { class: "verdict different" }, `✗ ${body.differences.length} rows differ.`), sample(body.differences)];
  return [h("p", { class: "verdict" }, `Can’t tell: ${body.reason ?? "unknown reason"}`)];
}

function sample(list) {
  if (!list.length) return "";
  return h(
    "div",
    { class: "table-scroll" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "live"), h("th", { scope: "col" }, "DuckDB"))),
      h("tbody", null, list.slice(0, 20).map((x) => h("tr", null, h("td", null, text(x.live)), h("td", null, text(x.batch))))),
    ),
  );
}

const text = (row) => (row ? Object.values(row).map((v) => cell(v)).join(" · ") : "no such row");
