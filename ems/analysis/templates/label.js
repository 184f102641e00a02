"use strict";
// The page on which a person labels. All text enters it through textContent, never as HTML.

const POINTS = {
  "stated": "it says the same, in any words",
  "in part": "it says a part, and nothing against it",
  "not stated": "it says nothing of this",
  "contradicted": "both cannot be true: other figure, direction, name",
  "cannot tell": "left out of all counts",
};
const PAIRS = {
  "first better": "answer 1 is more right and complete",
  "second better": "answer 2 is more right and complete",
  "equal": "neither is better",
  "cannot tell": "left out of all counts",
};
const COLUMNS = ["id", "stratum", "size", "label", "by"];      // of the file of labels
const $ = (id) => document.getElementById(id);
const items = JSON.parse($("data").textContent);
const isPairs = items[0].answers.length > 1;
const words = Object.keys(isPairs ? PAIRS : POINTS);
const key = (by) => `ems-label ${items.map((item) => item.id).join("")} ${by}`;        // of one person's labels; "": the last name
let by = "", labels = {}, history = [], at = 0;

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

// ---- what is kept in the browser

function kept(name) {
  try {
    return localStorage.getItem(key(name));
  } catch {
    return null;
  }
}

function keep() {
  try {
    localStorage.setItem(key(""), by);
    localStorage.setItem(key(by), JSON.stringify({ labels, history }));
  } catch {
    say("This browser keeps nothing: save your labels before you close the page.");
  }
}

const say = (text) => { $("notice").textContent = text; };

// ---- a person begins, labels, undoes

const plain = (name) => name.replace(/[^\p{L}\p{N} ._-]/gu, " ").trim();       // a name that any reader of CSV takes as it is

function begin(name) {
  by = plain(name);
  if (!by) return;
  ({ labels, history } = JSON.parse(kept(by) ?? '{"labels": {}, "history": []}'));
  keep();
  show(firstOpen());
}

function firstOpen() {
  const open = items.findIndex((item) => !(item.id in labels));
  return open < 0 ? items.length - 1 : open;
}

function choose(label) {
  const { id } = items[at];
  say("");
  history.push([id, labels[id] ?? null]);
  labels[id] = label;
  keep();
  const isDone = items.every((item) => item.id in labels);
  if (isDone) say("Everything is labelled. Save the file of labels, then: ems agree RESULTS.jsonl LABELS.csv");
  show(isDone ? at : Math.min(at + 1, items.length - 1));
}

function undo() {
  const last = history.pop();
  if (!last) return;
  const [id, before] = last;
  if (before === null) delete labels[id];
  else labels[id] = before;
  keep();
  say("The last label is undone.");
  show(items.findIndex((item) => item.id === id));
}

// ---- the file of labels

function saved() {
  const done = items.filter((item) => item.id in labels);
  const rows = done.map((item) => [item.id, item.stratum, item.size, labels[item.id], by]);
  return [COLUMNS, ...rows].map((row) => `${row.join(",")}\n`).join("");
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([saved()], { type: "text/csv" }));
  link.download = `labels-${by.replaceAll(" ", "-")}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
  say(`${link.download} is saved, with ${Object.keys(labels).length} labels.`);
}

function load(text) {                   // the labels of a file take the place of those that the person has
  const [head, ...rows] = text.replace("\ufeff", "").split(/\r?\n/).filter(Boolean);
  const separator = [",", ";", "\t"].find((sign) => (head ?? "").includes(sign));
  const cells = (row) => row.split(separator).map((cell) => cell.replaceAll('"', ""));
  const names = cells(head ?? "");
  const records = rows.map((row) => Object.fromEntries(cells(row).map((cell, i) => [names[i], cell])));
  const ids = new Set(items.map((item) => item.id));
  const known = records.filter((row) => ids.has(row.id) && words.includes(row.label));
  const who = plain(known[0]?.by ?? "");
  if (!who) {
    $("count").textContent = "This file has no labels of this sheet.";
    return;
  }
  begin(who);
  for (const row of known) labels[row.id] = row.label;
  history = [];
  keep();
  show(firstOpen());
  say(`${known.length} of ${records.length} labels of the file are of this sheet and were read.`);
}

// ---- drawing

function paragraphs(whole, point = "") {
  const texts = whole.split("\n").filter((text) => text.trim());
  if (!texts.length) return [make("p", "none", "This text is empty.")];
  return texts.map((text) => make("p", point && text.includes(point) ? "marked" : "", text));
}

function show(place) {
  at = place;
  const item = items[at], n = items.length;
  $("start").hidden = true;
  $("item").hidden = $("bar").hidden = false;
  $("question").textContent = item.question || "(no question)";
  $("claim").hidden = isPairs;
  $("point").textContent = item.point;
  $("answers").replaceChildren(...item.answers.map((text, i) => {
    const answer = make("section", "", "");
    answer.append(make("h2", "", isPairs ? `Answer ${i + 1}` : "Answer"), ...paragraphs(text));
    return answer;
  }));
  $("reference").replaceChildren(...paragraphs(item.reference, item.point));
  $("labels").replaceChildren(...words.map((label, i) => {
    const button = make("button", "", "");
    button.append(make("kbd", "", String(i + 1)), ` ${label}`, make("small", "", (isPairs ? PAIRS : POINTS)[label]));
    button.setAttribute("aria-pressed", String(labels[item.id] === label));
    button.addEventListener("click", () => choose(label));
    return button;
  }));
  const done = items.filter((one) => one.id in labels).length;
  $("progress").value = done / n;
  $("count").textContent = `${at + 1} of ${n} · ${done} labelled`;
  $("who").textContent = by;
  window.scrollTo(0, 0);
}

function pressed(event) {
  if ($("item").hidden || event.ctrlKey || event.metaKey || event.altKey) return;
  const label = words[Number(event.key) - 1];
  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  if (label) choose(label);
  else if (event.key in steps) show(Math.min(Math.max(at + steps[event.key], 0), items.length - 1));
  else if (event.key === "u") undo();
  else if (event.key === "s") save();
  else return;
  event.preventDefault();
}

$("whole").open = isPairs;
$("total").textContent = isPairs ? `${items.length} pairs of answers` : `${items.length} points of references`;
$("name").addEventListener("submit", (event) => { event.preventDefault(); begin($("by").value); });
$("load").addEventListener("change", async () => load(await $("load").files[0].text()));
$("back").addEventListener("click", () => show(Math.max(at - 1, 0)));
$("next").addEventListener("click", () => show(Math.min(at + 1, items.length - 1)));
$("undo").addEventListener("click", undo);
$("save").addEventListener("click", save);
$("leave").addEventListener("click", () => { $("start").hidden = false; $("item").hidden = $("bar").hidden = true; });
document.addEventListener("keydown", pressed);
if (kept("")) begin(kept(""));
else $("by").focus();
