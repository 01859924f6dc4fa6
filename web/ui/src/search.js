// What / opens: panels are found by their title.

export function search(root) {
  const box = document.getElementById("search");
  if (!box) return;
  box.hidden = false;
  box.focus();
  box.oninput = () => {
    for (const p of root.querySelectorAll(".panel")) p.classList.toggle("unlike", !p.getAttribute("aria-label").toLowerCase().includes(box.value.toLowerCase()));
  };
  box.onkeydown = (e) => {
    if (e.key !== "Escape" && e.key !== "Enter") return;
    const found = root.querySelector(".panel:not(.unlike)");
    if (e.key === "Enter" && box.value) found?.focus();
    if (e.key === "Escape" || !box.value) {
      box.value = "";
      box.oninput();
      box.hidden = true;
    }
  };
}
