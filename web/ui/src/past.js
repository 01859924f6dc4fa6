// What a panel of events shows of a range that stands still: what history has of it.

import { identifier, literal } from "./format.js";
import { get, send } from "./server.js";

const HIDDEN = ["_time", "_append_time", "_partition", "_offset", "_all"];

// past gives the newest events of a range and how many there are in all: {events, all}. A view's rows
// are asked of the view.
export async function past(name, { from, to }, filters, most) {
  const [a, b] = [from, to].map((at) => literal(new Date(at).toISOString(), "TIMESTAMP"));
  const { columns, view } = await about(name);
  const equal = (c, v) => (v === null ? `${identifier(c.name)} IS NULL` : `${identifier(c.name)} = ${literal(v, c.type)}`);
  const wheres = [...filters].flatMap(([n, v]) => columns.filter((c) => c.name.toLowerCase() === n.toLowerCase()).map((c) => equal(c, v)));
  const missing = [...filters.keys()].filter((n) => !columns.some((c) => c.name.toLowerCase() === n.toLowerCase()));
  if (view) {
    const x = columns.find((c) => c.type === "TIMESTAMP");
    const where = [...(x ? [`${identifier(x.name)} >= ${a}`, `${identifier(x.name)} < ${b}`] : []), ...wheres].join(" AND ");
    const { rows } = await get(`/v1/views/${name}/rows`, { where, order: x && `${identifier(x.name)} DESC`, limit: most });
    return { events: rows.reverse().map((event) => ({ event, time: x && event[x.name] })), missing, timeless: !x };
  }
  const where = [`_time >= ${a}`, `_time < ${b}`, ...wheres].join(" AND ");
  const { rows } = await send("POST", "/v1/query", {
    sql: `SELECT *, _time, _append_time, _partition, _offset, count(*) OVER () AS _all FROM ${identifier(name)} WHERE ${where} ORDER BY _time DESC, _offset DESC LIMIT ${most}`,
  });
  const events = rows.reverse().map((r) => ({
    event: Object.fromEntries(Object.entries(r).filter(([k, v]) => !HIDDEN.includes(k) && v !== null)),
    time: r._time,
    append_time: r._append_time,
    partition: r._partition,
    offset: r._offset,
  }));
  return { events, missing, all: rows.length ? Number(rows[0]._all) : 0 };
}

// recent gives the newest events of a stream, however old they are; of what is no stream there are none.
export async function recent(name, most) {
  const { partitions } = await get(`/v1/streams/${name}`);
  const lists = await Promise.all(
    partitions.map(({ partition, first_offset: first, next_offset: next }) => get(`/v1/streams/${name}/partitions/${partition}/events`, { offset: Math.max(Number(first), Number(next) - most), limit: most })),
  );
  return lists
    .flatMap((l) => l.events)
    .sort((a, b) => (a.append_time < b.append_time ? -1 : 1))
    .slice(-most);
}

// about finds out what a name stands for, and its columns.
async function about(name) {
  try {
    return { columns: (await get(`/v1/streams/${name}`)).columns ?? [] };
  } catch (x) {
    if (x.status !== 404) throw x;
    return { columns: (await get(`/v1/views/${name}`)).columns, view: true };
  }
}
