"use strict";
// The tables of answers and of missed points. All text enters the page through textContent, never as HTML.

const PAGE = 100;                       // rows of the table that are drawn at a time
const SIGNS = { covered: "●", "in part": "◐", "figure not in the answer": "#", "figure not in the reference": "#", "not covered": "✕",
  contradicted: "≠", "not in the reference": "○", unscored: "?" };
const UNMATCHED = "supported, not in the reference";
const BY_DOCUMENT = "contradicted by the document", NOT_IN_DOCUMENT = "figure not in the document";
const MARK = /\[([^\][]+): (not in the (?:answer|reference|document)(?: or the document)?)\]/g;      // as view.py writes it
const LOST_FIGURE = "figure not in the answer", OTHER_FIGURE = "figure not in the reference";
const FILTERS = [LOST_FIGURE, OTHER_FIGURE, "not covered", "contradicted", "unscored",
  "not in the reference", BY_DOCUMENT, NOT_IN_DOCUMENT, UNMATCHED];
const NO_TEXTS = "Results keep no whole texts: ems report --triplets FILE --answers FILE brings them.";
const TITLES = { recall: "Recall", precision: "Precision", f1: "F1", value: "Score" };
const state = { metric: 0, model: -1, word: "", text: "", sort: "", down: false, shown: PAGE, linked: null };
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
  const lines = (await new Response(stream).text()).split("\n");        // an answer each; the last has names and texts
  return { ...JSON.parse(lines.pop()), answers: lines.map((line) => JSON.parse(line)) };
}

// ---- which answers, in which order

const isMissed = ([ref, , word]) => ref !== null && (word === "not covered" || word === "contradicted");

function prepare(answer) {              // what filters and sorting look at
  answer.searched = report.questions[answer.question].join(" ").toLowerCase();
  const [shared, count] = answer.figures ?? [0, 0];
  answer.figures_share = count ? shared / count : null;
  answer.missed = answer.rows.filter(isMissed).length;
  answer.other_figures = answer.ans.flatMap((place) => facts(place)).filter((fact) => fact.includes("reference")).length;
  answer.words = new Set(answer.rows.flatMap((row) => wordsOf(answer, row)));
}

const facts = (place) => [...report.texts[place].matchAll(MARK)].map(([, , fact]) => fact);

function wordsOf(answer, [ref, ans, word, , isHint]) {       // what a row's points are called, as in the filter of points
  const words = [word];                 // a judge's word says nothing of figures: they are found by their marks
  if (answer.judged && ref !== null && facts(answer.ref[ref]).length) words.push(LOST_FIGURE);
  if (isHint || ans === null) return words;
  const [label] = answer.support[ans] || [], lacks = facts(answer.ans[ans]);
  if (answer.judged && lacks.some((fact) => fact.includes("reference"))) words.push(OTHER_FIGURE);
  return [...words, label === "contradicted" ? BY_DOCUMENT : "", word === "not in the reference" && label === "supported" ? UNMATCHED : "",
    lacks.some((fact) => fact.endsWith("document")) ? NOT_IN_DOCUMENT : ""];
}

function filtered() {                      // the answers that pass all filters but that of points
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return report.answers.filter((answer) => answer.metric === state.metric
    && (state.model < 0 || answer.model === state.model) && words.every((word) => answer.searched.includes(word)));
}

function sortValue(answer) {
  if (state.sort === "model") return report.models[answer.model];
  if (state.sort === "question") return report.questions[answer.question][0];
  if (state.sort === "missed" || state.sort === "other_figures") return answer[state.sort];
  return answer.values[state.sort];
}

function compare(one, other) {          // what has no value stands last in either direction
  const a = sortValue(one), b = sortValue(other), more = other.missed - one.missed;
  if (a === null || b === null) return (a === null) - (b === null);
  const order = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return (state.down ? -order : order) || more;
}

// ---- drawing

function draw() {
  const rows = filtered().filter((answer) => !state.word || answer.words.has(state.word)).sort(compare);
  if (state.linked) rows.unshift(...rows.splice(rows.indexOf(state.linked), 1));
  $("table").tBodies[0].replaceChildren(...rows.slice(0, state.shown).map(answerRow));
  const all = report.answers.filter((answer) => answer.metric === state.metric);
  $("count").textContent = `${rows.length} of ${all.length} answers. ${counted(rows)}` + (state.hasPoints ? "Open one to see its points."
    : "This metric gives values only. Open one to see its texts.");
  $("word").parentNode.hidden = !state.hasPoints && !state.word;
  $("more").hidden = rows.length <= state.shown;
  $("more").textContent = `Show ${Math.min(rows.length - state.shown, PAGE)} more`;
  for (const head of $("table").tHead.rows[0].cells) {
    const direction = head.dataset.key === state.sort ? (state.down ? "descending" : "ascending") : "none";
    head.setAttribute("aria-sort", direction);
  }
  drawMissed();
  drawGrid();
}

function counted(answers) {             // "Reference points: 5 covered, 2 not covered. "
  const ofReference = new Map(), ofAnswers = new Map();
  for (const [ref, , word] of answers.flatMap((answer) => answer.rows)) {
    const counts = ref === null ? ofAnswers : ofReference;
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const listed = (title, counts, words) => {
    const parts = words.filter((word) => counts.has(word)).map((word) => `${counts.get(word).toLocaleString("en")} ${word}`);
    return parts.length ? `${title}: ${parts.join(", ")}. ` : "";
  };
  return listed("Reference points", ofReference, Object.keys(SIGNS))
    + listed("Answer points", ofAnswers, ["figure not in the reference", "contradicted", "not in the reference"]);
}

function drawMissed() {
  const points = new Map();             // by question and text: by how many answers a point is missed, and scored
  for (const answer of filtered()) {
    for (const row of answer.rows.filter(([ref, , word]) => ref !== null && word !== "unscored")) {
      const text = report.texts[answer.ref[row[0]]].replaceAll(MARK, "$1"), key = `${answer.question} ${text}`;
      const point = points.get(key) ?? { question: answer.question, text, missed: 0, scored: 0 };
      point.scored += 1;
      point.missed += isMissed(row);
      points.set(key, point);
    }
  }
  const often = [...points.values()].filter((point) => point.missed > 1);
  const most = often.sort((a, b) => b.missed - a.missed || a.scored - b.scored).slice(0, 20);
  $("missed").hidden = !most.length;
  $("missed").querySelector("summary").textContent = "Reference points that these answers miss most often"
    + (often.length > most.length ? ` (${most.length} of ${often.length.toLocaleString("en")} missed more than once)` : "");
  $("missed").querySelector("tbody").replaceChildren(...most.map(({ question, text, missed, scored }) => {
    const [id, , wording] = report.questions[question], link = make("button", "link", id);
    link.addEventListener("click", () => { $("text").value = id; changed(); });
    const cells = [`${missed} of ${scored}`, text].map((shown) => make("td", "", shown));
    return put(make("tr"), ...cells, put(make("td"), put(make("span", "question"), link, ` ${wording}`)));
  }));
}

// These columns are absent where a metric has no points.
const COUNTS = [["Figures not in reference", "other_figures", "score figures wide-only"], ["Missed", "missed", "score wide-only"]];
const onlyWide = (i, all) => (i < all.length - 1 ? " wide-only" : "");      // a narrow screen shows the last value

function drawHead() {
  const values = report.parts[state.metric].map((part, i, all) => [TITLES[part], part, `score${onlyWide(i, all)}`]);
  const columns = [["Model", "model", "model"], ["Question", "question", ""], ...values,
    ...(state.hasPoints ? COUNTS : [])];
  $("table").tHead.replaceChildren(put(make("tr"), ...columns.map(([title, key, name]) => {
    const head = make("th", name), button = make("button", "", title);
    head.dataset.key = key;
    button.addEventListener("click", () => {
      Object.assign(state, { down: state.sort === key ? !state.down : key === "missed" || key === "other_figures", sort: key });
      draw();
    });
    return put(head, button);
  })));
  state.sort = values.at(-1)[1];
}

function answerRow(answer) {
  const row = make("tr", "answer"), open = make("button", "open", report.models[answer.model]);
  const scores = report.parts[state.metric].map((part, i, all) => {
    const value = answer.values[part], bar = make("span", "bar");
    bar.style.setProperty("--share", value ?? 0);
    return put(make("td", `number${onlyWide(i, all)}`, value === null ? "–" : value.toFixed(3)), bar);
  });
  const points = answer.ref.length;
  const missed = make("td", "number wide-only", points ? `${answer.missed} of ${points}` : "–");
  if (answer.unscored) missed.append(make("small", "", `${answer.unscored} unscored`));
  const question = put(make("span", "question"), ...named("small", answer));
  const figures = make("td", "number wide-only", points ? answer.other_figures : "–");
  put(row, put(make("td"), open), put(make("td"), question), ...scores, ...(state.hasPoints ? [figures, missed] : []));
  if (!state.hasPoints && answer.unscored) scores.at(-1).append(make("small", "", `${answer.unscored} unscored`));
  row.addEventListener("click", () => toggle(row, open, answer));
  if (answer === state.linked) queueMicrotask(() => { toggle(row, open, answer); row.scrollIntoView(); });
  return row;
}

function named(tag, answer) {           // the question with its id, and its group where it has one of its own
  const [id, group, text] = report.questions[answer.question];
  return [make(tag, "", group && group !== id ? `${id} · ${group}` : id), ` ${text} `];
}

function toggle(row, open, answer) {
  const isOpen = row.classList.toggle("is-open");
  open.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) return row.nextSibling.remove();
  const cell = put(make("td"), ...alignment(answer));
  cell.colSpan = [...row.cells].filter((one) => one.offsetParent).length;
  row.after(put(make("tr", "alignment"), cell));
}

function alignment(answer) {
  const address = make("a", "", "link to this answer"), head = put(make("p"), ...named("b", answer), address);
  address.href = addressOf(answer);
  const lines = put(make("ul", "quiet"), ...answer.lines.map((line) => make("li", "", line)));
  const texts = wholeTexts(answer);
  if (!answer.rows.length) return [head, lines, texts];
  const titles = [["", "Reference point"], ["tag", "Score"], ["", "Answer point"]];
  const heads = put(make("tr"), ...titles.map(([name, title]) => make("th", name, title)));
  const sought = (row) => state.word !== "" && wordsOf(answer, row).includes(state.word);      // what the filter names is first
  const ordered = [...answer.rows].sort((a, b) => sought(b) - sought(a));
  const rows = put(make("tbody"), ...ordered.map((row) => pointRow(answer, row)));
  return [head, lines, put(make("table", "points one-answer"), put(make("thead"), heads), rows), texts];
}

function wholeTexts(answer) {           // folded where the points are shown
  if (!answer.whole.length) return make("p", "quiet", answer.rows.length ? "" : NO_TEXTS);
  const titles = put(make("tr"), make("th", "", "Reference"), make("th", "", "Answer"));
  const row = put(make("tr"), wholeText(answer.whole[0], answer.ref), wholeText(answer.whole[1], answer.ans));
  const table = put(make("table", "points texts"), put(make("thead"), titles), put(make("tbody"), row));
  const details = put(make("details"), make("summary", "", "Whole texts"), table);
  details.open = !answer.rows.length;
  return details;
}

function wholeText(place, points) {     // with the marks that the points have
  const facts = new Map(points.flatMap((point) => [...report.texts[point].matchAll(MARK)].map(([, ...fact]) => fact)));
  const figures = [...facts.keys()].map((figure) => figure.replace(/[^\w\s]/g, "\\$&")).join("|");
  if (!figures) return make("td", "whole", report.texts[place]);
  const places = new RegExp(`(?<![\\w.,])(${figures})(?![\\w]|[.,]\\d)`, "g");
  const marked = report.texts[place].replace(places, (figure) => `[${figure}: ${facts.get(figure)}]`);
  return put(make("td", "whole"), ...underlined(marked));
}

function pointRow(answer, [ref, ans, word, score, isHint]) {
  const row = make("tr", word.replaceAll(" ", "-")), tag = make("td", "own tag");
  const left = point(ref, answer.ref, false), right = point(ans, answer.ans, isHint);
  row.style.setProperty("--share", score ?? 0);
  put(tag, make("span", "sign", SIGNS[word]), ` ${word}${score >= 0.005 ? ` ${score.toFixed(2)}` : ""}`);
  const [label, line] = (!isHint && answer.support[ans]) || [];
  if (report.texts[line]) right.append(make("small", label === "contradicted" ? "document warns" : "document", report.texts[line]));
  return put(row, left, tag, right);
}

function point(index, list, isHint) {
  if (index === null) return make("td", "hint none", "–");
  const at = make("span", "at", isHint ? `nearest: ${index}` : index);
  return put(make("td", isHint ? "hint" : "own"), at, ...underlined(report.texts[list[index]]));
}

function underlined(text) {             // a text with its marks as lines; of each figure the title says what lacks it
  return text.split(MARK).map((piece, i, pieces) => {
    if (i % 3 === 0) return piece;
    if (i % 3 === 2) return "";         // the fact, which is in the title
    const fact = pieces[i + 1], figure = make("span", fact.endsWith("document") ? "figure not-in-document" : "figure", piece);
    figure.title = `${piece} is ${fact}`;
    return figure;
  });
}

// ---- filters and addresses

function addressOf(answer) {            // #triplet/model/metric
  const names = [report.questions[answer.question][0], report.models[answer.model], report.metrics[answer.metric]];
  return `#${names.map(encodeURIComponent).join("/")}`;
}

function follow() {                     // opens the answer that the address names; the metric may be left out
  const linked = location.hash && report.answers.find((answer) => `${addressOf(answer)}/`.startsWith(`${location.hash}/`));
  if (!linked) return;
  $("word").value = $("text").value = "";
  $("model").value = -1;
  $("metric").value = linked.metric;
  changed(null, linked);
}

function changed(event, linked = null) {
  const before = state.metric;
  Object.assign(state, { metric: Number($("metric").value), model: Number($("model").value), word: $("word").value,
    text: $("text").value, shown: PAGE, linked });
  state.hasPoints = report.answers.some((answer) => answer.metric === state.metric && answer.rows.length);
  grid.shown = QUESTIONS;
  if (state.metric !== before || !state.sort) drawHead();
  draw();
}

unpack().then((data) => {
  report = data;
  const first = report.metrics.map((_, i) => report.answers.find((answer) => answer.metric === i));
  report.parts = first.map((answer) => Object.keys(answer.values));
  report.answers.forEach(prepare);
  report.metrics.forEach((name, i) => $("metric").add(new Option(name, i)));
  report.models.forEach((name, i) => $("model").add(new Option(name, i)));
  const words = FILTERS.filter((word) => report.answers.some((answer) => answer.words.has(word)));
  words.forEach((word) => $("word").add(new Option(word, word)));
  $("metric").parentNode.hidden = report.metrics.length < 2;
  $("filters").addEventListener("input", changed);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("more").addEventListener("click", () => { state.shown += PAGE; draw(); });
  $("more-questions").addEventListener("click", () => { grid.shown += QUESTIONS; drawGrid(); });
  window.addEventListener("beforeprint", () => document.querySelectorAll("details.rows").forEach((rows) => { rows.open = true; }));
  window.addEventListener("hashchange", follow);
  $("filters").hidden = false;
  changed();
  follow();
}).catch((error) => {
  $("count").textContent = `The table could not be unpacked (${error}); a browser of 2023 or newer is needed.`;
});
