// Runs the script of a page of `ems label` with a page, a store and a download that only take notes.
// node label_page.js PAGE.html: reads steps as JSON from stdin, and prints what each of them shows.
const fs = require("node:fs");
const vm = require("node:vm");

const [, , path] = process.argv;
const html = fs.readFileSync(path, "utf8");
const data = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)[1];
const script = /<script>(.*?)<\/script>/s.exec(html)[1];
const store = new Map();
let saved = null;

class Node {
  constructor() { this.children = []; this.listeners = {}; this.attributes = {}; this.text = ""; this.value = ""; this.hidden = false; }
  get textContent() { return this.text + this.children.map((child) => child.textContent ?? child).join(""); }
  set textContent(text) { this.text = text; this.children = []; }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  focus() {}
  click() { if (this.download) saved = { name: this.download, text: blobs.at(-1) }; else this.listeners.click(); }
}

const blobs = [];

function open() {                       // the page as a browser opens it, with the store of before
  const nodes = {};
  const document = new Node();
  document.getElementById = (id) => (nodes[id] ??= new Node());
  document.createElement = () => new Node();
  nodes.data = new Node();
  nodes.data.textContent = data;
  nodes.start = new Node();
  nodes.item = new Node();
  nodes.item.hidden = true;
  const localStorage = { getItem: (key) => store.get(key) ?? null, setItem: (key, value) => store.set(key, value) };
  const window = { scrollTo() {} };
  const URL = { createObjectURL: () => "blob:", revokeObjectURL() {} };
  const Blob = class { constructor(parts) { blobs.push(parts.join("")); } };
  vm.runInNewContext(script, { document, localStorage, window, URL, Blob });
  return { document, nodes };
}

let page = open();
const actions = {
  open: () => { page = open(); },
  name: (by) => { page.document.getElementById("by").value = by; page.nodes.name.listeners.submit({ preventDefault() {} }); },
  key: (key) => page.document.listeners.keydown({ key, preventDefault() {} }),
  forget: () => store.clear(),
  load: async (text) => { page.nodes.load.files = [{ text: async () => text }]; await page.nodes.load.listeners.change(); },
};

async function main() {
  const shown = [];
  for (const [action, argument] of JSON.parse(fs.readFileSync(0, "utf8"))) {
    await actions[action](argument);
    const { count, who, point, notice, item } = page.nodes;
    const pressed = (page.nodes.labels?.children ?? []).filter((button) => button.attributes["aria-pressed"] === "true");
    shown.push({ count: count?.textContent ?? "", who: who?.textContent ?? "", point: point?.textContent ?? "",
      notice: notice?.textContent ?? "", isOpen: !item.hidden, pressed: pressed.map((button) => button.textContent), saved });
  }
  console.log(JSON.stringify(shown));
}

main();
