// The dialog that makes or changes a panel: a form and the same as JSON, with a preview that lives.

import { h } from "./dom.js";
import { mount } from "./panels.js";

const TYPES = ["timeseries", "stat", "toplist", "table", "bar", "heatmap", "histogram", "feed", "alerts", "text"];
const STYLES = ["line", "area", "stacked", "bars"];

// section is the frame of a panel, as the server draws it.
export function section(p) {
  return h("section", { class: `panel ${p.type}${(p.grid?.[2] ?? 6) >= 6 ? " wide" : ""}`, "aria-label": p.title || p.id, tabindex: "-1" }, h("header", null, h("h2", null, p.title || p.id), h("span", { class: "panel-note" })), h("div", { class: "panel-body" }, p.type === "text" ? h("p", { class: "sql" }, p.text ?? "") : h("div", { class: "skeleton" })), h("div", { class: "panel-foot" }));
}

const known = new Map();
async function columnsOf(view) {
  if (!view) return [];
  if (!known.has(view)) {
    const answer = await fetch(`/v1/views/${view}`);
    known.set(view, answer.ok ? (await answer.json()).columns : []);
  }
  return known.get(view);
}

// configOf is a panel as its script gets it.
export async function configOf(p) {
  return { ...p, columns: ["feed", "alerts", "text"].includes(p.type) ? undefined : await columnsOf(p.view) };
}

// panelForm is the dialog that makes or changes a panel, with a preview that lives.
export async function panelForm(p, doc, board, live, done) {
  const lists = await Promise.all(["views", "streams", "alerts"].map((k) => fetch(`/v1/${k}`).then((r) => (r.ok ? r.json() : { items: [] })).then((x) => x.items)));
  const timed = lists[0].find((v) => v.columns?.some((c) => c.type === "TIMESTAMP"));
  const names = lists.map((items) => items.map((i) => i.name));
  let made = structuredClone(p ?? { type: "timeseries", title: "", view: timed?.name ?? names[0][0] ?? "", y: [] });
  const d = h("dialog", { class: "panel-form", "aria-labelledby": "panel-form-title" });
  const fields = h("div", { class: "fields form" });
  const preview = h("div", { class: "preview", "aria-label": "Preview" });
  const json = h("textarea", { rows: 10, spellcheck: "false", "aria-label": "Definition as JSON" });
  const said = h("p", { class: "answer bad", role: "alert" });
  let panel = null;
  let timer = 0;

  const show = () => {
    clearTimeout(timer);
    json.value = JSON.stringify(clean(made), null, 2);
    timer = setTimeout(async () => {
      panel?.end();
      const root = section(made);
      root.dataset.panel = JSON.stringify(await configOf(clean(made)));
      preview.replaceChildren(root);
      panel = made.view || made.type === "text" ? mount(root, live, board) : null;
    }, 250);
  };
  const field = (label, control) => h("label", null, `${label} `, control);
  const select = (name, list, none) => {
    const s = h("select", { name }, none === undefined ? null : h("option", { value: "" }, none), list.map((x) => h("option", { value: x, selected: made[name] === x }, x)));
    s.addEventListener("change", () => ((made[name] = s.value), ["type", "view"].includes(name) ? draw(name) : show()));
    return s;
  };
  const input = (name, type = "text", more = {}) => {
    const i = h("input", { name, type, value: made[name] ?? "", autocomplete: "off", ...more });
    i.addEventListener("input", () => ((made[name] = type === "number" ? Number(i.value) || undefined : i.value), show()));
    return i;
  };
  const draw = async (focus) => {
    const { type } = made;
    const columns = await columnsOf(["feed", "alerts", "text"].includes(type) ? "" : made.view);
    const dims = columns.filter((c) => !c.measure).map((c) => c.name);
    const measures = columns.filter((c) => c.measure).map((c) => c.name);
    made.y = (made.y ?? []).filter((n) => measures.includes(n) || !columns.length);
    if (!made.y.length && measures.length && type !== "table") made.y = [measures[0]];
    if (made.x && columns.length && !columns.some((c) => c.name === made.x)) made.x = undefined;
    if (made.series && columns.length && !dims.includes(made.series)) made.series = undefined;
    if (["timeseries", "bar", "heatmap"].includes(type) && !made.x) made.x = columns.find((c) => c.type === "TIMESTAMP")?.name ?? dims[0];
    const list = [field("type", select("type", TYPES)), field("title", input("title", "text", { maxlength: 200 }))];
    if (type === "text") {
      const area = h("textarea", { name: "text", rows: 8 }, made.text ?? "");
      area.addEventListener("input", () => ((made.text = area.value), show()));
      list.push(field("text, as Markdown", area));
    } else {
      list.push(field(type === "alerts" ? "alert" : type === "feed" ? "stream or view" : "view", select("view", type === "alerts" ? names[2] : type === "feed" ? [...names[1], ...names[0]] : names[0], made.view ? undefined : "choose")));
      if (!["feed", "alerts"].includes(type)) {
        if (measures.length)
          list.push(
            h("fieldset", null, h("legend", null, type === "table" ? "measures, all when none is chosen" : "measure"), measures.map((n) => {
              const many = type === "timeseries" || type === "table" || type === "bar";
              const box = h("input", { type: many ? "checkbox" : "radio", name: "y", value: n, checked: made.y.includes(n) });
              box.addEventListener("change", () => ((made.y = [...fields.querySelectorAll("[name=y]:checked")].map((x) => x.value)), show()));
              return h("label", null, box, ` ${n}`);
            })),
          );
        list.push(field(type === "table" || type === "toplist" || type === "stat" ? "time" : "across", select("x", columns.filter((c) => !c.measure || c.type === "TIMESTAMP").map((c) => c.name), "none")));
        if (type !== "stat" && type !== "histogram") list.push(field("by", select("series", dims.filter((n) => n !== made.x), "nothing")));
        if (type === "timeseries" || type === "bar") list.push(field("drawn as", select("style", type === "bar" ? ["stacked"] : STYLES, type === "bar" ? "side by side" : "default")));
        list.push(field("only where", input("where", "text", { placeholder: "country <> 'XX'", spellcheck: "false" })));
        if (!["timeseries", "toplist", "stat"].includes(type) || made.order) list.push(field("order", input("order", "text", { placeholder: "revenue DESC", spellcheck: "false" })));
        const most = { timeseries: "lines at most", toplist: "lines at most", table: "rows at most" }[type];
        if (most || made.limit) list.push(field(most ?? "limit", input("limit", "number", { min: 0, placeholder: { timeseries: "8", toplist: "10", table: "200" }[type] ?? "" })));
        list.push(field("unit", input("unit", "text", { placeholder: "EUR, ms, %" })), field("own range", input("range", "text", { placeholder: "the dashboard’s" })));
        if (type === "stat" || type === "timeseries") list.push(field("compare", select("compare", ["previous"], "with nothing")));
      }
    }
    fields.replaceChildren(...list);
    if (focus) fields.querySelector(`[name=${focus}]`)?.focus();
    show();
  };
  json.addEventListener("change", () => {
    try {
      made = JSON.parse(json.value);
      said.textContent = "";
      draw();
    } catch (x) {
      said.textContent = x.message;
    }
  });
  const close = () => d.close();
  d.addEventListener("close", () => {
    clearTimeout(timer);
    panel?.end();
    d.remove();
  });
  d.append(
    h("header", null, h("h2", { id: "panel-form-title" }, p ? "Change the panel" : "Add a panel"), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "✕")),
    h("div", { class: "columns" }, h("div", null, fields, h("details", null, h("summary", null, "The same as JSON"), json)), preview),
    said,
    h("div", { class: "row" }, h("button", { type: "button", class: "primary ok", onclick: () => {
      const out = clean(made);
      if (out.type !== "text" && !out.view) return void (said.textContent = "Choose what the panel shows.");
      close();
      done(out);
    } }, p ? "Change it" : "Add it"), h("button", { type: "button", onclick: close }, "Cancel")),
  );
  document.body.append(d);
  d.showModal();
  draw("type");
}

// clean leaves out what is empty or does not belong to the type.
function clean(p) {
  const out = {};
  for (const [k, v] of Object.entries(p)) if (v !== undefined && v !== "" && v !== null && !(Array.isArray(v) && !v.length) && k !== "columns") out[k] = v;
  if (out.type === "text") for (const k of ["view", "x", "y", "series", "style"]) delete out[k];
  if (!["timeseries", "bar"].includes(out.type)) delete out.style;
  if (["feed", "alerts"].includes(out.type)) for (const k of ["x", "y", "series"]) delete out[k];
  return out;
}
