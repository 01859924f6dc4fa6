// h makes an element; text is always text, never markup.
export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined));
  return e;
}

const SVG = "http://www.w3.org/2000/svg";

export function s(tag, attributes, ...children) {
  const e = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// patch makes the children of parent those of list, keeping every element that stays equal, so
// that hover, selection and scroll position survive an update.
export function patch(parent, list) {
  const have = [...parent.childNodes];
  const next = list.filter((n) => n !== null && n !== undefined && n !== "").map((n) => (typeof n === "string" ? new Text(n) : n));
  next.forEach((n, i) => {
    const old = have[i];
    if (!old) parent.append(n);
    else if (!old.isEqualNode(n)) {
      const same = old.nodeType === 1 && n.nodeType === 1 && old.tagName === n.tagName;
      if (!same) old.replaceWith(n);
      else {
        for (const a of [...old.attributes]) if (!n.hasAttribute(a.name)) old.removeAttribute(a.name);
        for (const a of n.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
        patch(old, [...n.childNodes]);
      }
    }
  });
  for (const extra of have.slice(next.length)) extra.remove();
}
