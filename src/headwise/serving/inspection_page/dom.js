// Small functions that make elements. Texts are always text nodes: nothing that a model
// writes is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an HTML element: `h("div.card.wide", {…}, …)`. Attributes may be left out, and
 *  those that are null or false are; `on…` are listeners. Children are nodes or texts. A
 *  button does not submit. */
export function h(selector, ...rest) {
  const [name, ...classes] = selector.split(".");
  const attributes = rest[0]?.constructor === Object ? rest.shift() : {};
  if (attributes.class) classes.push(attributes.class);
  const type = name === "button" ? "button" : null;
  return filled(document.createElement(name), { type, ...attributes, class: classes.join(" ") || null }, rest);
}

/** Make an SVG element in the same way. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** Make a table with a caption. `header` are the names of the columns; the first cell
 *  of each row is its header. Cells are texts, numbers or nodes. */
export function table(caption, header, rows) {
  return h("table",
    h("caption", caption),
    h("thead", h("tr", ...header.map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", ...rows.map(([first, ...rest]) => h("tr", h("th", { scope: "row" }, first), ...rest.map((each) => h("td", each))))));
}

/** Make the numbers behind a picture available to everyone: a table that is folded. */
export function behindPicture(summary, content) {
  return h("details.numbers", h("summary", summary),
    h("div.scroll", { tabindex: "0", role: "region", "aria-label": summary }, content));
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((each) => each !== null && each !== undefined).map((each) =>
    each instanceof Node ? each : String(each)));
  return node;
}
