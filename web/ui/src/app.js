// The script of every page: theme, connection, and what the page's own elements ask for.

import { h } from "./dom.js";
import { Live } from "./live.js";
import { link } from "./server.js";
import { mount } from "./panels.js";
import { Board } from "./board.js";
import { streamPage, viewPage, guidePage, refreshing, lettersPage, settingsPage } from "./pages.js";

const theme = document.getElementById("theme");
theme?.addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
});
const kept = localStorage.getItem("theme");
if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;

// ended says that the page shows nothing new any more, and what to do.
function ended(banner) {
  const again = h("a", { href: `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}` }, "Sign in again");
  banner.replaceChildren(...(link ? ["This link has expired or was taken back."] : ["Your session has ended. ", again, "."]), " What you see is as of ", h("time", null), ".");
}

const pill = document.getElementById("connection");
if (pill) {
  const live = new Live();
  const banner = document.getElementById("banner");
  live.onState((state, heard) => {
    pill.dataset.state = state;
    pill.querySelector("span").textContent = state;
    banner.hidden = state !== "reconnecting" && state !== "ended";
    if (state === "ended") ended(banner);
    banner.querySelector("time").textContent = heard ? new Date(heard).toLocaleTimeString() : "–";
  });
  const boardRoot = document.getElementById("board");
  if (boardRoot) {
    const board = new Board(boardRoot);
    board.panels = [...boardRoot.querySelectorAll("[data-panel]")].map((root) => mount(root, live, board));
    document.getElementById("help")?.addEventListener("click", () => document.getElementById("keys").showModal());
    document.getElementById("share")?.addEventListener("click", async (e) => {
      const may = e.currentTarget.dataset.may !== undefined;
      (await import("./share.js")).share(board, may);
    });
    document.getElementById("edit")?.addEventListener("click", async () => (await import("./edit.js")).edit(board, live));
  }
  if (document.getElementById("tail") || document.getElementById("view-rows")) {
    streamPage(live);
    viewPage(live);
  } else live.watch(); // also a board that asks for nothing shows whether the server is there
}
if (document.getElementById("build")) import("./build.js").then((m) => m.build());
refreshing();
guidePage();
lettersPage();
settingsPage();
