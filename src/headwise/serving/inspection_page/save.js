// Buttons that save the current view as a file, and copy a link to it.

import { download, isSnapshot, save } from "./api.js";
import { h } from "./dom.js";

/** Fill `place`. `current()` returns {view, request, state, name, canvas}, where `canvas`
 *  is the picture of a view that draws on one, or null; `report(text, failed)` tells what
 *  became of it. A request that is null has nothing to save. */
export function makeSave(place, { current, report }) {
  const act = (format) => async () => {
    const { view, request, state, name, canvas } = current();
    try {
      if (format !== "html" && !request) throw new Error("There is nothing to save yet.");
      if (format === "png" && isSnapshot && canvas) {
        save(await new Promise((resolve) => { canvas.toBlob(resolve); }), `${name}-${view}.png`);
      } else {
        report(`Saving ${format.toUpperCase()} …`, false);
        await download(view, request, format, { state, name });
      }
      report(`${format.toUpperCase()} saved.`, false);
    } catch (error) {
      report(error.message, true);
    }
  };
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      report("Link copied.", false);
    } catch {
      report("The browser does not let this page copy; the address bar has the link.", true);
    }
  };
  const formats = isSnapshot ? ["json", "png"] : ["html", "svg", "png", "json"];
  const buttons = formats.map((format) =>
    h("button", { onclick: act(format), "aria-label": `Save as ${format.toUpperCase()}` }, format.toUpperCase()));
  place.replaceChildren(h("span.name", "Save as"), ...buttons,
    h("button", { onclick: copy }, "Copy link"));
  return {
    /** Show only the formats that the view has. */
    update({ asked, drawn, canvas }) {
      const has = { html: true, json: asked, svg: drawn, png: isSnapshot ? canvas : drawn };
      formats.forEach((format, index) => { buttons[index].hidden = !has[format]; });
    },
  };
}
