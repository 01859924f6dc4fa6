// Sharing a dashboard: a link for who may read here, and read-only links for everybody else, which
// end by themselves and can be taken back.

import { h } from "./dom.js";
import { rangeTitle, ago } from "./format.js";
import { iso } from "./picker.js";
import { get, send } from "./server.js";

const spans = [["1h", "an hour"], ["24h", "a day"], ["72h", "three days"], ["168h", "a week"], ["720h", "30 days"]];

export function share(board, may) {
  const d = h("dialog", { class: "share", "aria-labelledby": "share-title" });
  const path = `/v1/dashboards/${board.name}/links`;
  const frozen = h("input", { type: "checkbox", name: "frozen", checked: board.window.fixed });
  const own = h("input", { readonly: true, class: "address", "aria-label": "Address of what you see" });
  const fixed = () => `${iso(board.window.from)},${iso(board.window.to)}`;
  const show = () => (own.value = board.address(frozen.checked ? { range: fixed(), paused: false } : {}).href);
  frozen.addEventListener("change", show);
  const copier = (field) => h("button", { type: "button", onclick: (e) => (field.select(), navigator.clipboard?.writeText(field.value).then(() => (e.target.textContent = "Copied"))) }, "Copy");
  const said = h("p", { class: "answer bad", role: "alert" });
  const list = h("ul", { class: "note-list" });
  const made = h("div", { role: "status" });
  const draw = async () => {
    try {
      const { items } = await get(path);
      list.replaceChildren(
        ...items.map((l) =>
          h(
            "li",
            null,
            h("span", null, l.frozen ? "stands still at " : "", rangeTitle(l.range, board.tz), ...Object.entries(l.filters ?? {}).map(([k, v]) => ` · ${k} = ${v}`)),
            h("span", { class: "muted" }, l.expires ? `ends ${new Date(l.expires).toLocaleString("en-GB", { timeZone: board.tz, dateStyle: "medium", timeStyle: "short" })}` : "", l.created ? ` · made ${ago(Date.now() - Date.parse(l.created))}` : ""),
            h("button", { type: "button", class: "revoke", "aria-label": `Revoke the link ${l.id}`, onclick: async () => { await send("DELETE", `${path}/${l.id}`); draw(); } }, "Revoke"),
          ),
        ),
      );
    } catch (x) {
      said.textContent = x.message;
    }
  };
  const span = h("select", { name: "expires" }, spans.map(([v, t]) => h("option", { value: v, selected: v === "72h" }, t)));
  const make = async () => {
    said.textContent = "";
    try {
      const filters = Object.fromEntries(board.filters);
      const answer = await send("POST", path, { expires: span.value, range: frozen.checked ? (board.window.fixed ? board.range : "frozen") : board.range, ...(board.filters.size ? { filters } : {}) });
      const field = h("input", { readonly: true, class: "address", "aria-label": "Address of the read-only link", value: new URL(answer.url, location.href).href });
      made.replaceChildren(h("p", { class: "answer good" }, "Made. Copy it now: it is not shown again."), h("div", { class: "row" }, field, copier(field)));
      draw();
    } catch (x) {
      said.textContent = x.message;
    }
  };
  d.append(
    h("header", null, h("h2", { id: "share-title" }, "Share"), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")),
    h("label", { class: "check" }, frozen, ` the range stands still: ${rangeTitle(fixed(), board.tz)}`),
    h("h3", null, "For those who can sign in here"),
    h("div", { class: "row" }, own, copier(own)),
    ...(may ? [h("h3", null, "For everybody who has the link"), h("p", { class: "muted" }, "Whoever has it reads what the panels of this dashboard show: their columns, held to the filters and a range that stands still, and nothing else."), h("div", { class: "row" }, h("label", null, "ends after ", span), h("button", { type: "button", class: "primary make", onclick: make }, "Make a link")), made, list, said] : []),
  );
  d.addEventListener("close", () => d.remove());
  show();
  document.body.append(d);
  d.showModal();
  if (may) draw();
}
