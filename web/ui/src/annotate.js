// The dialog of a dashboard's notes: what stands there, and a form for one more.

import { h } from "./dom.js";
import { time } from "./format.js";
import { local, instant } from "./picker.js";
import { send, link } from "./server.js";

export function annotate(board, at) {
  const d = h("dialog", { class: "notes", "aria-labelledby": "notes-title" });
  const may = document.getElementById("note") && !link;
  const said = h("p", { class: "answer bad", role: "alert" });
  const list = h("ul", { class: "note-list" });
  const titles = new Map((board.panels ?? []).filter(Boolean).map((p) => [p.config.id, p.config.title || p.config.id]));
  const draw = () =>
    list.replaceChildren(
      ...(board.notes.items.length ? [] : [h("li", { class: "muted" }, "No note in this range.")]),
      ...[...board.notes.items].sort((a, b) => (a.time < b.time ? 1 : -1)).map((n) =>
        h(
          "li",
          null,
          h("time", { datetime: n.time }, time(n.time, board.tz)),
          h("span", null, n.text, n.panel ? h("span", { class: "muted" }, ` · only on ${titles.get(n.panel) ?? n.panel}`) : null),
          may ? h("button", { type: "button", "aria-label": `Remove the note ${n.text}`, onclick: () => change("DELETE", `${board.notes.path}/${n.id}`) }, "Remove") : null,
        ),
      ),
    );
  const change = async (method, path, body) => {
    said.textContent = "";
    try {
      await send(method, path, body);
      await board.notes.ask();
      draw();
      return true;
    } catch (x) {
      said.textContent = x.message;
    }
  };
  const start = at ? Date.parse(at) : board.window.moving ? Date.now() : board.window.to;
  const when = h("input", { type: "datetime-local", name: "time", step: 1, required: true });
  when.value = `${local(start, board.tz)}:${new Date(start).toISOString().slice(17, 19)}`;
  const text = h("input", { name: "text", required: true, maxlength: 200, placeholder: "deploy 42", autocomplete: "off" });
  const where = h("select", { name: "panel" }, h("option", { value: "" }, "every chart"), [...titles].map(([id, title]) => h("option", { value: id }, title)));
  const form = h(
    "form",
    { class: "form" },
    h("label", null, "what happened ", text),
    h("label", null, `when, in ${board.tz} `, when),
    h("label", null, "shown on ", where),
    h("button", { class: "primary" }, "Add the note"),
  );
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    const at = instant(when.value, board.tz);
    if (await change("POST", board.notes.path, { time: new Date(at).toISOString(), text: text.value, ...(where.value ? { panel: where.value } : {}) })) {
      text.value = "";
      text.focus();
    }
  });
  d.addEventListener("close", () => d.remove());
  d.append(h("header", null, h("h2", { id: "notes-title" }, "Notes"), h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => d.close() }, "✕")), list, ...(may ? [form] : []), said);
  draw();
  document.body.append(d);
  d.showModal();
  if (may) text.focus();
}
