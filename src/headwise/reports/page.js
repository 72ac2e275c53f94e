// Values under the pointer in plots, and reloading of the page during training.
"use strict";

const number = (value) => {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size >= 0.001 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
};

const nearest = (steps, step) => {
  let low = 0, high = steps.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle; else high = middle;
  }
  return step - steps[low] <= steps[high] - step ? low : high;
};

for (const figure of document.querySelectorAll("figure.plot")) {
  const area = figure.querySelector(".area");
  const data = JSON.parse(figure.querySelector("script").textContent);
  const [first, last] = data.x;
  const cross = figure.querySelector(".cross");
  const at = figure.querySelector(".at");
  const values = [...figure.querySelectorAll(".key b")];
  const asWritten = values.map((each) => each.textContent);
  const longest = data.series.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
  let place = longest.length - 1;

  const show = () => {
    const step = longest[place];
    const across = last > first ? (100 * (step - first)) / (last - first) : 50;
    cross.setAttribute("x1", across + "%");
    cross.setAttribute("x2", across + "%");
    cross.classList.add("on");
    at.textContent = "step " + Math.round(step).toLocaleString("en");
    data.series.slice(0, values.length).forEach((series, index) => {
      const found = nearest(series.x, step);
      const same = Math.abs(series.x[found] - step) <= Math.abs(last - first) / 50;
      values[index].textContent = same ? number(series.y[found]) : "–";
    });
  };
  const leave = () => {
    cross.classList.remove("on");
    at.textContent = "latest";
    values.forEach((each, index) => { each.textContent = asWritten[index]; });
  };
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    place = nearest(longest, first + share * (last - first));
    show();
  });
  area.addEventListener("pointerleave", leave);
  area.addEventListener("blur", leave);
  area.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: 20, PageDown: -20 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    place = Math.min(longest.length - 1, Math.max(0, place + by));
    show();
  });
}

for (const block of document.querySelectorAll(".attention")) {
  const squares = block.querySelector(".large .squares");
  const cells = squares.querySelector("g");
  const pointed = document.querySelector(".pointed");
  const data = JSON.parse(block.querySelector("script").textContent);
  const buttons = [...block.querySelectorAll("button")];
  let shown = buttons.length - 1;
  buttons.forEach((button, index) => button.addEventListener("click", () => {
    shown = index;
    cells.replaceChildren(...[...button.querySelectorAll("path")].map((each) => each.cloneNode(true)));
    buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
    block.querySelector(".which").textContent = button.dataset.step;
  }));
  squares.addEventListener("pointermove", (event) => {
    const box = squares.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * data.target.length);
    const column = Math.floor(((event.clientX - box.left) / box.width) * data.source.length);
    const weight = data.weights[shown]?.[row]?.[column];
    if (weight === undefined) return;
    pointed.textContent = `${data.target[row]} takes ${weight.toFixed(3)} from ${data.source[column]}`;
  });
}

const body = document.body;
if (body.dataset.running) {
  const kept = "headwise-open";
  try {
    const open = JSON.parse(sessionStorage.getItem(kept) || "[]");
    document.querySelectorAll("details").forEach((each, index) => { each.open = open.includes(index); });
  } catch { /* session storage may be disabled */ }
  const silent = Date.now() / 1000 - Number(body.dataset.written);
  if (silent > 600) {
    const state = document.querySelector(".state");
    state.className = "state silent";
    state.textContent = `no news for ${Math.round(silent / 60).toLocaleString("en")} min`;
  }
  setInterval(() => {
    if (document.hidden || document.querySelector(".area:hover, .squares:hover")) return;
    const open = [...document.querySelectorAll("details")].flatMap((each, index) => (each.open ? [index] : []));
    try { sessionStorage.setItem(kept, JSON.stringify(open)); } catch { /* as above */ }
    location.reload();
  }, 1000 * Number(body.dataset.running));
}
