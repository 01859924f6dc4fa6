// Requests that change something: JSON in and out, the session's token with them, problems as errors.

const token = document.querySelector('meta[name="csrf"]')?.content;

export class Refused extends Error {
  constructor(problem, status) {
    super([problem.detail ?? problem.title ?? `the server answered ${status}`, problem.hint].filter(Boolean).join(" · "));
    this.problem = problem;
    this.status = status;
  }
}

export async function send(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token) headers["X-CSRF-Token"] = token;
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body) });
  const text = await answer.text();
  let out = {};
  try {
    out = text ? JSON.parse(text) : {};
  } catch {
    out = { detail: text.slice(0, 200) };
  }
  if (!answer.ok) throw new Refused(out, answer.status);
  return out;
}
