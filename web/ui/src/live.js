// One websocket for a whole page: many subscriptions, resumed by position after every
// interruption, so that nothing is lost or doubled.

import { link } from "./server.js";

const FIRST_RETRY = 400;
const LAST_RETRY = 8000;
const SILENT_AFTER = 15000; // the server sends progress at least every 5 s

// parse reads a frame. Integers that a double can't hold become BigInt.
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, v, context) =>
    typeof v === "number" && Number.isInteger(v) && !Number.isSafeInteger(v) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : v,
  );
}

export class Live {
  #socket = null;
  #subscriptions = new Map();
  #nextId = 1;
  #retry = FIRST_RETRY;
  #timer = 0;
  #heard = 0;
  #listeners = new Set();
  #closed = false;
  #watching = 0;
  state = "connecting"; // connecting | live | reconnecting

  constructor(url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/v1/live`) {
    this.url = url;
    this.#watching = setInterval(() => this.#watch(), 2000);
    addEventListener("online", () => this.#connect());
    addEventListener("pagehide", () => this.#socket?.close());
  }

  // onState calls back with "connecting", "live" or "reconnecting".
  onState(listener) {
    this.#listeners.add(listener);
    listener(this.state, this.#heard);
  }

  // subscribe calls on(message) for every message of the subscription and returns a function that ends it.
  subscribe(request, on) {
    const id = String(this.#nextId++);
    this.#subscriptions.set(id, { request, on, position: null });
    if (this.#socket?.readyState === WebSocket.OPEN) this.#send(id);
    else this.#connect();
    return () => {
      this.#subscriptions.delete(id);
      if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ op: "unsubscribe", id }));
    };
  }

  // close ends the socket for good.
  close() {
    this.#closed = true;
    clearInterval(this.#watching);
    this.#socket?.close();
  }

  // watch keeps a socket open without a subscription, so that the page knows whether the server is there.
  watch() {
    this.#connect();
  }

  get heard() {
    return this.#heard;
  }

  #setState(state) {
    if (state === this.state) return;
    this.state = state;
    for (const listener of this.#listeners) listener(state, this.#heard);
  }

  #send(id) {
    const s = this.#subscriptions.get(id);
    const request = { op: "subscribe", id, ...s.request };
    if (s.position) request.from = s.position;
    this.#socket.send(JSON.stringify(request));
  }

  #connect() {
    if (this.#closed || (this.#socket && this.#socket.readyState <= WebSocket.OPEN)) return;
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.url, ["tidemark.v1.json", ...(link ? [`bearer.${link}`] : [])]);
    this.#socket = socket;
    socket.onopen = () => {
      this.#retry = FIRST_RETRY;
      this.#heard = Date.now();
      this.#setState("live");
      for (const id of this.#subscriptions.keys()) this.#send(id);
    };
    socket.onmessage = (e) => {
      this.#heard = Date.now();
      const message = parse(e.data);
      if (message.type === "reconnect") {
        this.#retry = message.after_ms ?? FIRST_RETRY;
        return;
      }
      const s = this.#subscriptions.get(message.id);
      if (!s) return;
      if (message.type === "gap") s.position = null;
      if (message.position && !message.more) s.position = message.position;
      s.on(message);
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#setState("reconnecting");
      this.#timer = setTimeout(() => this.#connect(), this.#retry * (0.7 + 0.6 * Math.random()));
      this.#retry = Math.min(LAST_RETRY, this.#retry * 1.7);
    };
  }

  // A socket that says nothing although progress is due is dead, whatever the browser thinks.
  #watch() {
    if (this.#subscriptions.size && this.state === "live" && Date.now() - this.#heard > SILENT_AFTER) this.#socket?.close();
  }
}
