
// ---- the grid of questions by models, and a question's answers side by side

const QUESTIONS = 40;                   // rows of the grid that are drawn at a time
const NO_VALUE = ["no value", "no figures"];
const grid = { shown: QUESTIONS };

// Without a judge the values compare words: a cell then shows figures, where any answer has one.
const valueOf = (answer) => (grid.byFigures ? answer.figures_share : answer.values[report.parts[state.metric].at(-1)]);
const FIGURES_PART = "share of the answer’s figures that the reference has (Figures Precision)";

function drawGrid() {
  const answers = filtered(), rows = new Map();                         // the answers by question
  for (const answer of answers) rows.set(answer.question, [...rows.get(answer.question) ?? [], answer]);
  const models = report.models.map((_, i) => i).filter((i) => answers.some((answer) => answer.model === i));
  $("grid").hidden = models.length < 2;
  if (models.length < 2) return;
  const all = report.answers.filter((answer) => answer.metric === state.metric), isJudged = all.some((answer) => answer.judged);
  grid.byFigures = !isJudged && all.some((answer) => answer.figures_share !== null);
  $("grid-against").hidden = !isJudged || !state.hasPoints;
  $("grid-part").textContent = grid.byFigures ? FIGURES_PART : TITLES[report.parts[state.metric].at(-1)].replace("Score", "score");
  const heads = ["Question", ...models.map((i) => report.models[i])].map((name) => make("th", "", name));
  $("grid").querySelector("thead").replaceChildren(put(make("tr"), ...heads));
  const ordered = [...rows.values()].sort((a, b) => meanOf(a) - meanOf(b));
  $("grid").querySelector("tbody").replaceChildren(...ordered.slice(0, grid.shown).map((row) => gridRow(row, models)));
  $("more-questions").hidden = ordered.length <= grid.shown;
  $("more-questions").textContent = `Show ${Math.min(ordered.length - grid.shown, QUESTIONS)} more questions`;
}

function meanOf(answers) {
  const values = answers.map(valueOf).filter((value) => value !== null);
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : Infinity;     // without a value: last
}

function gridRow(answers, models) {
  const row = make("tr"), question = put(make("span", "question"), ...named("small", answers[0]));
  put(row, put(make("td"), question));
  for (const model of models) {
    const answer = answers.find((one) => one.model === model), cell = make("td", "cell", answer ? null : "–");
    if (answer) put(cell, gridButton(answer, row, answers));
    put(row, cell);
  }
  return row;
}

function gridButton(answer, row, answers) {
  const value = valueOf(answer), button = make("button", "value", value === null ? NO_VALUE[Number(grid.byFigures)] : value.toFixed(2));
  const contradicted = answer.rows.filter(([ref, , word]) => ref !== null && word === "contradicted").length;
  if (contradicted) button.append(" ", make("span", "against", `≠${contradicted}`));
  button.type = "button";
  button.style.setProperty("--share", value ?? 0);
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-label", `${report.models[answer.model]}: ${button.textContent}; open the answers to this question`);
  button.addEventListener("click", () => toggleQuestion(row, button, answers));
  return button;
}

function toggleQuestion(row, button, answers) {
  const open = row.querySelector("[aria-expanded=true]");
  if (open) row.nextSibling.remove();
  open?.setAttribute("aria-expanded", "false");
  if (open === button) return;          // another cell of the row puts its own answer first
  button.setAttribute("aria-expanded", "true");
  const first = [...row.querySelectorAll("button")].indexOf(button);
  const ordered = answers.toSorted((a, b) => a.model - b.model);
  ordered.unshift(...ordered.splice(first, 1));
  const cell = make("td");
  cell.colSpan = row.cells.length;
  row.after(put(make("tr", "alignment"), put(cell, ...sideBySide(ordered))));
}

function sideBySide(answers) {          // a column per answer: first each reference point, then the texts
  const head = put(make("p"), ...named("b", answers[0]));
  const titles = ["Reference", ...answers.map((answer) => report.models[answer.model])].map((title) => make("th", "", title));
  const body = make("tbody");
  const points = answers[0].ref.map(plain);
  for (const text of points) {
    const cells = answers.map((answer) => sideCell(answer, answer.ref.findIndex((place) => plain(place) === text)));
    put(body, put(make("tr"), make("td", "", text), ...cells));
  }
  const reference = answers[0].whole.length ? make("td", "whole", report.texts[answers[0].whole[0]]) : make("td");
  put(body, put(make("tr", "texts"), reference, ...answers.map(answerCell)));
  return [head, put(make("div", "wide"), put(make("table", "points side"), put(make("thead"), put(make("tr"), ...titles)), body))];
}

const plain = (place) => report.texts[place].replaceAll(MARK, "$1");

function sideCell(answer, index) {      // what the score says of a reference point, and the point it is matched with
  const row = answer.rows.find(([ref]) => ref === index && index >= 0);
  if (!row) return make("td", "", "–");
  const [, ans, word, score, isHint] = row, cell = make("td", `own ${word.replaceAll(" ", "-")}`);
  cell.style.setProperty("--share", score ?? 0);
  put(cell, make("span", "sign", SIGNS[word]), ` ${word}${score >= 0.005 ? ` ${score.toFixed(2)}` : ""}`);
  if (ans !== null) put(cell, put(make("small"), isHint ? "nearest: " : "", ...underlined(report.texts[answer.ans[ans]])));
  return cell;
}

function answerCell(answer) {           // the whole answer, or else its points in their order
  const cell = answer.whole.length ? wholeText(answer.whole[1], answer.ans) : make("td");
  if (!answer.whole.length) put(cell, ...answer.ans.map((place) => put(make("p"), ...underlined(report.texts[place]))));
  if (!cell.textContent) cell.append(make("small", "", answer.whole.length || answer.rows.length ? "The answer is empty." : NO_TEXTS));
  return cell;
}
