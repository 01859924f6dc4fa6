// Arranging panels by pointer while a dashboard is edited: a panel is dragged by its head and sized by
// its corner, the others make room at once, and Escape takes it all back. Where panels stand below each
// other there is nothing to arrange by pointer; the buttons do it there.

const STEADY = 14; // pixels that the pointer must move between two changes of place

// arrange tells what the pointer asks for: begin(), moveTo(id, other, behind), which says whether it
// changed anything, sizeTo(id, columns, rows), and end(keep).
export function arrange(root, { begin, moveTo, sizeTo, end }) {
  let drag = null;

  const down = (e) => {
    const panel = e.target.closest(".panel");
    const corner = e.target.closest(".corner");
    if (e.button !== 0 || !panel || e.target.closest("button, a, input") || !(corner || e.target.closest(".panel > header")) || !matchMedia("(min-width: 1001px)").matches) return;
    e.preventDefault();
    const box = panel.getBoundingClientRect();
    const cell = getComputedStyle(root);
    const gap = parseFloat(cell.columnGap);
    drag = { panel, id: panel.dataset.id, corner: !!corner, grab: [e.clientX - box.left, e.clientY - box.top], last: [e.clientX, e.clientY], column: (root.clientWidth + gap) / 12, row: parseFloat(cell.gridAutoRows) + gap, gap };
    root.setPointerCapture(e.pointerId);
    panel.classList.add("dragged");
    document.body.classList.add("dragging");
    begin();
  };

  const move = (e) => {
    if (!drag) return;
    const { panel, id } = drag;
    const box = () => panel.getBoundingClientRect();
    if (drag.corner) {
      const b = box();
      sizeTo(id, Math.round((e.clientX - b.left + drag.gap) / drag.column), Math.round((e.clientY - b.top + drag.gap) / drag.row));
      return;
    }
    if (Math.hypot(e.clientX - drag.last[0], e.clientY - drag.last[1]) > STEADY) {
      const other = document.elementsFromPoint(e.clientX, e.clientY).map((x) => x.closest?.(".panel")).find((x) => x && x !== panel && root.contains(x));
      if (other) {
        const b = other.getBoundingClientRect();
        if (moveTo(id, other.dataset.id, e.clientX > b.left + b.width / 2)) drag.last = [e.clientX, e.clientY];
      }
    }
    panel.style.translate = "";
    const b = box();
    panel.style.translate = `${e.clientX - drag.grab[0] - b.left}px ${e.clientY - drag.grab[1] - b.top}px`;
  };

  const stop = (keep) => {
    if (!drag) return;
    drag.panel.classList.remove("dragged");
    drag.panel.style.translate = "";
    document.body.classList.remove("dragging");
    drag = null;
    end(keep);
  };

  const key = (e) => {
    if (e.key !== "Escape" || !drag) return;
    e.stopPropagation();
    stop(false);
  };
  root.addEventListener("pointerdown", down);
  root.addEventListener("pointermove", move);
  root.addEventListener("pointerup", () => stop(true));
  root.addEventListener("pointercancel", () => stop(false));
  addEventListener("keydown", key, true);
}

// glide lets panels move to where they stand now instead of jumping there.
export function glide(panels, change) {
  const before = panels.map((p) => p.getBoundingClientRect());
  change();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  panels.forEach((p, i) => {
    const now = p.getBoundingClientRect();
    const [dx, dy] = [before[i].left - now.left, before[i].top - now.top];
    if ((dx || dy) && !p.classList.contains("dragged")) p.animate([{ transform: `translate(${dx}px, ${dy}px)` }, { transform: "none" }], { duration: 160, easing: "ease-out" });
  });
}
