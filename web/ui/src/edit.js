// Editing a dashboard in place: panels are added, changed, ordered, sized and removed, by pointer or
// keyboard, and every step shows at once with live data. Nothing is kept before Save.

import { h, s as svg, patch } from "./dom.js";
import { panelForm, section, configOf } from "./panelform.js";
import { mount } from "./panels.js";
import { send } from "./server.js";
import { arrange, glide } from "./arrange.js";

const COLUMNS = 12;

// icons are drawn on a field of 16: not every font has such signs.
const icons = {
  change: "M3 13l1-4 7-7 3 3-7 7zM9 4l3 3",
  earlier: "M10 3L5 8l5 5",
  later: "M6 3l5 5-5 5",
  narrower: "M1 8h5M4 5l3 3-3 3M15 8h-5M12 5L9 8l3 3",
  wider: "M7 8H1M4 5L1 8l3 3M9 8h6M12 5l3 3-3 3",
  shorter: "M8 1v5M5 4l3 3 3-3M8 15v-5M5 12l3-3 3 3",
  taller: "M8 7V1M5 4l3-3 3 3M8 9v6M5 12l3 3 3-3",
  twin: "M2 2h8v8H2zM6 10v4h8V6h-4",
  remove: "M3 3l10 10M13 3L3 13",
};
const icon = (name) => svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: icons[name] }));

export function edit(board, live) {
  const bar = document.getElementById("editing");
  if (!bar.hidden) return;
  let doc = JSON.parse(board.root.dataset.doc);
  const undo = [];
  const before = JSON.stringify(doc);
  const said = h("span", { class: "answer", role: "status" });
  bar.hidden = false;
  document.body.classList.add("edits");

  // change keeps what was, does something, and draws the board anew.
  const change = (what, focus) => {
    undo.push(JSON.stringify(doc));
    what(doc);
    draw(focus);
  };

  // pack gives every panel the highest place, left first, where it fits behind those before it.
  const pack = () => {
    const height = Array(COLUMNS).fill(0);
    for (const p of doc.panels) {
      p.grid ??= [0, 0, 6, 4];
      const [, , w, hgt] = p.grid;
      let best = null;
      for (let x = 0; x + w <= COLUMNS; x++) {
        const y = Math.max(...height.slice(x, x + w));
        if (!best || y < best[1]) best = [x, y];
      }
      p.grid = [best[0], best[1], w, hgt];
      for (let x = best[0]; x < best[0] + w; x++) height[x] = best[1] + hgt;
    }
  };
  const inOrder = () => doc.panels.sort((a, b) => (a.grid?.[1] ?? 0) - (b.grid?.[1] ?? 0) || (a.grid?.[0] ?? 0) - (b.grid?.[0] ?? 0));

  const move = (p, by) =>
    change((d) => {
      const i = d.panels.findIndex((q) => q.id === p);
      const j = i + by;
      if (j < 0 || j >= d.panels.length) return;
      [d.panels[i], d.panels[j]] = [d.panels[j], d.panels[i]];
      pack();
    }, [p, by < 0 ? "earlier" : "later"]);
  const size = (p, dw, dh) =>
    change((d) => {
      const g = d.panels.find((q) => q.id === p).grid;
      g[2] = clamp(g[2] + dw, COLUMNS);
      g[3] = clamp(g[3] + dh, COLUMNS);
      pack();
    }, [p, dw ? (dw > 0 ? "wider" : "narrower") : dh > 0 ? "taller" : "shorter"]);
  const remove = (p) => change((d) => ((d.panels = d.panels.filter((q) => q.id !== p)), pack()));
  const twin = (p) =>
    change((d) => {
      const i = d.panels.findIndex((q) => q.id === p);
      d.panels.splice(i + 1, 0, { ...structuredClone(d.panels[i]), id: free(d, p) });
      pack();
    });

  const tools = (p) => {
    const button = (name, label, does) => h("button", { type: "button", "data-tool": name, title: label, "aria-label": `${label}: ${p.title || p.id}`, onclick: does }, icon(name));
    return h(
      "div",
      { class: "tools", role: "toolbar", "aria-label": `Change ${p.title || p.id}` },
      button("change", "Change", () => form(p)),
      button("earlier", "Move forward", () => move(p.id, -1)),
      button("later", "Move back", () => move(p.id, 1)),
      button("narrower", "Narrower", () => size(p.id, -1, 0)),
      button("wider", "Wider", () => size(p.id, 1, 0)),
      button("shorter", "Shorter", () => size(p.id, 0, -1)),
      button("taller", "Taller", () => size(p.id, 0, 1)),
      button("twin", "Duplicate", () => twin(p.id)),
      button("remove", "Remove", () => remove(p.id)),
    );
  };

  const shown = new Map(); // id → {text, root, panel}
  [...board.root.children].forEach((root, i) => {
    const p = doc.panels[i];
    if (p) shown.set(p.id, { text: look(p), root, panel: board.panels[i] });
  });

  // place puts every panel where the document has it.
  const place = () => {
    const wide = matchMedia("(min-width: 1001px)").matches;
    for (const p of doc.panels) {
      const style = shown.get(p.id)?.root.style;
      if (!style || !p.grid) continue;
      style.gridArea = wide ? `${p.grid[1] + 1} / ${p.grid[0] + 1} / span ${p.grid[3]} / span ${p.grid[2]}` : "";
      style.setProperty("--rows", p.grid[3]);
    }
  };
  const slide = (what) => glide([...shown.values()].map((s) => s.root), () => (what(), pack(), place()));

  let held = "";
  arrange(board.root, {
    begin: () => (held = JSON.stringify(doc)),
    moveTo: (id, other, behind) => {
      const p = doc.panels.find((q) => q.id === id);
      const list = doc.panels.filter((q) => q !== p);
      list.splice(list.findIndex((q) => q.id === other) + (behind ? 1 : 0), 0, p);
      if (list.every((q, i) => q === doc.panels[i])) return false;
      slide(() => (doc.panels = list));
      return true;
    },
    sizeTo: (id, w, hgt) => {
      const p = doc.panels.find((q) => q.id === id);
      const [nw, nh] = [clamp(w, COLUMNS), clamp(hgt, COLUMNS)];
      if (p.grid[2] !== nw || p.grid[3] !== nh) slide(() => (p.grid = [p.grid[0], p.grid[1], nw, nh]));
    },
    end: (keep) => {
      if (!keep) doc = JSON.parse(held);
      else if (held !== JSON.stringify(doc)) undo.push(held);
      draw();
    },
  });

  // draw brings the board to the document: what has not changed stays as it is.
  const draw = (focus) => {
    const keep = new Set(doc.panels.map((p) => p.id));
    for (const [id, s] of shown) {
      if (keep.has(id)) continue;
      s.panel?.end();
      s.root.remove();
      shown.delete(id);
    }
    doc.panels.forEach((p) => {
      let s = shown.get(p.id);
      if (!s || s.text !== look(p)) {
        const root = section(p);
        if (s) {
          s.panel?.end();
          s.root.replaceWith(root);
        }
        s = { text: look(p), root, panel: null };
        shown.set(p.id, s);
        board.root.append(root);
        configOf(p).then((config) => {
          root.dataset.panel = JSON.stringify(config);
          s.panel = mount(root, live, board);
        });
      }
      board.root.append(s.root);
      s.root.querySelector(":scope > .tools")?.remove();
      s.root.append(tools(p));
      s.root.dataset.id = p.id;
      if (!s.root.querySelector(":scope > .corner")) s.root.append(h("span", { class: "corner", "aria-hidden": "true", title: "Drag to size" }));
    });
    place();
    undoing.disabled = undo.length === 0;
    if (focus) shown.get(focus[0])?.root.querySelector(`[data-tool=${focus[1]}]`)?.focus();
  };

  const form = (p) =>
    panelForm(p, doc, board, live, (made) =>
      change((d) => {
        const i = d.panels.findIndex((q) => q.id === p?.id);
        if (i >= 0) d.panels[i] = { ...made, id: p.id, grid: made.grid ?? p.grid };
        else d.panels.push({ ...made, id: free(d, made.type), grid: [0, 0, ...({ stat: [3, 2], timeseries: [8, 4], text: [4, 2] }[made.type] ?? [6, 4])] });
        pack();
      }),
    );

  const undoing = h("button", { type: "button", class: "undo", onclick: () => ((doc = JSON.parse(undo.pop())), draw()) }, "Undo");
  const title = h("input", { value: doc.title, "aria-label": "Title of the dashboard", maxlength: 200 });
  title.addEventListener("change", () => change((d) => (d.title = title.value)));
  // theirs says that somebody else has saved meanwhile: nobody's changes go without a word.
  let over = false;
  const theirs = (button) => {
    over = true;
    button.textContent = "Save over it";
    said.replaceChildren("Somebody else has changed this dashboard since you opened it: ", h("a", { href: location.pathname, target: "_blank" }, "see it"), ", or save over it.");
  };
  patch(bar, []);
  bar.append(
    h("strong", null, "Editing"),
    title,
    h("button", { type: "button", class: "add", onclick: () => form(null) }, "Add a panel"),
    undoing,
    h("button", { type: "button", class: "primary save", onclick: async (e) => {
      doc.title = title.value;
      try {
        await send("PUT", `/v1/dashboards/${board.name}`, doc, over ? {} : { "If-Match": board.root.dataset.tag });
        location.reload();
      } catch (x) {
        said.textContent = x.message;
        if (x.status === 412) theirs(e.target);
      }
    } }, "Save"),
    h("button", { type: "button", onclick: () => (JSON.stringify(doc) === before || confirm("Throw the changes away?")) && location.reload() }, "Cancel"),
    said,
  );
  inOrder();
  draw();
  bar.querySelector(".add").focus();
}

const clamp = (n, most) => Math.min(most, Math.max(2, n));
const look = ({ grid, ...rest }) => JSON.stringify(rest);

function free(doc, base) {
  const ids = new Set(doc.panels.map((p) => p.id));
  let id = base;
  for (let n = 2; ids.has(id); n++) id = `${base.replace(/\d+$/, "")}${n}`.slice(0, 64);
  return id;
}
