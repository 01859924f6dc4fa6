// Which events a row of a view is made of: a query over the view's stream, for views whose text is
// one SELECT with at most one window function and plain columns as groups. Anything else is not
// guessed at.

import { identifier, literal } from "./format.js";

const word = String.raw`"?[a-zA-Z_]\w*"?`;
const shape = new RegExp(String.raw`^\s*SELECT\s+([\s\S]+?)\s+FROM\s+((?:tumble|hop)\s*\([^()]*(?:\([^()]*\))?[^()]*\)|${word})(?:\s+WHERE\s+([\s\S]+?))?\s+(?:GROUP\s+BY\s+([^()]+?))?(?:\s+HAVING\s+[\s\S]+)?\s*;?\s*$`, "i");

// traced is the query, or null when the text does not tell. type gives a column's type.
export function traced(info, row, names, type) {
  const text = info.sql.trim();
  if (/\b(join|union|with|qualify|over|distinct)\b/i.test(text.replace(/'[^']*'/g, "")) || /\(\s*select\b/i.test(text)) return null;
  const m = shape.exec(/group\s+by/i.test(text) ? text : `${text} `);
  if (!m) return null;
  const [, select, from, where] = m;
  const parts = where ? [`(${where})`] : [];
  for (const name of names) {
    const value = row[name] === null ? "IS NULL" : `= ${literal(row[name], type(name))}`;
    const made = expressionOf(select, name);
    if (made === null) return null;
    parts.push(`(${made}) ${value}`);
  }
  return `SELECT _partition, _offset, * FROM ${from}${parts.length ? ` WHERE ${parts.join(" AND ")}` : ""} ORDER BY _partition, _offset`;
}

// expressionOf finds what a column of the result is made of: itself, or what stands before AS.
function expressionOf(select, name) {
  for (const item of split(select)) {
    const as = /^([\s\S]+?)\s+AS\s+"?(\w+)"?$/i.exec(item);
    if (as && as[2].toLowerCase() === name.toLowerCase()) return as[1];
    const bare = /^"?(\w+)"?$/.exec(item);
    if (bare && bare[1].toLowerCase() === name.toLowerCase()) return identifier(name);
  }
  return null;
}

// split cuts a list at its commas, those in brackets and quotes aside.
function split(list) {
  const out = [];
  let depth = 0;
  let quoted = "";
  let from = 0;
  for (let i = 0; i <= list.length; i++) {
    const c = list[i];
    if (quoted) {
      if (c === quoted) quoted = "";
    } else if (c === "'" || c === '"') quoted = c;
    else if (c === "(" || c === "[") depth++;
    else if (c === ")" || c === "]") depth--;
    else if ((c === "," && depth === 0) || c === undefined) {
      out.push(list.slice(from, i).trim());
      from = i + 1;
    }
  }
  return out;
}
