// The live parts of the pages that are no dashboards.

import { h, patch } from "./dom.js";
import { cell, number, time } from "./format.js";
import { Rows, statusText } from "./rows.js";

const TAIL = 50;
const MOST_ROWS = 200;

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
    patch(root, list.map((e) => h("tr", null, h("td", { class: "num" }, `${e.partition}/${e.offset}`), h("td", null, time(e.time)), h("td", null, h("code", null, cell(e.event))))));
  });
}

// viewPage shows the rows of a view as they change.
export function viewPage(live) {
  const root = document.getElementById("view-rows");
  if (!root) return;
  const columns = JSON.parse(root.dataset.columns);
  const measures = columns.filter((c) => c.measure).map((c) => c.name);
  const rows = new Rows(measures);
  let dirty = false;
  live.subscribe({ to: root.dataset.view, from: "snapshot" }, (m) => {
    if (m.type === "snapshot") rows.snapshot(m);
    else if (m.type === "changes") rows.changes(m, Date.now());
    else return;
    dirty = true;
  });
  const first = columns[0]?.name;
  everyFrame(() => {
    if (!dirty) return;
    dirty = false;
    const list = [...rows].sort((a, b) => (a.row[first] < b.row[first] ? 1 : -1)).slice(0, MOST_ROWS);
    const count = document.getElementById("row-count");
    if (count) count.textContent = rows.size > list.length ? `the newest ${list.length} of ${rows.size} rows` : `${rows.size} rows`;
    patch(
      root,
      list.map((e) =>
        h(
          "tr",
          { class: e.status },
          columns.map((c) => {
            const v = e.row[c.name];
            const was = e.was && c.measure && e.was[c.name] !== v ? h("del", null, cell(e.was[c.name])) : null;
            return h("td", { class: typeof v === "number" || typeof v === "bigint" ? "num" : null }, was, was ? " " : null, cell(v));
          }),
          h("td", null, h("span", { class: `badge ${e.status === "provisional" ? "open" : e.status}` }, statusText[e.status] ?? "")),
        ),
      ),
    );
  });
}

// overviewPage refreshes the counts once a second.
export function overviewPage() {
  const root = document.getElementById("overview");
  if (!root) return;
  const before = new Map();
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const [streams, views] = await Promise.all(["streams", "views"].map((k) => fetch(`/v1/${k}`).then((r) => r.json())));
      const now = performance.now();
      for (const x of streams.items) {
        const tr = root.querySelector(`[data-stream="${CSS.escape(x.name)}"]`);
        if (!tr) return location.reload();
        const last = before.get(x.name);
        const rate = last ? ((x.counts.accepted - last.n) / (now - last.at)) * 1000 : null;
        before.set(x.name, { n: x.counts.accepted, at: now });
        tr.querySelector("[data-count]").textContent = number(x.counts.accepted);
        tr.querySelector("[data-dead]").textContent = number(x.counts.dead_letters);
        if (rate !== null) tr.querySelector("[data-rate]").textContent = `${number(Math.round(rate * 10) / 10)}/s`;
      }
      for (const x of views.items) {
        const tr = root.querySelector(`[data-view="${CSS.escape(x.name)}"]`);
        if (!tr) return location.reload();
        tr.querySelector("[data-lag]").textContent = number(x.lag_events);
        tr.querySelector("[data-watermark]").textContent = x.watermark ? time(x.watermark) : "–";
        tr.querySelector("[data-state]").textContent = x.state;
      }
    } catch {
      // the banner tells that the server is away
    }
  };
  refresh();
  setInterval(refresh, 1000);
}

// guidePage waits for the first event on an empty server.
export function guidePage() {
  const line = document.getElementById("listening");
  if (!line) return;
  setInterval(async () => {
    try {
      const { items } = await (await fetch("/v1/streams")).json();
      const found = items.find((x) => x.counts.accepted > 0);
      if (!found) return;
      line.dataset.heard = "true";
      line.replaceChildren("Received the first event of ", h("a", { href: `/streams/${found.name}` }, found.name), ".");
    } catch {
      // the banner tells that the server is away
    }
  }, 700);
}
