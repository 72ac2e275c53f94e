// The form: the text, another output than the model's own, and how the output starts.

import { h } from "./dom.js";

/** Fill the form. `set` is called with {text, target, prefix} when it is sent; `update`
 *  of what is returned writes a state into its fields. */
export function makeQuestion(form, { model, set, locked }) {
  const writes = model.views.includes("output");
  const text = field("text", "Text", "textarea", { required: true });
  const target = field("target", "Look at this output", "input", { placeholder: "the model's own" });
  const prefix = field("prefix", "Force the output to start with", "input", { placeholder: "nothing" });
  const problem = h("p.problem", { id: "text-problem", role: "alert", hidden: true });
  text.input.setAttribute("aria-describedby", problem.id);
  const send = () => {
    const blank = text.input.value.trim() === "";
    problem.hidden = !blank;
    problem.textContent = blank ? "The text is blank, so there is nothing to look at; write one." : "";
    text.input.setAttribute("aria-invalid", String(blank));
    if (blank) text.input.focus();
    else set({ text: oneLine(text.input.value), target: target.input.value.trim(), prefix: prefix.input.value });
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  text.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  form.append(
    text.node, problem,
    ...(writes ? [target.node, prefix.node] : []),
    h("div.send",
      h("button", { type: "submit", class: "main" }, "Look inside"),
      examples((model.examples ?? []).filter((each) => !each.donor), set)),
  );
  if (locked) for (const each of form.elements) each.disabled = true;
  return {
    update(state) {
      text.input.value = state.text;
      target.input.value = state.target;
      prefix.input.value = state.prefix;
    },
  };
}

function field(name, label, kind, attributes) {
  const own = kind === "textarea" ? { rows: 2 } : { type: "text" };
  const input = h(kind, { id: `question-${name}`, dir: "auto", spellcheck: "false", ...own, ...attributes });
  return { input, node: h("div", { class: `field ${name}` }, h("label", { for: input.id }, label), input) };
}

/** Lines are joined: a text is one line. */
function oneLine(value) {
  return value.trim().replace(/\s*\n\s*/g, " ");
}

function examples(list, set) {
  if (list.length === 0) return null;
  const choose = (event) => {
    const { text } = list[Number(event.target.value)];
    event.target.value = "";
    set({ text, target: "", donor: "", other: "", prefix: "" });
  };
  return h("select", { "aria-label": "Examples", onchange: choose },
    h("option", { value: "" }, "Examples …"),
    ...list.map((each, index) => h("option", { value: index }, each.text)));
}
