// Numbers and times as people read them.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const moneys = new Map();

export function number(v, unit) {
  if (v === null || v === undefined) return "–";
  if (typeof v === "string") return v; // NaN, Infinity
  if (typeof v === "bigint") return v.toLocaleString("en");
  if (unit && /^[A-Z]{3}$/.test(unit)) return money(v, unit);
  const text = Math.abs(v) >= 100000 ? compact.format(v) : plain.format(v);
  if (unit === "%") return plain.format(v) + " %";
  return unit ? `${text} ${unit}` : text;
}

// axis is a number as a tick of an axis shows it: short.
export function axisNumber(v, unit) {
  if (v === null || v === undefined) return null;
  if (Math.abs(v) >= 10000 || !unit || !/^[A-Z]{3}$/.test(unit)) return Math.abs(v) >= 10000 ? (money(v, unit, true) ?? compact.format(v)) : number(v, unit);
  return number(v, unit).replace(/\.00$/, "");
}

function money(v, unit, brief) {
  if (brief && !(unit && /^[A-Z]{3}$/.test(unit))) return null;
  if (!moneys.has(unit)) {
    const style = { style: "currency", currency: unit };
    try {
      moneys.set(unit, [new Intl.NumberFormat("en", { ...style, maximumFractionDigits: 2 }), new Intl.NumberFormat("en", { ...style, notation: "compact", maximumFractionDigits: 1 })]);
    } catch {
      moneys.set(unit, [plain, compact]);
    }
  }
  const [full, short] = moneys.get(unit);
  return brief || Math.abs(v) >= 100000 ? short.format(v) : full.format(v);
}

const clock = (tz) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: tz });
const day = (tz) => new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", timeZone: tz });
const cache = new Map();
const fmt = (kind, make, tz) => {
  const key = kind + tz;
  if (!cache.has(key)) cache.set(key, make(tz));
  return cache.get(key);
};

// time is the clock of an instant; the day stands before it when it is not today's.
export function time(iso, tz = "UTC") {
  const d = new Date(iso);
  if (Number.isNaN(d.getTime())) return String(iso);
  const text = fmt("clock", clock, tz).format(d).replace(/:00$/, "");
  const date = fmt("day", day, tz).format(d);
  return date === fmt("day", day, tz).format(new Date()) ? text : `${date} ${text}`;
}

// clockOf is the same with its seconds always, for lists in which one time stands under the other.
export const clockOf = (iso, tz) => time(iso, tz).replace(/^(.* )?(\d\d:\d\d)$/, "$1$2:00");

const axisForms = {
  day: (tz) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: tz }),
  minute: (tz) => new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: tz }),
  second: clock,
};

// axisTime is a tick of a time axis whose ticks are step seconds apart.
export function axisTime(millis, step, tz) {
  const form = step >= 86400 ? "day" : step >= 60 ? "minute" : "second";
  return fmt("axis-" + form, axisForms[form], tz).format(millis);
}

export const isTime = (v) => typeof v === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(v);

// cell is any value as text.
export function cell(v, unit, tz) {
  if (v === null || v === undefined) return "–";
  if (v === "") return "(empty)";
  if (isTime(v)) return time(v, tz);
  if (typeof v === "number" || typeof v === "bigint") return number(v, unit);
  if (typeof v === "object") return JSON.stringify(v, (_, x) => (typeof x === "bigint" ? x.toString() : x));
  return String(v);
}

// nameOf is a value as the name of a series or of a line: as it is, without a unit.
export const nameOf = (v) => (v === "" || typeof v === "object" ? cell(v) : String(v ?? "–"));

const units = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

// instant reads one end of a range: now, now-6h, or an instant; null for anything else.
function instant(text, now) {
  if (text === "now" || text === "") return now;
  const m = /^now-(\d+)([smhdw])$/.exec(text);
  if (m) return now - Number(m[1]) * units[m[2]];
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : at;
}

// parseRange reads "now-6h", "now-6h,now-1h" or "2026-01-01T00:00:00Z,2026-01-02T00:00:00Z". A fixed
// range does not move with the clock. Null: it can't be read.
export function parseRange(text, now = Date.now()) {
  const [a, b = "now", more] = String(text ?? "").trim().split(",").map((x) => x.trim());
  const from = instant(a, now);
  const to = instant(b, now);
  if (!a || a === "now" || from === null || to === null || more !== undefined || from >= to) return null;
  return { from, to, span: to - from, fixed: !b.startsWith("now"), moving: b === "now" };
}

// shortTime is an instant without what is zero, for titles of ranges.
export function rangeTitle(text, tz) {
  const names = { s: "second", m: "minute", h: "hour", d: "day", w: "week" };
  const m = /^now-(\d+)([smhdw])$/.exec(text);
  if (m) return `last ${m[1] === "1" ? "" : m[1] + " "}${names[m[2]]}${m[1] === "1" ? "" : "s"}`;
  const r = parseRange(text);
  if (!r) return text;
  const end = text.split(",")[1]?.trim();
  return `${time(new Date(r.from).toISOString(), tz)} – ${end === "now" ? "now" : time(new Date(r.to).toISOString(), tz)}`;
}

export function ago(millis) {
  const s = Math.max(0, Math.round(millis / 1000));
  if (s < 60) return `${s} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

// literal is a value as SQL writes it, for conditions over a view's columns.
export function literal(v, type) {
  if (v === null || v === undefined) return "NULL";
  if (typeof v === "number" || typeof v === "bigint" || typeof v === "boolean") return String(v);
  const text = `'${String(v).replaceAll("'", "''")}'`;
  return /^(TIMESTAMP|DATE)/.test(type ?? "") ? `CAST(${text.replace(/T(.*)Z'$/, " $1'")} AS ${type})` : text;
}

export const identifier = (name) => `"${name.replaceAll('"', '""')}"`;
