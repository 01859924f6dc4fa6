// From a stream to a dashboard without writing SQL: a form makes the text of a view, a dry run says
// whether it can run, and a view becomes panels.

import { h } from "./dom.js";
import { identifier, cell } from "./format.js";
import { get, send } from "./server.js";

const PREVIEW = 8; // rows
const numeric = (type) => /INT|DOUBLE|FLOAT|DECIMAL/.test(type);

export function build() {
  const form = document.getElementById("build");
  const sources = JSON.parse(form.dataset.sources);
  const dashboards = JSON.parse(form.dataset.dashboards);
  const f = form.elements;
  const check = document.getElementById("build-check");
  let own = f.sql.value !== ""; // the text was changed by hand, or came with the page
  let named = f.name.value !== "";

  const columns = () => sources[f.stream.value] ?? [];
  const offerColumns = () => {
    const wants = ["sum", "avg", "min", "max", "p95"].includes(f.measure.value);
    const list = columns().filter((c) => (f.measure.value === "count_distinct" ? true : numeric(c.type)));
    const had = f.of.value;
    f.of.replaceChildren(...list.map((c) => h("option", { selected: c.name === had }, c.name)));
    document.getElementById("of").hidden = f.measure.value === "count";
    f.of.disabled = f.measure.value === "count";
    return !wants || list.length > 0;
  };
  const offerGroups = () => {
    const groups = document.getElementById("groups");
    groups.hidden = !columns().some((c) => /VARCHAR|BOOLEAN/.test(c.type));
    groups.replaceChildren(
      h("legend", null, "by"),
      ...columns()
        .filter((c) => /VARCHAR|BOOLEAN/.test(c.type))
        .map((c) => h("label", null, h("input", { type: "checkbox", name: "group", value: c.name }), ` ${c.name}`)),
    );
  };
  const measure = () => {
    const of = f.of.value && identifier(f.of.value);
    const name = (prefix) => identifier(`${prefix}${f.of.value}`);
    return {
      count: "count(*) AS events",
      sum: `sum(${of}) AS ${name("")}`,
      avg: `avg(${of}) AS ${name("average_")}`,
      min: `min(${of}) AS ${name("smallest_")}`,
      max: `max(${of}) AS ${name("largest_")}`,
      count_distinct: `count(DISTINCT ${of}) AS ${name("different_")}`,
      p95: `approx_quantile(${of}, 0.95) AS ${name("p95_")}`,
    }[f.measure.value];
  };
  const write = () => {
    if (own) return;
    const groups = [...form.querySelectorAll("[name=group]:checked")].map((x) => identifier(x.value));
    const window = f.window.value;
    const time = columns().find((c) => c.measure)?.name;
    const stream = identifier(f.stream.value); // order is a name too
    const from = window ? `tumble(${stream}, ${time ? identifier(time) : "_append_time"}, INTERVAL '${window}')` : stream;
    const select = [window ? "window_start" : null, ...groups, measure()].filter(Boolean).join(", ");
    const where = f.where.value.trim();
    f.sql.value = `SELECT ${select}\nFROM ${from}${where ? `\nWHERE ${where}` : ""}${window || groups.length ? "\nGROUP BY ALL" : ""}`;
    if (!named) {
      const what = `_${f.measure.value}${groups.length ? `_by_${groups[0].replace(/\W/g, "")}` : ""}`.slice(0, 40);
      f.name.value = `${f.stream.value.slice(0, 58 - what.length)}${what}`.toLowerCase().replace(/[^a-z0-9_]/g, "_");
    }
  };
  let timer = 0;
  const test = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const sql = f.sql.value;
      if (!sql) return;
      try {
        const answer = await send("PUT", `/v1/views/${encodeURIComponent(f.name.value || "draft")}?dry_run=true`, { sql });
        if (sql !== f.sql.value) return;
        check.className = "answer good";
        look(sql, answer.columns ?? []);
        check.textContent = `✓ This can run. Columns: ${(answer.columns ?? []).map((c) => c.name).join(", ")}.${(answer.warnings ?? []).map((w) => ` ${w.detail}`).join("")}`;
      } catch (x) {
        if (sql !== f.sql.value) return;
        check.className = "answer bad";
        check.textContent = x.message;
      }
    }, 350);
  };
  // look shows what the answer is now, as history has it.
  const preview = document.getElementById("build-preview");
  const look = async (sql, columns) => {
    const time = columns.find((c) => c.type === "TIMESTAMP" && !c.measure);
    try {
      const { rows } = await send("POST", "/v1/query", { sql: `SELECT * FROM (${sql.replace(/;\s*$/, "")}) ORDER BY ${time ? `${identifier(time.name)} DESC` : "1"} LIMIT ${PREVIEW}`, timeout: "5s" });
      if (sql !== f.sql.value) return;
      const names = columns.map((c) => c.name);
      preview.replaceChildren(
        h("h2", null, "What it answers now"),
        rows.length
          ? h("div", { class: "table-scroll", tabindex: "0" }, h("table", { class: "compact" }, h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: numeric(c.type) ? "num" : null }, c.name)))), h("tbody", null, rows.map((r) => h("tr", null, names.map((n, i) => h("td", { class: numeric(columns[i].type) ? "num" : null }, cell(r[n]))))))))
          : h("p", { class: "muted" }, "No row yet: it fills as events arrive."),
      );
    } catch (x) {
      if (sql === f.sql.value) preview.replaceChildren(h("p", { class: "muted" }, `No preview: ${x.message}`));
    }
  };
  form.addEventListener("input", (e) => {
    if (e.target === f.name) named = true;
    else if (e.target === f.sql) own = true;
    else {
      own = false;
      if (e.target === f.stream) offerGroups();
      offerColumns();
    }
    write();
    test();
  });
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const made = await send("PUT", `/v1/views/${encodeURIComponent(f.name.value)}`, { sql: f.sql.value });
      const built = document.getElementById("built");
      built.replaceChildren(h("p", { class: "verdict equal", tabindex: "-1" }, `✓ ${made.name} is made and fills itself. `, h("a", { href: `/views/${made.name}` }, "See its rows")), choice(made.name, made.columns, dashboards));
      built.firstChild.focus();
    } catch (x) {
      check.className = "answer bad";
      check.textContent = x.message;
    }
  });
  offerGroups();
  offerColumns();
  write();
  test();
}

// suggestions are panels that suit a view's columns, the first one best.
export function suggestions(view, columns) {
  const time = columns.find((c) => c.type === "TIMESTAMP" && !c.measure)?.name;
  const measures = columns.filter((c) => c.measure && numeric(c.type));
  const words = columns.filter((c) => !c.measure && c.type === "VARCHAR").map((c) => c.name);
  const y = measures.map((c) => c.name).slice(0, 1);
  const title = y.length ? `${y[0].replaceAll("_", " ")}${words.length ? ` by ${words[0]}` : ""}` : view.replaceAll("_", " ");
  const list = [];
  const sums = measures[0]?.merge;
  if (time && y.length) list.push({ type: "timeseries", title: `${title}, over time`, view, x: time, y, ...(words.length ? { series: words[0] } : {}) });
  if (y.length && (!words.length || sums)) list.push({ type: "stat", title: `${y[0].replaceAll("_", " ")}${time ? ", newest window" : ""}`, view, y, ...(time ? { x: time } : {}) });
  if (words.length && y.length) list.push({ type: "toplist", title: `${title}, ${time && sums !== "sum" ? "newest" : "largest"}`, view, y, series: words[0], limit: 10, ...(time ? { x: time } : {}) });
  list.push({ type: "table", title: `Rows of ${view}`, view, limit: 50, ...(time ? { x: time, order: `${identifier(time)} DESC` } : {}) });
  return list;
}

const sizes = { stat: [3, 2], timeseries: [8, 4], toplist: [4, 4], table: [12, 4] };

// choice is the form that puts a view on a dashboard: one that is there, or a new one.
function choice(view, columns, dashboards) {
  const list = suggestions(view, columns);
  const said = h("p", { class: "answer", role: "status" });
  const where = h("select", { name: "dashboard" }, h("option", { value: "" }, "a new dashboard"), dashboards.map((d) => h("option", { value: d.name }, d.title)));
  const what = h("select", { name: "panel" }, h("option", { value: "" }, "all that suit it"), list.map((p, i) => h("option", { value: i }, p.type)));
  const form = h("form", { class: "form put-panel" }, h("div", { class: "row" }, h("label", null, "show it on ", where), h("label", null, "as ", what), h("button", { class: "primary" }, "Show it")), said);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const chosen = what.value === "" ? list : [list[Number(what.value)]];
      location.assign(`/d/${await put(view, where.value, chosen)}`);
    } catch (x) {
      said.className = "answer bad";
      said.textContent = x.message;
    }
  });
  return form;
}

async function put(view, name, chosen) {
  let doc = { title: view.replaceAll("_", " ").replace(/^./, (c) => c.toUpperCase()), range: "now-1h", tz: "UTC", panels: [] };
  if (name) {
    const { name: _, created, updated, warnings, ...kept } = await get(`/v1/dashboards/${name}`);
    doc = kept;
  } else {
    name = view;
    const taken = await fetch(`/v1/dashboards/${name}`);
    if (taken.ok) name = `${view}_${Date.now().toString(36).slice(-4)}`.slice(0, 60);
  }
  let y = Math.max(0, ...doc.panels.map((p) => (p.grid ? p.grid[1] + p.grid[3] : 0)));
  let x = 0;
  let tall = 0;
  const ids = new Set(doc.panels.map((p) => p.id));
  for (const p of chosen) {
    const [w, hgt] = sizes[p.type] ?? [6, 4];
    if (x + w > 12) [x, y, tall] = [0, y + tall, 0];
    let id = p.type;
    for (let n = 2; ids.has(id); n++) id = `${p.type}${n}`;
    ids.add(id);
    doc.panels.push({ id, ...p, grid: [x, y, w, hgt] });
    x += w;
    tall = Math.max(tall, hgt);
  }
  await send("PUT", `/v1/dashboards/${name}`, doc);
  return name;
}

// offer opens the choice as a dialog, from a view's page.
export function offer(view, columns, dashboards) {
  const d = h("dialog", { "aria-labelledby": "offer-title" });
  d.append(h("header", null, h("h2", { id: "offer-title" }, `Show ${view} on a dashboard`), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")), choice(view, columns, dashboards));
  d.addEventListener("close", () => d.remove());
  document.body.append(d);
  d.showModal();
}
