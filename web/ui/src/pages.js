// The live parts of the pages that are no dashboards.

import { h, s, patch } from "./dom.js";
import { cell, number, clockOf, identifier } from "./format.js";
import { Rows, statusText } from "./rows.js";
import { send } from "./server.js";
import { plan } from "./plan.js";

const TAIL = 50;
const MOST_ROWS = 200;
const RATES = 60;

function everyFrame(f) {
  let last = 0;
  const frame = (now) => {
    if (now - last > 150 && !document.hidden) {
      last = now;
      f();
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

// streamPage tails a stream.
export function streamPage(live) {
  const root = document.getElementById("tail");
  if (!root) return;
  const list = [];
  let dirty = false;
  live.subscribe({ to: root.dataset.stream, from: "latest" }, (m) => {
    if (m.type !== "events") return;
    list.unshift(...m.events.reverse());
    list.length = Math.min(list.length, TAIL);
    dirty = true;
  });
  everyFrame(() => {
    if (!dirty) return;
    dirty = false;
    patch(root, list.map((e) => h("tr", null, h("td", { class: "num" }, `${e.partition}/${e.offset}`), h("td", { class: "when", title: e.time }, `${clockOf(e.time, "UTC")} UTC`), h("td", null, h("code", null, cell(e.event))))));
  });
}

// viewPage shows the rows of a view as they change.
export function viewPage(live) {
  const root = document.getElementById("view-rows");
  if (!root) return;
  plan();
  const columns = JSON.parse(root.dataset.columns);
  const measures = columns.filter((c) => c.measure).map((c) => c.name);
  const rows = new Rows(measures);
  let dirty = false;
  const first = columns[0]?.name;
  const newest = /^[A-Z]+(\(\d+,\d+\))?$/.test(columns[0]?.type ?? "") && columns[0].type !== "JSON" ? { order: `${identifier(first)} DESC`, limit: MOST_ROWS } : {};
  let version;
  let gone; // why nothing more comes
  live.subscribe({ to: root.dataset.view, from: "snapshot", ...newest }, (m) => {
    const now = m.as_of?.view_version ?? version;
    const edited = now !== version || (m.type === "error" && m.code === "unknown_column"); // what it was sorted by
    if (version !== undefined && edited && !document.querySelector("dialog[open]")) return location.reload(); // other columns, another plan
    version = now;
    if (m.type === "error") gone = m.message;
    else if (m.type === "snapshot") rows.snapshot(m);
    else if (m.type === "changes") rows.changes(m, Date.now());
    else if (m.as_of) {
      rows.asOf = m.as_of;
      rows.position = m.position;
    } else return;
    dirty = true;
  });
  const panel = { rows, root, config: { view: root.dataset.view, title: root.dataset.view, columns }, tz: "UTC", measures: () => measures };
  document.getElementById("view-verify")?.addEventListener("click", async () => (await import("./passport.js")).passport(panel));
  const put = document.getElementById("view-panel");
  put?.addEventListener("click", async () => (await import("./build.js")).offer(put.dataset.view, columns, JSON.parse(put.dataset.dashboards)));
  everyFrame(() => {
    if (!dirty) return;
    dirty = false;
    const list = [...rows].sort((a, b) => (a.row[first] < b.row[first] ? 1 : -1)).slice(0, MOST_ROWS);
    const count = document.getElementById("row-count");
    if (count) count.textContent = gone ? `no longer followed: ${gone}` : rows.size < MOST_ROWS ? rows.size === 1 ? "1 row" : `${rows.size} rows` : `the ${columns[0]?.type === "TIMESTAMP" ? "newest" : "first"} ${list.length} rows`;
    patch(
      root,
      list.map((e) =>
        h(
          "tr",
          { class: e.status },
          columns.map((c) => {
            const v = e.row[c.name];
            const was = e.was && c.measure && e.was[c.name] !== v ? h("del", null, cell(e.was[c.name])) : null;
            return h("td", { "data-label": c.name, class: typeof v === "number" || typeof v === "bigint" ? "num" : null }, was, was ? " " : null, cell(v));
          }),
          h("td", { "data-label": "status" }, h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? "")),
        ),
      ),
    );
  });
}

// refreshing keeps elements that ask for it as the server would draw them now. Totals become rates.
export function refreshing() {
  const roots = [...document.querySelectorAll("[data-refresh]")];
  if (!roots.length) return;
  const rates = new Map();
  const measure = (root) => {
    const now = performance.now();
    root.querySelectorAll("[data-total]").forEach((e, i) => {
      const box = e.closest("tr, section");
      const key = box.id || String(i);
      const total = Number(e.dataset.total);
      const r = rates.get(key) ?? { list: [] };
      if (r.at !== undefined && now > r.at) {
        r.list.push(Math.max(0, ((total - r.total) / (now - r.at)) * 1000));
        r.list = r.list.slice(-RATES);
      }
      rates.set(key, Object.assign(r, { total, at: now }));
      const last = r.list.at(-1);
      const out = box.querySelector("[data-rate]");
      if (out) out.textContent = last === undefined ? "–" : number(last >= 100 ? Math.round(last) : Math.round(last * 10) / 10);
      const line = box.querySelector("[data-spark]");
      if (line) line.replaceChildren(spark(r.list));
    });
  };
  for (const root of roots) measure(root);
  let busy = false;
  setInterval(async () => {
    if (document.hidden || busy || document.querySelector("dialog[open]")) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const root of roots) {
        const fresh = next.getElementById(root.id);
        if (!fresh || root.contains(document.activeElement?.closest("input, textarea, select"))) continue;
        measure(fresh);
        patch(root, [...document.importNode(fresh, true).childNodes]);
      }
    } catch {
      // the banner tells that the server is away
    } finally {
      busy = false;
    }
  }, Number(roots[0].dataset.refresh));
}

function spark(values) {
  const svg = s("svg", { class: "spark small", viewBox: "0 0 120 24", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (values.length < 2) return svg;
  const high = Math.max(...values, 1e-9);
  // The newest stands at the right, and the line grows to the left.
  const xy = values.map((v, i) => `${(120 - ((values.length - 1 - i) * 120) / (RATES - 1)).toFixed(1)} ${(23 - (22 * v) / high).toFixed(1)}`);
  svg.append(s("path", { class: "spark-line", d: `M${xy.join("L")}` }));
  return svg;
}

// guidePage waits for the first event on an empty server.
export function guidePage() {
  const line = document.getElementById("listening");
  if (!line) return;
  const copy = document.getElementById("copy-curl");
  copy.onclick = () => navigator.clipboard?.writeText(document.getElementById("curl").textContent).then(() => (copy.textContent = "Copied"));
  document.getElementById("sample").onclick = (e) =>
    send("POST", "/v1/streams/visits/events", { user: "ada", page: "/pricing", ms: 182, ts: new Date().toISOString() }).catch((x) => (e.target.textContent = x.message));
  const timer = setInterval(async () => {
    try {
      const { items } = await (await fetch("/v1/streams")).json();
      const found = items.find((x) => x.counts.accepted > 0);
      if (!found) return;
      clearInterval(timer);
      line.dataset.heard = "true";
      line.parentElement.querySelector("p").textContent = "It has arrived. More of them go the same way:";
      const one = await (await fetch(`/v1/streams/${found.name}`)).json();
      const columns = (one.columns ?? []).map((c) => c.name).join(", ");
      line.replaceChildren(
        h("span", null, "Received the first event of ", h("a", { href: `/streams/${found.name}` }, found.name), columns ? `. Its columns: ${columns}. ` : ". ", `Time: ${one.config?.time_field || "when it arrived"}. `),
        h("a", { class: "button primary", href: `/new?stream=${found.name}` }, "Make a dashboard from this"),
      );
    } catch {
      // the banner tells that the server is away
    }
  }, 700);
}

// lettersPage sends dead letters again, mended or not, and throws them away.
export function lettersPage() {
  document.addEventListener("submit", async (e) => {
    if (!e.target.matches(".repair")) return;
    e.preventDefault();
    const form = e.target;
    const said = form.querySelector(".answer");
    const item = form.closest("[data-letter]");
    const path = `/v1/streams/${form.closest("[data-stream]").dataset.stream}/dead_letters/${item.dataset.letter}`;
    const event = form.elements.event.value;
    try {
      JSON.parse(event);
    } catch (x) {
      said.textContent = `That is no JSON: ${x.message}`;
      return;
    }
    try {
      await send("POST", `${path}/replay`, event);
      gone(item, item.dataset.group ? `Given to the group ${item.dataset.group} again.` : "Appended.");
    } catch (x) {
      said.textContent = x.problem?.errors?.[0]?.reason ?? x.message; // of the one event
    }
  });
  document.addEventListener("click", async (e) => {
    const drop = e.target.closest(".drop");
    if (!drop) return;
    const item = drop.closest("[data-letter]");
    if (drop.dataset.sure !== "1") {
      drop.dataset.sure = "1";
      drop.textContent = "Really throw it away?";
      return;
    }
    try {
      await send("DELETE", `/v1/streams/${drop.closest("[data-stream]").dataset.stream}/dead_letters/${item.dataset.letter}`);
      gone(item, "Thrown away.");
    } catch (x) {
      item.querySelector(".answer").textContent = x.message;
    }
  });
}

function gone(item, text) {
  item.replaceChildren(h("p", { class: "gone", role: "status", tabindex: "-1" }, text));
  item.firstChild.focus();
}

// settingsPage makes and deletes keys.
export function settingsPage() {
  const form = document.getElementById("new-key");
  if (!form) return;
  const said = form.querySelector(".answer");
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const scopes = [...form.querySelectorAll("[name=scope]:checked")].map((x) => x.value);
    const streams = form.elements.streams.value.split(",").map((x) => x.trim()).filter(Boolean);
    try {
      const made = await send("PUT", `/v1/keys/${form.elements.name.value}`, { scopes, streams });
      said.replaceChildren(made.key ? "Made. Copy it now, it is not shown again: " : "Changed. ", made.key ? h("code", { class: "key" }, made.key) : "", made.note ? h("span", null, ` ${made.note}`) : "");
    } catch (x) {
      said.textContent = x.message;
    }
  });
  document.addEventListener("click", async (e) => {
    const button = e.target.closest(".delete-key, .rotate-key");
    if (!button) return;
    const rotate = button.matches(".rotate-key");
    if (button.dataset.sure !== "1") {
      button.dataset.sure = "1";
      button.textContent = rotate ? "Really rotate?" : "Really delete?";
      return;
    }
    try {
      if (rotate) {
        const made = await send("PUT", `/v1/keys/${button.dataset.key}`, { rotate: true });
        said.replaceChildren(`${button.dataset.key} has a new text. Copy it now, it is not shown again: `, h("code", { class: "key" }, made.key));
        button.textContent = "Rotated";
        return;
      }
      await send("DELETE", `/v1/keys/${button.dataset.key}`);
      button.closest("tr").remove();
    } catch (x) {
      said.textContent = x.message;
    }
  });
}
