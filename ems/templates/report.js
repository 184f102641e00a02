"use strict";
// The table of answers. All text enters the page through textContent, never as HTML.

const PAGE = 100;                       // rows of the table that are drawn at a time
const KINDS = {
  covered: ["●", "covered", "matched or covered, with a score of 0.5 or more"],
  partly: ["◐", "in part", "matched or covered, with a score under 0.5"],
  missing: ["✕", "missing", "a reference point that nothing in the answer covers"],
  unmatched: ["○", "unmatched", "an answer point that no reference point matches"],
  unscored: ["?", "unscored", "no reply of the judge could be read: no score, and not zero"],
};
const COLUMNS = [                       // title, key to sort by, class
  ["Model", "model", "model"], ["Question", "question", ""], ["Recall", "recall", "score"],
  ["Precision", "precision", "score"], ["F1", "f1", "score"], ["Points", "points", "points wide"],
];
const state = { metric: 0, model: -1, text: "", unscored: false, sort: "", down: false, shown: PAGE };
const $ = (id) => document.getElementById(id);
let report;

function make(tag, className = "", text = null) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== null) node.textContent = text;
  return node;
}

function put(parent, ...children) {
  parent.append(...children);
  return parent;
}

async function unpack() {
  const bytes = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// ---- the table

function value(answer, key) {
  if (key === "model") return report.models[answer.model];
  if (key === "question") return report.questions[answer.question].id;
  if (key === "points") return report.lists[answer.ref].length;
  return answer[key];
}

function compare(a, b) {                // what has no value stands last in either direction
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return state.down ? -order : order;
}

function chosen() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = report.answers.filter((answer) => {
    const question = report.questions[answer.question];
    const searched = `${question.id} ${question.group} ${question.text}`.toLowerCase();
    return answer.metric === state.metric && (state.model < 0 || answer.model === state.model)
      && (!state.unscored || answer.unscored) && words.every((word) => searched.includes(word));
  });
  return state.sort ? kept.sort((a, b) => compare(value(a, state.sort), value(b, state.sort))) : kept;
}

function scoreCell(number) {
  const cell = make("td", "number", number === null ? "–" : number.toFixed(3));
  const bar = make("span", "bar");
  bar.style.setProperty("--share", number ?? 0);
  return put(cell, bar);
}

function answerRow(answer) {
  const row = make("tr", "answer");
  const open = make("button", "", report.models[answer.model]);
  open.type = "button";
  open.setAttribute("aria-expanded", "false");
  const question = report.questions[answer.question];
  const asked = put(make("span", "question"), make("small", "", question.id), question.text);
  asked.title = question.text;
  const points = `${report.lists[answer.ref].length} / ${report.lists[answer.ans].length}`;
  const last = make("td", "number wide", points);
  if (answer.unscored) put(last, make("br"), make("small", "", `${answer.unscored} unscored`));
  put(row, put(make("td"), open), put(make("td"), asked), scoreCell(answer.recall), scoreCell(answer.precision),
    scoreCell(answer.f1), last);
  row.addEventListener("click", () => toggle(row, open, answer));
  return row;
}

function toggle(row, open, answer) {
  const isOpen = row.classList.toggle("open");
  open.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) return row.nextSibling.remove();
  const cell = put(make("td"), ...alignment(answer));
  cell.colSpan = COLUMNS.length;
  row.after(put(make("tr", "alignment"), cell));
}

function draw() {
  const rows = chosen();
  $("table").tBodies[0].replaceChildren(...rows.slice(0, state.shown).map(answerRow));
  const all = report.answers.filter((answer) => answer.metric === state.metric).length;
  $("count").textContent = `${rows.length} of ${all} answers. Open one to see its points.`;
  const left = rows.length - state.shown;
  $("more").hidden = left <= 0;
  $("more").textContent = `Show ${Math.min(left, PAGE)} more`;
  for (const head of $("table").tHead.rows[0].cells) {
    const direction = head.dataset.key === state.sort ? (state.down ? "descending" : "ascending") : "none";
    head.setAttribute("aria-sort", direction);
  }
}

// ---- one answer

function alignment(answer) {
  const question = report.questions[answer.question];
  const sums = put(make("ul"), ...answer.sums.map((line) => make("li", "", line)));
  const parts = [put(make("p"), make("b", "", question.id), ` ${question.text}`), sums];
  const table = make("table", "points");
  const counts = {};
  const body = make("tbody");
  for (const row of answer.rows) {
    counts[row[0]] = (counts[row[0]] ?? 0) + 1;
    body.append(pointRow(answer, row));
  }
  const heads = [["", "Reference point"], ["tag", "Score"], ["", "Answer point"]];
  const columns = put(make("colgroup"), ...heads.map(([name]) => make("col", name)));
  const head = put(make("tr"), ...heads.map(([name, title]) => make("th", name, title)));
  put(table, columns, put(make("thead"), head), body);
  return [...parts, kinds(counts, body), table];
}

function kinds(counts, body) {
  const row = make("div", "kinds");
  for (const [kind, [sign, name, meaning]] of Object.entries(KINDS)) {
    if (!counts[kind]) continue;
    const button = put(make("button", kind), make("span", "sign", sign), ` ${name} ${counts[kind]}`);
    button.type = "button";
    button.title = `${meaning}; press to hide or show`;
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", String(shown));
      for (const line of body.rows) if (line.classList.contains(kind)) line.hidden = !shown;
    });
    row.append(button);
  }
  return row;
}

function pointRow(answer, [kind, ref, ans, score, near, weight]) {
  const row = make("tr", kind);
  row.style.setProperty("--share", score ?? 0);
  const tag = make("td", "tag");
  if (score !== null && (score > 0 || ref !== null && ans !== null)) tag.append(make("b", "", score.toFixed(2)));
  tag.append(make("span", "sign", KINDS[kind][0]), ` ${KINDS[kind][1]}`);
  if (weight !== null) put(tag, make("br"), make("small", "", `weight ${weight.toFixed(1)}`));
  return put(row, point(ref, answer.ref, near === "reference"), tag, point(ans, answer.ans, near === "answer"));
}

function point(index, list, near) {
  if (index === null) return make("td", "none");
  const text = report.texts[report.lists[list][index]];
  const cell = make("td", near ? "near" : "own");
  return put(cell, make("span", "at", near ? `nearest: ${index}` : index), text);
}

// ---- filters

function option(select, value, text) {
  const item = make("option", "", text);
  item.value = value;
  select.append(item);
}

function changed() {
  state.metric = Number($("metric").value);
  state.model = Number($("model").value);
  state.text = $("text").value;
  state.unscored = $("unscored").checked;
  state.shown = PAGE;
  draw();
}

function prepare() {
  report.metrics.forEach((name, i) => option($("metric"), i, name));
  $("metric-label").hidden = report.metrics.length < 2;
  option($("model"), -1, "all models");
  report.models.forEach((name, i) => option($("model"), i, name));
  $("unscored-label").hidden = !report.answers.some((answer) => answer.unscored);
  const columns = make("colgroup");
  const row = make("tr");
  for (const [title, key, name] of COLUMNS) {
    columns.append(make("col", name));
    const head = make("th", name.includes("model") || !name ? "" : `number ${name.replace("points", "")}`);
    head.dataset.key = key;
    const button = make("button", "", title);
    button.type = "button";
    button.addEventListener("click", () => {
      state.down = state.sort === key ? !state.down : false;
      state.sort = key;
      draw();
    });
    row.append(put(head, button));
  }
  $("table").prepend(columns);
  $("table").tHead.append(row);
  $("filters").addEventListener("input", changed);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => { state.shown += PAGE; draw(); });
  draw();
  $("filters").hidden = $("table").hidden = false;
}

unpack().then((data) => { report = data; prepare(); }).catch((error) => {
  $("count").textContent = `The table could not be unpacked (${error}); a browser of 2023 or newer is needed.`;
});
