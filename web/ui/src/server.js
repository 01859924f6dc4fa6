// Requests to the server: JSON in and out, problems as errors. A change carries the session's token; a
// page that was shared carries the link's, which may read what is on it and nothing else.

import { parse, stringify } from "./json.js";

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content;

// link is the token of a shared page.
export const link = meta("link");

export class Refused extends Error {
  constructor(problem, status) {
    super([problem.detail ?? problem.title ?? `the server answered ${status}`, problem.hint].filter(Boolean).join(" · "));
    this.problem = problem;
    this.status = status;
  }
}

export async function send(method, path, body, headers = {}) {
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (link) headers.Authorization = `Bearer ${link}`;
  else if (meta("csrf") && method !== "GET") headers["X-CSRF-Token"] = meta("csrf");
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : typeof body === "string" ? body : stringify(body) });
  const text = await answer.text();
  let out = {};
  try {
    out = text ? parse(text) : {};
  } catch {
    out = { detail: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Refused(out, answer.status);
  return out;
}

// get reads; parameters that are undefined are left out.
export const get = (path, parameters) => {
  const q = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, v]) => v !== undefined && v !== "")).toString();
  return send("GET", q ? `${path}?${q}` : path);
};
