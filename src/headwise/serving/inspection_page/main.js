// The page: its parts, and what is asked and shown anew when the state changes.

import { ask, canAnswer, forgetShown, isSnapshot, model as askModel, savedState } from "./api.js";
import { showChanges } from "./changes.js";
import { comparisonOf, comparisonRequest } from "./comparison.js";
import { h } from "./dom.js";
import { makeQuestion } from "./question.js";
import { makeSave } from "./save.js";
import { base, get, set, start, subscribe } from "./state.js";
import { followPointer } from "./tokens.js";
import { endTurn, inTurn, showProblem } from "./turns.js";
import { VIEWS } from "./views.js";

/** Keys that change the output, and not only what is looked at. */
const OF_OUTPUT = ["text", "target", "prefix", "off", "noResidual", "rows"];

const part = (id) => document.getElementById(id);

begin().catch((error) => showProblem(part("panel"), error));

async function begin() {
  const model = await askModel();
  const views = VIEWS.filter((each) => each.view === null || model.views.includes(each.view));
  start({ text: model.examples?.[0]?.text ?? "", ...savedState });
  showModel(model);
  const question = makeQuestion(part("question"), { model, set, locked: isSnapshot });
  const page = { model, views, shown: null };
  const saver = makeSave(part("save"), { current: () => current(page), report });
  followPointer();
  subscribe((state, different) => {
    question.update(state);
    refresh(page, saver, different);
  });
  question.update(get());
  refresh(page, saver, OF_OUTPUT);
}

function refresh(page, saver, different) {
  const state = get();
  const view = viewOf(page, state);
  const local = page.shown?.view === view && different.every((key) => view.local?.includes(key));
  if (local) {
    page.shown.update?.(state);
    return;
  }
  const ofOutput = different.some((key) => OF_OUTPUT.includes(key));
  forgetShown();
  keepFocus(() => {
    if (ofOutput) showChanges(part("changes"), { state, set });
    showTabs(page, state);
  });
  saver.update({ asked: view.view !== null, drawn: page.model.drawn.includes(view.view), canvas: view.view === "attention" });
  showComparison(page, state);
  showView(page, state, view);
}

function viewOf(page, state) {
  return page.views.find((each) => each.name === state.view) ?? page.views[0];
}

/** Write the name of the model and its main settings. */
function showModel(model) {
  const { config } = model;
  const facts = [
    model.languages ? `${model.task}, ${model.languages.join(" → ")}` : model.task,
    config.encoder_layers ? `${config.encoder_layers} encoder layers` : null,
    config.decoder_layers ? `${config.decoder_layers} decoder layers` : null,
    `${config.num_heads} heads`, `d_model ${config.d_model}`, `${model.parameters.toLocaleString("en")} parameters`,
  ];
  part("model").replaceChildren(
    h("h1", h("bdi", { dir: "auto" }, model.name)),
    h("p.about", facts.filter(Boolean).join(" · ")),
    ...(isSnapshot ? [h("p.about", "A saved page: it has the answers that were asked for, and no model.")] : []));
  document.title = `${model.name} · headwise inspect`;
}

function showTabs(page, state) {
  const chosen = viewOf(page, state);
  const tabs = page.views.map((view) => {
    const request = view.request(state, page.model);
    return h("button", { role: "tab", id: `tab-${view.name}`, class: "tab", "aria-controls": "panel",
      "aria-selected": String(view === chosen), tabindex: view === chosen ? "0" : "-1",
      disabled: view.view !== null && request !== null && !canAnswer(view.view, request),
      onclick: () => set({ view: view.name }),
    }, view.title);
  });
  const place = part("tabs");
  place.replaceChildren(...tabs);
  place.onkeydown = (event) => {
    const open = tabs.filter((each) => !each.disabled);
    const at = open.indexOf(event.target);
    const next = open.at({ Home: 0, End: -1, ArrowRight: (at + 1) % open.length, ArrowLeft: at - 1 }[event.key] ?? at);
    if (next === event.target) return;
    event.preventDefault();
    next.click();
    part(next.id).focus();
  };
  part("panel").setAttribute("aria-labelledby", `tab-${chosen.name}`);
}

async function showComparison(page, state) {
  const place = part("comparison");
  const asked = comparisonRequest(state, page.model);
  if (!asked || !state.text) {
    place.replaceChildren();
    return;
  }
  if (isSnapshot && !canAnswer(asked.view, asked.request)) return;
  await answered(page, "compared", place, asked, (found) => place.replaceChildren(...comparisonOf(asked.view, found, state)));
}

async function showView(page, state, view) {
  const panel = part("panel");
  const about = h("div", h("h2.hidden", view.title), h("p.about.lead", view.about));
  const request = state.text ? view.request(state, page.model) : null;
  const context = { state, set, model: page.model, ask, base, say };
  if (request === null) {
    endTurn(page, "asked", panel);
    replaceView(page, { view });
    panel.replaceChildren(about, h("p.needs", state.text ? view.needs : "Write a text above."));
    if (view.form) panel.append(view.form(context));
    return;
  }
  const show = (found) => {
    const place = h("div", { class: `view ${view.name}` });
    keepFocus(() => {
      replaceView(page, { view });
      panel.replaceChildren(about, place);
      const made = view.render(place, found, context);
      page.shown = { view, ...(typeof made === "function" ? { clean: made } : made) };
    });
  };
  if (view.view === null) {
    endTurn(page, "asked", panel);
    show(null);
  } else if (await answered(page, "asked", panel, { view: view.view, request }, show) === false) replaceView(page, null);
}

/** Let the view that is shown clean up, and note another. */
function replaceView(page, shown) {
  page.shown?.clean?.();
  page.shown = shown;
}

/** Ask, and show the answer; what takes long is said. Returns as `inTurn`. */
async function answered(page, name, place, { view, request }, show) {
  const slow = setTimeout(() => say("Computing …"), 150);
  const found = await inTurn(page, name, place, () => ask(view, request), show);
  clearTimeout(slow);
  if (found !== null) say("");
  return found;
}

/** Keep the keyboard where it is while elements are replaced by others of the same id. */
function keepFocus(replace) {
  const id = document.activeElement?.id;
  replace();
  if (id && document.activeElement?.id !== id) part(id)?.focus({ preventScroll: true });
}

/** Say something to everyone, screen readers too. */
function say(text) {
  const status = part("status");
  status.classList.remove("problem");
  status.textContent = text;
}

function report(text, failed) {
  say(text);
  part("status").classList.toggle("problem", failed);
}

/** What the buttons that save refer to. */
function current(page) {
  const state = get();
  const view = viewOf(page, state);
  const saved = view.saved ? view.saved(state) : view.request(state, page.model);
  return { view: view.view ?? view.name, request: saved, state, name: page.model.name, canvas: document.querySelector("#panel canvas.matrix-canvas") };
}
