// What a panel shows when it has no rows to show.

import { h, patch } from "./dom.js";
import { time, ago, identifier } from "./format.js";
import { get, link } from "./server.js";

// remark is the line beside a panel's title: the most urgent thing that holds of it, or what is
// special about it.
export function remark(panel, quiet) {
  const { live, stale, event, board, catching, config } = panel;
  const about = board.about(config.view);
  if (stale) return { text: `last update ${ago(quiet)}`, kind: live.state === "reconnecting" ? "away" : "stale" };
  if (about?.state === "failed") return { text: `the view has failed: ${about.reason ?? "its page says why"}`, kind: "bad" };
  if (about?.state === "paused") return { text: "the view is paused", kind: "stale" };
  if (about?.state === "building") return { text: `catching up: ${about.lag_events.toLocaleString("en")} events to go`, kind: "stale" };
  if (about?.rebuilding) return { text: "being rebuilt: these are the rows of before", kind: "stale" };
  if (event && Date.now() < event.until) return { text: event.text, kind: "told" };
  if (catching && panel.drawn && !panel.failed && Date.now() - panel.asked > 2000) return { text: "catching up", kind: "stale" };
  return { text: (panel.remarks?.() ?? []).filter(Boolean).join(" · "), kind: "" };
}

// failure says what failed, what can be done, and offers to try again.
export function failure(panel) {
  const { message, code, hint, missing, request_id: id } = panel.failed;
  const { view } = panel.config;
  if (code === "read_only_link") return patch(panel.body, [h("div", { class: "state" }, h("strong", null, "Not part of this link"), h("p", null, "Who shared the page left this panel out: events and alerts are for those who can sign in."))]);
  if (code === "no_snapshot") return patch(panel.body, [h("div", { class: "state" }, h("strong", null, `${view} is no view`), h("p", null, "A stream is shown as a feed, an alert as a list of alerts: choose another type for the panel, or make a view."))]);
  const details = [code, message, hint, id && `request ${id}`].filter(Boolean).join("\n");
  patch(panel.body, [
    h(
      "div",
      { class: "state error", role: "alert" },
      h("strong", null, missing ? `There is no view ${view} yet` : "This panel can’t be shown"),
      h("p", null, missing ? "It fills by itself once the view is there." : (message ?? code)),
      hint && !missing ? h("p", null, hint) : null,
      h(
        "div",
        { class: "row center" },
        h("button", { type: "button", class: "retry" }, "Try again"),
        missing ? link ? null : h("a", { class: "button", href: `/new?name=${encodeURIComponent(view)}` }, "Make it") : h("button", { type: "button", class: "copy", "data-copy": details }, "Copy details"),
      ),
    ),
  ]);
  panel.body.querySelector(".retry").onclick = () => panel.renew();
  const copy = panel.body.querySelector(".copy");
  if (copy) copy.onclick = () => navigator.clipboard?.writeText(details).then(() => (copy.textContent = "Copied"));
}

// heavy says that there is more than a page can put together, and how to ask for less.
export function heavy(panel) {
  const { view, x } = panel.config;
  patch(panel.foot, []);
  patch(panel.body, [
    h(
      "div",
      { class: "state" },
      h("strong", null, `More than ${panel.heavy.toLocaleString("en")} rows`),
      h("p", null, `A part of them would give a wrong total, so nothing is shown. ${x ? "Choose a shorter range, a filter" : "Choose a filter"}, or make a view with fewer groups.`),
      h("div", { class: "row center" }, h("a", { class: "button", href: `/new?from=${encodeURIComponent(view)}` }, "Make that view"), h("button", { type: "button", class: "retry" }, "Try again")),
    ),
  ]);
  panel.body.querySelector(".retry").onclick = () => panel.renew();
}

// lacking says that the view has not what the panel shows, such as after a column got another name.
export function lacking(panel) {
  const { view, columns } = panel.config;
  const names = panel.lacks;
  patch(panel.foot, []);
  patch(panel.body, [
    h(
      "div",
      { class: "state" },
      h("strong", null, `${view} has no column ${names.join(", ")}`),
      h("p", null, `It was edited, or the panel means another view. Its columns are ${columns.map((c) => c.name).join(", ")}: change the panel, or the view.`),
    ),
  ]);
}

// timeless says that a chart over time needs a column of time.
export function timeless(panel) {
  const { view, x } = panel.config;
  patch(panel.body, [h("div", { class: "state" }, h("strong", null, "No time to draw it over"), h("p", null, x ? `${x} of ${view} is no TIMESTAMP: choose another column, or draw it as bars.` : `Choose a column of ${view} that is a TIMESTAMP.`))]);
}

// empty says when there was something last, and offers to go there.
export async function empty(panel) {
  const { board, config } = panel;
  const w = panel.rows.asOf?.watermark;
  const x = config.x;
  const filtered = board.filters.size > 0;
  const show = (lines) => {
    if (!panel.rows.size) patch(panel.body, [h("div", { class: "state empty" }, h("strong", null, filtered ? "No rows for these filters" : x ? "No rows in this range" : "No rows yet"), ...lines)]);
  };
  if (!w) {
    show([h("p", null, "No event has come so far. This panel fills by itself when the first one arrives.")]);
    return;
  }
  const came = h("p", null, `Event time has come to ${time(w, panel.tz)}, ${ago(Date.now() - Date.parse(w))}.`);
  if (!x) {
    show([came]);
    return;
  }
  const key = `${board.range} ${[...board.filters]}`;
  if (panel.lookedAt !== key) {
    panel.lookedAt = key;
    panel.newest = null;
    show([came]);
    try {
      const answer = await get(`/v1/views/${config.view}/rows`, { order: `${identifier(x)} DESC`, limit: 1, where: panel.where() });
      panel.newest = answer.rows?.[0]?.[x] ?? null;
    } catch {
      // the line without an offer stands
    }
  }
  if (!panel.newest) {
    show([came]);
    return;
  }
  const at = Date.parse(panel.newest);
  show([h("p", null, `The newest row is of ${time(panel.newest, panel.tz)}.`), h("div", { class: "row center" }, h("button", { type: "button", class: "to-newest" }, "Show that time"))]);
  const go = panel.body.querySelector(".to-newest");
  if (go) go.onclick = () => board.zoom(at - board.window.span / 2, at + board.window.span / 2);
}
