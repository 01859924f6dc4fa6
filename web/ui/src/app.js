// The script of every page: theme, connection, and what the page's own elements ask for.

import { Live } from "./live.js";
import { mount } from "./panels.js";
import { Board } from "./board.js";
import { streamPage, viewPage, overviewPage, guidePage } from "./pages.js";

const theme = document.getElementById("theme");
theme?.addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});
const kept = localStorage.getItem("theme");
if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;

const live = new Live();
const pill = document.getElementById("connection");
const banner = document.getElementById("banner");
live.onState((state, heard) => {
  if (pill) {
    pill.dataset.state = state;
    pill.querySelector("span").textContent = { connecting: "connecting", live: "live", reconnecting: "reconnecting" }[state];
  }
  if (banner) {
    banner.hidden = state !== "reconnecting";
    banner.querySelector("time").textContent = heard ? new Date(heard).toLocaleTimeString() : "–";
  }
});

const boardRoot = document.getElementById("board");
if (boardRoot) {
  const board = new Board(boardRoot, live);
  for (const root of boardRoot.querySelectorAll("[data-panel]")) mount(root, live, board);
}
streamPage(live);
viewPage(live);
overviewPage(live);
guidePage();
