// The passport of a panel: as of which offsets its numbers are, what the watermark waits for, the
// proof (the same SQL run over history), what was corrected, and which events a row is made of.

import { h, patch } from "./dom.js";
import { cell, number, time, ago, identifier, literal } from "./format.js";
import { statusText, keyOf } from "./rows.js";
import { send } from "./server.js";
import { Live } from "./live.js";
import { traced } from "./trace.js";

function dialog() {
  let d = document.getElementById("passport");
  if (!d) {
    d = h("dialog", { id: "passport", "aria-labelledby": "passport-title" });
    d.addEventListener("click", (e) => e.target === d && d.close());
    d.addEventListener("close", () => d.dispatchEvent(new Event("leave")));
    document.body.append(d);
  }
  return d;
}

// passport opens the dialog; at is an instant when it is about one point of a chart.
export async function passport(panel, at) {
  const d = dialog();
  const { view, title } = panel.config;
  const asOf = panel.rows.asOf ?? {};
  const result = h("div", { class: "verify-result", role: "status", "aria-live": "polite" });
  const verify = h("button", { type: "button", class: "primary", onclick: () => run(view, result, verify) }, "Verify");
  const facts = h("dl", null);
  const entry = (name, ...value) => facts.append(h("dt", null, name), h("dd", null, ...value));
  entry("View", h("a", { href: `/views/${view}` }, view));
  entry("Complete to", asOf.watermark ? `${asOf.watermark} (${ago(Date.now() - Date.parse(asOf.watermark))})` : "no event yet");
  const held = h("dd", { id: "passport-held" }, "…");
  facts.append(h("dt", null, "Waits for"), held);
  for (const [stream, offsets] of Object.entries(asOf.offsets ?? {})) entry(`Events of ${stream}`, offsets.map((o, p) => `${offsets.length > 1 ? `partition ${p}: ` : ""}all before offset ${o.toLocaleString("en")}`).join(", "));
  const late = h("dd", null, "…");
  facts.append(h("dt", null, "Late events"), late);
  entry("Version, position", `${asOf.view_version ?? "–"}, `, h("code", null, panel.rows.position ?? "–"));
  d.replaceChildren(
    h("header", null, h("h2", { id: "passport-title" }, title || view), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")),
    facts,
    h("p", { class: "muted" }, "Verify runs the view’s own SQL in DuckDB over the same events and compares every row."),
    h("div", { class: "row" }, verify, h("a", { class: "button", href: `/views/${view}` }, "SQL and plan")),
    result,
    story(panel, at),
  );
  if (!d.open) d.showModal();
  fetch(`/v1/views/${view}/watermark`)
    .then((r) => r.json())
    .then((w) => {
      held.textContent = waits(w);
    })
    .catch(() => (held.textContent = "not known now"));
  fetch(`/v1/views/${view}`)
    .then((r) => r.json())
    .then(({ counts: c, late: how, allowed_lateness: until }) => {
      late.textContent = `${c.late_corrected.toLocaleString("en")} corrected a row, ${c.late_dropped.toLocaleString("en")} were refused${how === "correct" && until ? ` (later than ${until})` : ""}`;
    })
    .catch(() => (late.textContent = "not known now"));
}

// waits says what the watermark waits for.
function waits(w) {
  if (!w.held_by) return w.watermark ? "nothing: no stream beneath is behind" : "the first event";
  const { stream, partition, last_event: e } = w.held_by;
  return `the next event of ${stream}, partition ${partition}${e ? `; its newest is offset ${e.offset}, ${ago(Date.now() - Date.parse(e.append_time))}` : ""}`;
}

async function run(view, out, button) {
  button.disabled = true;
  patch(out, [h("p", { class: "muted" }, "Recomputing from history …")]);
  try {
    let body = await send("POST", `/v1/views/${view}/verify?wait=30s`);
    patch(out, verdict(body));
  } catch (e) {
    patch(out, [h("p", { class: "verdict different" }, `It could not be checked: ${e.message}`)]);
  } finally {
    button.disabled = false;
  }
}

function verdict(body) {
  if (body.result === "equal") return [h("p", { class: "verdict equal" }, `✓ Equal: the live view and DuckDB agree on all ${body.rows} rows.`), sample(body.sample ?? [])];
  if (body.result === "different") return [h("p", { class: "verdict different" }, `✗ ${body.differences.length} rows differ.`), sample(body.differences)];
  if (!body.result) return [h("p", { class: "verdict" }, "Still running: ask again in a moment.")];
  return [h("p", { class: "verdict" }, `Can’t tell: ${body.reason ?? "unknown reason"}`)];
}

function sample(list) {
  if (!list.length) return "";
  return h(
    "div",
    { class: "table-scroll", tabindex: "0" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "live"), h("th", { scope: "col" }, "DuckDB"))),
      h("tbody", null, list.slice(0, 20).map((x) => h("tr", null, h("td", null, text(x.live)), h("td", null, text(x.batch))))),
    ),
  );
}

const text = (row) => (row ? Object.values(row).map((v) => cell(v)).join(" · ") : "no such row");
const SHOWN = 12;

// story lists the rows of one point, or those that were corrected, each with its changes and events.
function story(panel, at) {
  const { x, unit } = panel.config;
  const measures = panel.measures();
  let list = [...panel.rows];
  list = at && x ? list.filter((e) => Date.parse(e.row[x]) === Date.parse(at)) : list.filter((e) => e.status === "corrected");
  if (x) list.sort((a, b) => (a.row[x] < b.row[x] ? 1 : -1));
  if (!at && !list.length) list = x ? panel.sorted?.().slice(-1) ?? [] : [...panel.rows].slice(0, 1);
  if (!list.length) return h("p", { class: "muted" }, at ? "No row stands at this point." : "");
  const heading = at ? `The rows of ${time(at, panel.tz)}` : list[0].status === "corrected" ? "Corrected after they were final" : "The newest row";
  return h(
    "section",
    { class: "story" },
    h("h3", null, heading),
    h(
      "ul",
      null,
      list.slice(0, SHOWN).map((e) => {
        const out = h("div", { class: "told", role: "status" });
        const names = Object.keys(e.row).filter((n) => !measures.includes(n));
        const label = names.map((n) => cell(e.row[n], null, panel.tz)).join(" · ") || "the one row";
        const values = measures.filter((n) => n in e.row && (!panel.config.y?.length || panel.config.y.includes(n))).map((n) => `${n} ${number(e.row[n], unit)}`);
        return h(
          "li",
          null,
          h("p", null, h("strong", null, label), " ", values.join(", "), " ", h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? e.status)),
          h(
            "div",
            { class: "row" },
            h("button", { type: "button", class: "changes", onclick: () => changes(panel, e.row, names, out) }, "Its changes"),
            h("button", { type: "button", class: "events", onclick: () => events(panel, e.row, names, out) }, "Which events?"),
          ),
          out,
        );
      }),
      list.length > SHOWN ? h("li", { class: "muted" }, `and ${list.length - SHOWN} more`) : null,
    ),
  );
}

const typeOf = (panel, name) => panel.config.columns?.find((c) => c.name === name)?.type;
const conditions = (panel, row, names) => names.map((n) => (row[n] === null ? `${identifier(n)} IS NULL` : `${identifier(n)} = ${literal(row[n], typeOf(panel, n))}`)).join(" AND ");

// changes reads the view's change stream from its oldest change, only what concerns this row.
function changes(panel, row, names, out) {
  const measures = panel.measures();
  const found = [];
  patch(out, [h("p", { class: "muted" }, "Reading the change stream …")]);
  const reader = new Live();
  const done = () => {
    stop();
    reader.close();
  };
  const stop = reader.subscribe({ to: panel.config.view, from: "earliest", fold: false, ...(names.length ? { where: conditions(panel, row, names) } : {}) }, (m) => {
    if (m.type === "error") {
      patch(out, [h("p", { class: "muted" }, m.message)]);
      return done();
    }
    const key = keyOf(row, new Set(measures));
    for (const c of m.changes ?? []) if (keyOf(c.row, new Set(measures)) === key && c.op === "+") found.push({ ...c, at: m.as_of });
    if (m.type !== "progress" && m.type !== "gap") return;
    if (m.type === "gap") return patch(out, [h("p", { class: "muted" }, "Older changes are not kept any more.")]);
    done();
    const keep = found.slice(-30);
    patch(out, [
      h("p", { class: "muted" }, `${found.length} ${found.length === 1 ? "version" : "versions"}${found.length > keep.length ? `, the newest ${keep.length}` : ""}:`),
      h(
        "div",
        { class: "table-scroll", tabindex: "0" },
        h(
          "table",
          { class: "ledger" },
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "revision"), h("th", { scope: "col" }, "status"), measures.map((n) => h("th", { scope: "col", class: "num" }, n)), h("th", { scope: "col" }, "complete to, then"))),
          h("tbody", null, keep.map((c) => h("tr", null, h("td", null, String(c.revision ?? "–")), h("td", null, statusText[c.status] ?? c.status), measures.map((n) => h("td", { class: "num" }, cell(c.row[n], panel.config.unit))), h("td", null, c.at?.watermark ? time(c.at.watermark, panel.tz) : "–")))),
        ),
      ),
    ]);
  });
}

// events asks history for the events that a row is made of, where the view's text is plain enough to
// tell.
async function events(panel, row, names, out) {
  patch(out, [h("p", { class: "muted" }, "Asking history …")]);
  try {
    const info = await (await fetch(`/v1/views/${panel.config.view}`)).json();
    const query = traced(info, row, names, (n) => typeOf(panel, n));
    if (!query) return patch(out, [h("p", { class: "muted" }, "This view’s SQL is too involved to be traced from here; its page shows the SQL.")]);
    const answer = await send("POST", "/v1/query", { sql: query, max_rows: 200 });
    const columns = answer.columns.map((c) => c.name).filter((n) => !n.startsWith("_") && !n.startsWith("window_"));
    patch(out, [
      h("p", { class: "muted" }, `${answer.rows.length}${answer.truncated ? " or more" : ""} events, as history has them now${info.counts.late_dropped ? "; those that were refused as too late are among them" : ""}:`),
      h(
        "div",
        { class: "table-scroll tall", tabindex: "0" },
        h(
          "table",
          { class: "ledger" },
          h("thead", null, h("tr", null, h("th", { scope: "col" }, "partition/offset"), columns.map((n) => h("th", { scope: "col" }, n)))),
          h("tbody", null, answer.rows.map((r) => h("tr", null, h("td", { class: "num" }, `${r._partition}/${r._offset}`), columns.map((n) => h("td", null, cell(r[n], null, panel.tz)))))),
        ),
      ),
    ]);
  } catch (e) {
    patch(out, [h("p", { class: "muted" }, e.message)]);
  }
}
