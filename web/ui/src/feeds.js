// Panels that follow what arrives: events of a stream, and alerts.

import { h, patch } from "./dom.js";
import { cell, time, ago } from "./format.js";

const KEEP = 60;

// summary is an event as one line: its fields without the time, which the line shows already, and
// with what only machines read, ids, at the end.
function summary({ event, time: at }, tz) {
  if (event === null || typeof event !== "object" || Array.isArray(event)) return [h("span", null, cell(event))];
  const when = Date.parse(at);
  const fields = Object.entries(event).filter(([, v]) => !(typeof v === "string" && /^\d{4}-/.test(v) && Date.parse(v) === when));
  fields.sort(([a], [b]) => Number(/^_?id$/i.test(a)) - Number(/^_?id$/i.test(b)));
  return fields.map(([k, v]) => h("span", null, h("i", null, k), " ", cell(v, null, tz)));
}

// Feed shows the newest events of a stream, or changes of a view, as they arrive.
export const Feed = (Panel) =>
  class extends Panel {
    events = [];

    request() {
      return { to: this.config.view, from: { time: new Date(Date.now() - 120000).toISOString() } };
    }

    take(m) {
      if (m.type === "progress") return !this.events.length;
      let list = m.events;
      if (m.type === "changes") list = m.changes.filter((c) => c.op === "+").map((c) => ({ event: c.row, time: Object.values(c.row).find((v) => /^\d{4}-\d\d-\d\dT/.test(v)), status: c.status }));
      if (!list) return false;
      this.events = (this.events ?? []).concat(list).slice(-KEEP);
      return true;
    }

    asking() {
      this.events = [];
    }

    draw() {
      if (!this.events.length) {
        patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "Listening"), h("p", null, "The next event appears here as it arrives."))]);
        return;
      }
      patch(this.body, [
        h(
          "ol",
          { class: "feed", tabindex: "0" },
          this.events.toReversed().map((e) =>
            h(
              "li",
              { "data-offset": e.offset === undefined ? null : `${e.partition}/${e.offset}`, title: e.offset === undefined ? null : `partition ${e.partition}, offset ${e.offset}` },
              h("time", null, e.time ? time(e.time, this.tz) : "–"),
              h("code", null, summary(e, this.tz)),
            ),
          ),
        ),
      ]);
    }
  };

// Alerts shows what fired, and what was taken back, the newest first.
export const Alerts = (Panel) =>
  class extends Panel {
    alerts = new Map();

    request() {
      return { to: this.config.view, from: "earliest" };
    }

    asking() {
      this.alerts = new Map();
    }

    take(m) {
      if (m.type === "progress") return !this.alerts.size;
      if (m.type !== "alerts") return false;
      for (const a of m.alerts) {
        const first = this.alerts.get(a.alert_id)?.first ?? a.emit_time;
        this.alerts.delete(a.alert_id);
        this.alerts.set(a.alert_id, { ...a, first });
      }
      while (this.alerts.size > 200) this.alerts.delete(this.alerts.keys().next().value);
      return true;
    }

    ticks() {
      const second = Math.floor(Date.now() / 5000);
      if (second === this.second) return false;
      this.second = second;
      return true;
    }

    draw() {
      const list = [...this.alerts.values()].sort((a, b) => ((a.event_time ?? a.emit_time) < (b.event_time ?? b.emit_time) ? 1 : -1)).slice(0, 30);
      if (!list.length) {
        patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "No alert so far"), h("p", null, "The rule is watching: an alert appears here the moment it fires."))]);
        return;
      }
      const words = { fire: "fired", update: "updated", withdraw: "taken back" };
      patch(this.body, [
        h(
          "ol",
          { class: "alerts", tabindex: "0" },
          list.map((a) => {
            const at = a.event_time ?? a.emit_time;
            return h(
              "li",
              { class: `${a.op}`, "data-severity": a.severity ?? "" },
              h("span", { class: "alert-dot", "aria-hidden": "true" }),
              h("span", { class: "alert-title", title: a.title }, a.op === "withdraw" ? h("del", null, a.title) : a.title),
              a.op === "fire" ? null : h("span", { class: "badge" }, words[a.op] ?? a.op),
              h("time", { datetime: at, title: `event ${at}, emitted ${a.emit_time}` }, time(at, this.tz).replace(/^(\d\d:\d\d)$/, "$1:00")),
            );
          }),
        ),
      ]);
    }
  };
