// The picker of the range: presets, a typed one such as now-6h, two instants, and the zone in which
// all of the board's times are shown.

import { h } from "./dom.js";
import { parseRange } from "./format.js";

// offset is how far a zone is ahead of UTC at an instant, in milliseconds.
function offset(at, tz) {
  const parts = new Intl.DateTimeFormat("en-CA", { timeZone: tz, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" }).formatToParts(at);
  const p = Object.fromEntries(parts.map((x) => [x.type, Number(x.value)]));
  return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) - Math.floor(at / 1000) * 1000;
}

// local and instant turn instants into what a datetime-local field holds, in a zone, and back.
export const local = (at, tz) => new Date(at + offset(at, tz)).toISOString().slice(0, 16);

export function instant(text, tz) {
  const wall = Date.parse(`${text}Z`);
  if (Number.isNaN(wall)) return null;
  return wall - offset(wall - offset(wall, tz), tz);
}

export const iso = (at) => new Date(Math.round(at)).toISOString().replace(/\.\d+Z$/, "Z");

// isZone says whether a name is a time zone's.
export function isZone(name) {
  try {
    return !!new Intl.DateTimeFormat("en", { timeZone: name });
  } catch {
    return false;
  }
}

// preset is the range that a preset's name stands for.
function preset(name, tz) {
  const day = local(Date.now(), tz).slice(0, 10);
  const at = (d) => iso(instant(`${d}T00:00`, tz));
  if (name === "today") return `${at(day)},now`;
  if (name === "month") return `${at(day.slice(0, 8) + "01")},now`;
  if (name === "yesterday") return `${at(new Date(Date.parse(`${day}T00:00Z`) - 864e5).toISOString().slice(0, 10))},${at(day)}`;
  return name;
}

// closing lets a sheet go away by Escape and by a click beside it.
export function closing(details) {
  details.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    details.open = false;
    details.querySelector("summary").focus();
  });
  document.addEventListener("click", (e) => {
    if (!details.contains(e.target)) details.open = false;
  });
}

export function picker(board) {
  const details = document.getElementById("range");
  if (!details) return;
  const form = details.querySelector("form");
  const { typed, from, to, zone } = form.elements;
  const wrong = form.querySelector(".wrong");
  const close = (change) => {
    details.open = false;
    board.forget();
    board.go({ paused: false, ...change });
    details.querySelector("summary").focus();
  };
  const say = (text) => {
    wrong.hidden = false;
    wrong.textContent = text;
  };
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    typed.value = board.range;
    wrong.hidden = true;
    from.value = local(board.window.from, board.tz);
    to.value = local(board.window.to, board.tz);
    zone.value = board.tz;
    const list = document.getElementById("zones");
    if (!list.childElementCount) {
      const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
      list.append(...[...new Set(["UTC", mine, board.zone, ...Intl.supportedValuesOf("timeZone")])].map((z) => h("option", { value: z })));
    }
    typed.focus();
    typed.select();
  });
  details.addEventListener("click", (e) => {
    const name = e.target.closest("[data-range]")?.dataset.range;
    if (name) close({ range: preset(name, board.tz) });
    if (!e.target.closest("[data-absolute]")) return;
    const [a, b] = [from, to].map((x) => instant(x.value, board.tz));
    if (a && b && a < b) close({ range: `${iso(a)},${iso(b)}` });
    else say("The first instant must lie before the second.");
  });
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const range = typed.value.trim();
    if (!isZone(zone.value)) say(`${zone.value} is no time zone; write UTC or Europe/Berlin.`);
    else if (!parseRange(range)) say("Write now-6h, now-7d,now-1d, or two instants with a comma.");
    else close({ range, tz: zone.value });
  });
  closing(details);
}
