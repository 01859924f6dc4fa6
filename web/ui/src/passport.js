// The passport of a panel: as of which offsets its numbers are, what the watermark waits for, the
// proof (the same SQL run over history), what was corrected, and which events a row is made of. A page
// that was shared shows the first two.

import { h, patch } from "./dom.js";
import { cell, number, time, ago } from "./format.js";
import { stringify } from "./json.js";
import { statusText } from "./rows.js";
import { send, get, link } from "./server.js";

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
  const { view, title, type } = panel.config;
  const rows = panel.rows ?? {};
  const asOf = rows.asOf ?? {};
  const stream = type === "feed" && !rows.asOf;
  const result = h("div", { class: "verify-result", role: "status", "aria-live": "polite" });
  const verify = h("button", { type: "button", class: "primary", onclick: () => run(view, result, verify) }, "Verify");
  const facts = h("dl", null);
  const entry = (name, ...value) => {
    const dd = h("dd", null, ...value);
    facts.append(h("dt", null, name), dd);
    return dd;
  };
  const named = (kind, path) => entry(kind, link ? view : h("a", { href: path }, view));
  if (stream) named("Stream", `/streams/${view}`);
  else {
    named(type === "alerts" ? "Alert" : "View", `/views/${view}`);
    if (asOf.watermark) entry("Complete to", h("time", { datetime: asOf.watermark, title: asOf.watermark }, time(asOf.watermark, panel.tz)), ` ${panel.tz}, ${ago(Date.now() - Date.parse(asOf.watermark))}`);
    entry("Waits for", "…").id = "passport-held";
  }
  for (const [name, offsets] of Object.entries(asOf.offsets ?? {})) entry(`Events of ${name}`, offsets.map((o, p) => `${offsets.length > 1 ? `partition ${p}: ` : ""}all before offset ${o.toLocaleString("en")}`).join(", "));
  for (const line of panel.facts?.() ?? []) entry(...line);
  if (rows.size) entry("Rows", standing(rows));
  const late = stream || link ? null : entry("Late events", "…");
  if (asOf.oldest) entry("Reaches back to", time(asOf.oldest, panel.tz));
  if (rows.position) entry("Version, position", `${asOf.view_version ?? "–"}, `, h("code", null, rows.position));
  const proof = ["alerts", "feed"].includes(type) || link ? [] : [h("p", { class: "muted" }, "Verify runs the view’s own SQL in DuckDB over the same events and compares every row."), h("div", { class: "row" }, verify, h("a", { class: "button", href: `/views/${view}` }, "SQL and plan")), result];
  const noted = at && panel.board?.notes && document.getElementById("note") ? h("div", { class: "row" }, h("button", { type: "button", class: "note-here", onclick: () => (d.close(), panel.board.notes.open(at)) }, "Note something at this point")) : null;
  d.replaceChildren(h("header", null, h("h2", { id: "passport-title" }, title || view), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")), facts, ...proof, ...(noted ? [noted] : []), ...(panel.rows ? [story(panel, at)] : []));
  if (!d.open) d.showModal();
  if (stream) return;
  get(`/v1/views/${view}/watermark`)
    .then((w) => (document.getElementById("passport-held").textContent = waits(w)))
    .catch(() => (document.getElementById("passport-held").textContent = "not known now"));
  if (!late) return;
  get(`/v1/${type === "alerts" ? "alerts" : "views"}/${view}`)
    .then(({ counts: c, late: how, allowed_lateness: until }) => {
      late.textContent = `${c.late_corrected.toLocaleString("en")} corrected a row, ${c.late_dropped.toLocaleString("en")} were refused${how === "correct" && until ? ` (later than ${until})` : ""}`;
    })
    .catch(() => (late.textContent = "not known now"));
}

// standing counts the rows by their status.
function standing(rows) {
  const n = { provisional: 0, final: 0, corrected: 0 };
  for (const e of rows) n[e.status]++;
  return Object.entries(n).filter(([, k]) => k).map(([s, k]) => `${k.toLocaleString("en")} ${s}`).join(", ");
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
        const names = Object.keys(e.row).filter((n) => n !== "_row" && !measures.includes(n));
        const label = names.map((n) => cell(e.row[n], null, panel.tz)).join(" · ") || "the one row";
        const values = measures.filter((n) => n in e.row && (!panel.config.y?.length || panel.config.y.includes(n))).map((n) => `${n} ${number(e.row[n], unit)}`);
        return h(
          "li",
          null,
          h("p", null, h("strong", null, label), " ", values.join(", "), " ", h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? e.status)),
          link ? null : h(
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

const keyOf = (row, names) => stringify(Object.fromEntries(names.map((n) => [n, row[n]])));
const say = (out, text) => patch(out, [h("p", { class: "muted" }, text)]);

const MOST_PAGES = 20;
const VERSIONS = 30;

// changes shows the ledger of one row: what it was, from its first version on.
async function changes(panel, row, names, out) {
  say(out, "Reading the ledger …");
  try {
    let found = [];
    let cursor;
    for (let n = 0; n < MOST_PAGES; n++) {
      const page = await get(`/v1/views/${panel.config.view}/rows/history`, { key: keyOf(row, names), limit: 1000, cursor });
      found = found.concat(page.items.filter((c) => c.op === "+"));
      cursor = page.next;
      if (!cursor) break;
    }
    const keep = found.slice(-VERSIONS);
    const measures = panel.measures().filter((n) => n in row);
    patch(out, [
      h("p", { class: "muted" }, `${found.length} ${found.length === 1 ? "version" : "versions"}${found.length > keep.length ? `, the newest ${keep.length}` : ""}:`),
      grid(["revision", "status", ...measures, "complete to, then"], measures, keep.map((c) => [String(c.revision ?? "–"), statusText[c.status] ?? c.status, ...measures.map((n) => cell(c.row[n], panel.config.unit)), c.as_of?.watermark ? time(c.as_of.watermark, panel.tz) : "–"])),
    ]);
  } catch (e) {
    say(out, e.message);
  }
}

// events shows the events that a row is made of, down to their offsets.
async function events(panel, row, names, out) {
  say(out, "Asking …");
  try {
    const { items, exact, reason, more } = await get(`/v1/views/${panel.config.view}/rows/events`, { key: keyOf(row, names), limit: 200 });
    if (!items.length) return say(out, reason ?? "No event stands behind this row.");
    const fields = [...new Set(items.flatMap((i) => Object.keys(i.event ?? {})))].slice(0, 8);
    const refused = items.some((i) => i.outcome === "refused");
    const streams = new Set(items.map((i) => i.stream)).size > 1;
    patch(out, [
      h("p", { class: "muted" }, `${items.length}${more ? " or more" : ""} ${items.length === 1 ? "event" : "events"}${exact ? "" : `; not exactly these: ${reason}`}:`),
      grid(["partition/offset", ...(refused ? ["outcome"] : []), ...fields], [], items.map((i) => [`${streams ? `${i.stream} ` : ""}${i.partition}/${i.offset}`, ...(refused ? [i.outcome] : []), ...fields.map((n) => cell(i.event?.[n], null, panel.tz))])),
    ]);
  } catch (e) {
    say(out, e.message);
  }
}

const grid = (heads, numbers, lines) =>
  h(
    "div",
    { class: "table-scroll tall", tabindex: "0" },
    h("table", { class: "ledger" }, h("thead", null, h("tr", null, heads.map((n) => h("th", { scope: "col", class: numbers.includes(n) ? "num" : null }, n)))), h("tbody", null, lines.map((l) => h("tr", null, l.map((v, i) => h("td", { class: numbers.includes(heads[i]) ? "num" : null }, v)))))),
  );
