// One websocket for a whole page: many subscriptions, resumed by position after every
// interruption, so that nothing is lost or doubled.

import { parse } from "./json.js";
import { link } from "./server.js";

const FIRST_RETRY = 400;
const LAST_RETRY = 8000;
const NO_KEY = 4401; // the server closes a socket whose right has ended
const SILENT_AFTER = 15000; // the server sends progress at least every 5 s

// anew says that a selection can't be gone on with: with a moving range or a limit, which rows a page
// holds can't be known. It is asked for anew, and nothing is missed by that.
const anew = ({ from, limit, range }) => from === "snapshot" && (limit > 0 || [range].flat().some((end) => /^now/.test(end ?? "")));

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
  state = "connecting"; // connecting | live | reconnecting | ended

  constructor(url = `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/v1/live`) {
    this.url = url;
    this.#watching = setInterval(() => this.#watch(), 2000);
    addEventListener("online", () => this.#connect());
    addEventListener("pagehide", () => this.#socket?.close());
  }

  // onState calls back with "connecting", "live", "reconnecting" or, when the session or the link that
  // the page was opened by is over, "ended".
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
    if (s.position && !anew(s.request)) request.from = s.position;
    this.#socket.send(JSON.stringify(request));
  }

  #connect() {
    if (this.#closed || (this.#socket && this.#socket.readyState <= WebSocket.OPEN)) return;
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.url, ["tidemark.v1.json", ...(link ? [`bearer.${link}`] : [])]);
    this.#socket = socket;
    let opened = false;
    socket.onopen = () => {
      opened = true;
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
      // Before a snapshot the answer's position is where its rows stand, which have not come yet.
      if (message.position && !message.more && message.type !== "subscribed") s.position = message.position;
      s.on(message);
    };
    socket.onclose = (e) => {
      if (this.#socket !== socket) return;
      this.#setState("reconnecting");
      if (e.code === NO_KEY || !opened) this.#check(e.code === NO_KEY);
      this.#timer = setTimeout(() => this.#connect(), this.#retry * (0.7 + 0.6 * Math.random()));
      this.#retry = Math.min(LAST_RETRY, this.#retry * 1.7);
    };
  }

  // #check finds out whether the page may still be looked at. A link that was told to go, and may, is one
  // whose dashboard has changed: its page is another one now.
  async #check(told) {
    try {
      const { status } = await fetch(location.href, { method: "HEAD", cache: "no-store" });
      if (link && told && status === 200) return location.reload();
      if (status !== 401 && status !== 403 && !(link && status === 404)) return;
    } catch {
      return; // the server is away
    }
    clearTimeout(this.#timer);
    this.close();
    this.#setState("ended");
  }

  // A socket that says nothing although progress is due is dead, whatever the browser thinks.
  #watch() {
    if (this.#subscriptions.size && this.state === "live" && Date.now() - this.#heard > SILENT_AFTER) this.#socket?.close();
  }
}
