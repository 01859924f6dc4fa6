// Panels that follow what arrives: events of a stream, and alerts.

import { h, patch } from "./dom.js";
import { cell, time, clockOf, ago } from "./format.js";
import { stringify } from "./json.js";
import { link } from "./server.js";

const KEEP = 60;
const ALARMS_OF = 7 * 864e5; // alarms of so many milliseconds are read at the least, not all that there ever were

// everySecond lets a panel that tells how long ago something was draw once a second.
function everySecond(panel) {
  const second = Math.floor(Date.now() / 1000);
  if (second === panel.second) return false;
  panel.second = second;
  return true;
}

// equal says whether a field has the value of a filter.
const equal = (v, wanted) => stringify(v ?? null) === stringify(wanted);

// fieldOf is the name under which an object has a column, however it is spelt.
const fieldOf = (object, column) => Object.keys(object ?? {}).find((k) => k.toLowerCase() === column.toLowerCase());

// passes says whether an event or an alarm's row is one of those that the board's filters leave. What
// no event has had so far is no column of theirs; known gathers what they have.
function passes(panel, object) {
  if (object === null || typeof object !== "object") return true;
  for (const k in object) panel.known.add(k.toLowerCase());
  return [...panel.board.filters].every(([name, value]) => !panel.known.has(name.toLowerCase()) || equal(object[fieldOf(object, name)], value));
}

// unfiltered names the filters that a panel can't take in.
const unfiltered = (panel) => (panel.missing ?? (panel.known.size ? [...panel.board.filters.keys()].filter((name) => !panel.known.has(name.toLowerCase())) : []));
const notBy = (panel) => unfiltered(panel).length > 0 && `not by ${unfiltered(panel).join(", ")}`;

// summary is an event as one line: its fields without the time, which the line shows already, and
// with what only machines read, ids, at the end.
function summary({ event, time: at }, tz) {
  if (event === null || typeof event !== "object" || Array.isArray(event)) return [h("span", null, cell(event))];
  const when = Date.parse(at);
  const fields = Object.entries(event).filter(([, v]) => !(typeof v === "string" && /^\d{4}-/.test(v) && Date.parse(v) === when));
  fields.sort(([a], [b]) => Number(/^_?id$/i.test(a)) - Number(/^_?id$/i.test(b)));
  return fields.map(([k, v]) => h("span", null, h("i", null, k), " ", cell(v, null, tz)));
}

// Feed shows the newest events of a stream, or changes of a view, as they arrive; of a range that
// stands still, what history has of it.
export const Feed = (Panel) =>
  class extends Panel {
    events = [];

    // open reads the past of a fixed range; what comes later does not belong into it.
    open() {
      this.still = this.board.window.fixed && !link && !/^late_/.test(this.config.view);
      if (!this.still) return super.open();
      let wanted = true;
      this.past().then(
        (found) => {
          if (!wanted) return;
          Object.assign(this, found, { catching: false, failed: null, dirty: true, forced: true });
        },
        (x) => {
          if (!wanted) return;
          Object.assign(this, { catching: false, failed: { ...x.problem, code: x.problem?.type?.split("/").pop(), message: x.message }, dirty: true, forced: true });
        },
      );
      return () => (wanted = false);
    }

    async past() {
      return (await import("./past.js")).past(this.config.view, this.board.window, this.board.filters, KEEP);
    }

    request() {
      return { to: this.config.view, from: { time: new Date(Date.now() - 120000).toISOString() } };
    }

    take(m) {
      if (m.type === "progress") {
        this.#recent();
        return !this.events.length;
      }
      let list = m.events;
      if (m.type === "changes") list = m.changes.filter((c) => c.op === "+").map((c) => ({ event: c.row, time: Object.values(c.row).find((v) => /^\d{4}-\d\d-\d\dT/.test(v)), status: c.status }));
      if (!list) return false;
      this.events = this.events.concat(list.filter((e) => passes(this, e.event))).slice(-KEEP);
      return true;
    }

    // #recent shows what came last to a stream that has been quiet for long.
    async #recent() {
      if (this.events.length || this.lookedBack || link) return;
      this.lookedBack = true;
      try {
        const list = await (await import("./past.js")).recent(this.config.view, KEEP);
        if (this.events.length || this.still) return;
        this.events = list.filter((e) => passes(this, e.event));
        this.dirty = true;
      } catch {
        // no stream, or the server is away: the next event appears as it arrives
      }
    }

    asking() {
      Object.assign(this, { lookedBack: false, events: [], known: new Set(), all: undefined, timeless: false, missing: undefined });
    }

    // facts are lines of the passport.
    facts() {
      const last = this.events.findLast((e) => e.offset !== undefined);
      return last ? [["Newest event", `partition ${last.partition}, offset ${last.offset.toLocaleString("en")}, appended ${last.append_time ?? last.time}`]] : [];
    }

    ticks() {
      return everySecond(this);
    }

    remarks() {
      const { fixed } = this.board.window;
      return [fixed && (!this.still ? "live events, whatever the range" : this.timeless ? "no column of time: whatever the range" : "events of the range, from history"), notBy(this)];
    }

    draw() {
      if (this.still) return this.#past();
      const newest = this.events.at(-1);
      patch(this.foot, newest ? [h("span", null, `newest ${ago(Date.now() - Date.parse(newest.append_time ?? newest.time))}`), newest.offset === undefined ? "" : h("span", { class: "num", title: "partition/offset" }, `${newest.partition}/${newest.offset}`)] : []);
      if (!this.events.length) {
        patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "Listening"), h("p", null, "The next event appears here as it arrives."))]);
        return;
      }
      this.#list();
    }

    // #past draws what the range held.
    #past() {
      const n = this.events.length;
      const all = this.all ?? n;
      patch(this.foot, n ? [h("span", null, all > n ? `the newest ${n} of ${all.toLocaleString("en")}` : n === 1 ? "1 event" : `${n} events`)] : []);
      if (n) this.#list();
      else patch(this.body, [h("div", { class: "state empty" }, h("strong", null, "No events in this range"), h("p", null, "History has none; the newest ones take a few seconds to get there."))]);
    }

    #list() {
      patch(this.body, [
        h(
          "ol",
          { class: "feed", tabindex: "0" },
          this.events.toReversed().map((e) =>
            h(
              "li",
              { "data-offset": e.offset === undefined ? null : `${e.partition}/${e.offset}`, title: e.offset === undefined ? null : `partition ${e.partition}, offset ${e.offset}` },
              h("time", null, e.time ? clockOf(e.time, this.tz) : "–"),
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
      this.since = Math.min(Date.now() - ALARMS_OF, this.board.window.from);
      return { to: this.config.view, from: { time: new Date(this.since).toISOString() } };
    }

    asking() {
      Object.assign(this, { alerts: new Map(), known: new Set() });
    }

    take(m) {
      if (m.type === "progress") return !this.alerts.size;
      if (m.type !== "alerts") return false;
      this.number = m.seq;
      const { from, to, fixed } = this.board.window;
      for (const a of m.alerts) {
        const at = Date.parse(a.event_time ?? a.emit_time);
        if (!passes(this, a.row) || (fixed && !(at >= from && at < to))) continue;
        const first = this.alerts.get(a.alert_id)?.first ?? a.emit_time;
        this.alerts.delete(a.alert_id);
        this.alerts.set(a.alert_id, { ...a, first });
      }
      while (this.alerts.size > 200) this.alerts.delete(this.alerts.keys().next().value);
      return true;
    }

    facts() {
      return [["Alarms", `${this.alerts.size} kept here, the newest is number ${this.number ?? "–"} of the alert's log`]];
    }

    ticks() {
      return everySecond(this);
    }

    remarks() {
      return [this.board.window.fixed && "alarms of the range", notBy(this)];
    }

    draw() {
      const { fixed } = this.board.window;
      const list = [...this.alerts.values()].sort((a, b) => ((a.event_time ?? a.emit_time) < (b.event_time ?? b.emit_time) ? 1 : -1)).slice(0, 30);
      if (!list.length) {
        patch(this.foot, this.live.state === "live" ? [h("span", null, "watching: the feed is alive")] : []);
        if (fixed || this.board.filters.size) {
          patch(this.body, [h("div", { class: "state empty" }, h("strong", null, `No alert ${fixed ? "in this range" : `since ${time(new Date(this.since).toISOString(), this.tz)}`}${this.board.filters.size ? " for these filters" : ""}`))]);
          return;
        }
        patch(this.body, [h("div", { class: "state empty" }, h("strong", null, `No alert since ${time(new Date(this.since).toISOString(), this.tz)}`), h("p", null, "The rule is watching: an alert appears here the moment it fires."))]);
        return;
      }
      const w = this.board.about(this.config.view);
      patch(this.foot, [h("span", null, `last ${ago(Date.now() - Date.parse(list[0].emit_time))}`), w?.watermark ? h("span", null, `complete to ${time(w.watermark, this.tz)}`) : ""]);
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
              a.op === "withdraw" ? h("span", { class: "badge" }, "taken back") : null,
              h("time", { datetime: at, title: `event ${at}, emitted ${a.emit_time}${a.revision > 1 ? `, revision ${a.revision}` : ""}` }, clockOf(at, this.tz)),
            );
          }),
        ),
      ]);
    }
  };
