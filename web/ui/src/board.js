// What all panels of a dashboard share: the range, pause, and one drawing frame for all.

const FRAME = 120; // milliseconds between two drawings at the least

export class Board {
  #frames = new Set();

  constructor(root) {
    this.range = root.dataset.range;
    this.tz = root.dataset.tz || "UTC";
    this.paused = false;
    this.button = document.getElementById("pause");
    this.button?.addEventListener("click", () => this.toggle());
    addEventListener("keydown", (e) => {
      if (e.target.matches("input, textarea, select") || e.ctrlKey || e.metaKey || e.altKey) return;
      if (e.key === "p") this.toggle();
      if (e.key === "r") location.reload();
      if (e.key === "?") document.getElementById("keys")?.showModal();
    });
    document.getElementById("range")?.addEventListener("change", (e) => {
      const url = new URL(location.href);
      url.searchParams.set("range", e.target.value);
      location.assign(url);
    });
    let last = 0;
    const frame = (now) => {
      if (now - last >= FRAME) {
        last = now;
        for (const f of this.#frames) f();
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  onFrame(f) {
    this.#frames.add(f);
  }

  toggle() {
    this.paused = !this.paused;
    this.button.setAttribute("aria-pressed", String(this.paused));
    this.button.textContent = this.paused ? "Resume" : "Pause";
    document.body.classList.toggle("paused", this.paused);
  }
}
