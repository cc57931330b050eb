// What every figure shares: sentences, steps by buttons and keys, an address, and a stage on which cells move between tables.

const data = JSON.parse(document.getElementById("data").textContent);
const figure = document.getElementById("figure");
const framed = self !== top;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function styled(element, style) {
  Object.assign(element.style, style);
  return element;
}

// A sentence as nodes: `code`, and what is wrong between stars.
function prose(text) {
  return text.split(/(`[^`]*`|\*[^*]+\*)/).filter(Boolean).map(part => {
    if (part[0] === "`") return make("code", {textContent: part.slice(1, -1)});
    return part[0] === "*" && part.length > 1 ? make("strong", {textContent: part.slice(1, -1)}) : part;
  });
}

// The sentence of a state, which a screen reader says when it changes; it keeps room for the longest of `all`.
class Sentence {
  constructor(all = []) {
    this.now = make("p");
    this.now.setAttribute("role", "status");
    this.now.setAttribute("aria-live", "polite");
    const others = all.map(text => make("p", {className: "room"}, ...prose(text)));
    others.forEach(other => other.setAttribute("aria-hidden", true));
    this.element = make("div", {id: "said"}, this.now, ...others);
  }
  say(text, ...more) {
    if (text === this.text) return;
    this.text = text;
    this.now.replaceChildren(...prose(text), ...more);
  }
}

// The left and right arrow keys, wherever nothing else takes them.
function onArrows(turn) {
  addEventListener("keydown", event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, textarea, select")) return;
    if (turn(step) !== false) event.preventDefault();
  });
}

// Buttons for the steps, and the left and right arrow keys.
class Steps {
  constructor(names, show) {
    Object.assign(this, {show, now: 0, names});
    this.buttons = names.map((name, i) => make("button", {type: "button", onclick: () => this.go(i)}, ...prose(name)));
    this.back = make("button", {type: "button", className: "turn", textContent: "←", ariaLabel: "Back", onclick: () => this.go(this.now - 1)});
    this.next = make("button", {type: "button", className: "turn next", textContent: "Next →", onclick: () => this.go(this.now + 1)});
    this.element = make("nav", {id: "steps"}, make("div", {className: "names"}, ...this.buttons), make("div", {className: "turns"}, this.back, this.next));
    this.element.setAttribute("aria-label", "Steps");
    onArrows(step => this.element.isConnected && this.go(this.now + step));
  }
  go(number) {
    this.now = Math.max(0, Math.min(this.names.length - 1, number));
    this.buttons.forEach((button, i) => i === this.now ? button.setAttribute("aria-current", "step") : button.removeAttribute("aria-current"));
    [this.back, this.next].forEach((button, i) => button.setAttribute("aria-disabled", this.now === (i ? this.names.length - 1 : 0)));
    this.show(this.now);
  }
}

// The part of the address after #. A figure in a notebook has no address of its own.
const address = {
  get: () => decodeURIComponent(location.hash.slice(1)),
  set(text) {
    clearTimeout(this.waiting);  // browsers refuse more than some changes a second
    if (location.protocol !== "about:") this.waiting = setTimeout(() => history.replaceState(null, "", `#${encodeURIComponent(text)}`), 200);
  },
  follow(open) {
    addEventListener("hashchange", open);
    open();
  },
};

// Tables of cells, and below them the row of memory, on which the number to follow is chosen.
// A table is {title, rows: [{label, mark, wrong, cells}]}; a cell is the number of an element, which `data.owners` knows the word and head of.
class Stage {
  constructor(elements) {
    this.cells = elements.map(element => this.cell(element));
    this.cells.forEach((cell, i) => { cell.style.setProperty("--after", i); });  // one sets out after the other
    this.slots = elements.map(element => this.cell(element));  // as the cells, by their element
    this.labels = make("div", {className: "labels"});
    this.tables = make("div", {className: "tables"}, this.labels, ...this.cells);
    this.tables.setAttribute("role", "img");
    this.brackets = make("div", {className: "brackets"});
    this.memory = make("div", {className: "memory", tabIndex: 0}, ...this.slots, this.brackets);
    this.note = make("p", {className: "note"});
    this.path = make("p", {className: "note path"});
    for (const [name, value] of [["role", "slider"], ["aria-label", "Number to follow, by its slot of memory"], ["aria-valuemin", 0],
      ["aria-valuemax", elements.length - 1]]) this.memory.setAttribute(name, value);
    this.memory.addEventListener("keydown", event => {
      const last = elements.length - 1, slot = this.order.indexOf(this.chosen);
      const to = {ArrowRight: slot + 1, ArrowUp: slot + 1, ArrowLeft: slot - 1, ArrowDown: slot - 1, Home: 0, End: last}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.follow(this.order[Math.max(0, Math.min(last, to))]);
    });
    this.element = make("div", {id: "stage"}, this.tables, this.note, this.memory, this.path);
    this.chosen = data.follow;
    Object.assign(this, {context: make("canvas").getContext("2d"), widths: new Map(), plans: new Map()});
    new ResizeObserver(([{contentRect: {width}}]) => {
      if (!this.shown || Math.floor(width) === this.width) return;
      [this.width, this.plans] = [Math.floor(width), new Map()];
      this.show(...this.shown);
    }).observe(this.element);
  }

  cell(element) {
    const cell = make("div", {className: `cell head${data.owners[element][1]}`, textContent: element, onclick: () => this.follow(element)});
    cell.dataset.element = element;
    return cell;
  }

  owner(element) {
    const [word, head] = data.owners[element];
    return `${data.words[word]}, head ${head}`;
  }

  widthOf(text, size = 14) {
    const key = `${size} ${text}`;
    if (!this.widths.has(key)) {
      this.context.font = `600 ${size}px system-ui, sans-serif`;
      this.widths.set(key, Math.ceil(this.context.measureText(text).width));
    }
    return this.widths.get(key);
  }

  // Shows tables and what lies in memory; `others` are tables that get room as well, so that the memory below stays where it is.
  show(tables, order, note, others = []) {
    this.shown = [tables, order, note, others];
    this.order = order;
    this.width ??= this.element.clientWidth;
    const plan = this.planned(tables), heights = others.map(other => this.planned(other).height);
    this.tables.style.height = `${Math.max(plan.height, ...heights)}px`;
    plan.at.forEach(([x, y], element) => place(this.cells[element], x, y, plan.size));
    this.labels.replaceChildren(...plan.labels.map(({x, y, text, kind, size}) => place(make("span", {className: kind, textContent: text}), x, y, size)));
    this.labels.classList.toggle("fresh", document.documentElement.classList.contains("moving"));
    this.tables.setAttribute("aria-label", tables.map(spoken).join(" "));
    this.note.replaceChildren(...prose(note));
    this.layMemory(tables);
    this.follow(this.chosen);
  }

  planned(tables) {
    if (!this.plans.has(tables)) this.plans.set(tables, this.plan(tables));
    return this.plans.get(tables);
  }

  // Where each cell and label goes: tables side by side, as many as fit, each line of them in the middle. Where it is narrow,
  // a table has no row labels that the one beside it has already, and a mark stands in two lines.
  plan(tables) {
    const narrow = this.width < 560, size = narrow ? [this.width < 320 ? 24 : 27, 26] : [38, 32], [wide, high] = size.map(side => side + 3), font = narrow ? 13 : 14;
    const most = Math.max(1, Math.floor(this.width / wide)), gap = narrow ? 12 : 30;
    const mark = row => narrow ? row.mark.split(", ") : [row.mark], small = narrow ? 11 : 14;
    const boxes = tables.map(({title, rows}, number) => {
      const left = Math.max(0, ...rows.map(row => row.label ? this.widthOf(row.label, font) + 9 : 4));
      const right = Math.max(0, ...rows.map(row => row.mark ? Math.max(...mark(row).map(part => this.widthOf(part, small))) + 9 : 0));
      const again = narrow && number && rows.every((row, r) => row.label === tables[0].rows[r]?.label);
      const columns = Math.min(most, 12, Math.max(...rows.map(row => row.cells.length)));
      const lines = rows.map(row => Math.ceil(row.cells.length / columns));
      const top = title ? 26 : 0;
      return {title, rows, left, columns, lines, top, spared: again ? left - 4 : 0, width: Math.max(left + columns * wide + right, this.widthOf(title ?? "", font + 1)),
        height: top + high * lines.reduce((a, b) => a + b, 0)};
    });
    const at = new Map(), labels = [], total = some => some.reduce((sum, box) => sum + box.width + gap - box.spared, some[0].spared - gap);
    let per = 1;  // tables side by side
    while (per < boxes.length && total(boxes.slice(0, per + 1)) <= this.width) per++;
    per = Math.ceil(boxes.length / Math.ceil(boxes.length / per));  // as many in each line
    let y = 4;
    for (let first = 0; first < boxes.length; first += per) {
      const line = boxes.slice(first, first + per);
      let x = Math.max(2, Math.floor((this.width - total(line)) / 2));
      for (const box of line) {
        const labelled = box === line[0] || !box.spared, left = x + (labelled ? box.left : 4), top = y + box.top;
        labels.push({x: left - 4, y: top - 4, text: "", kind: "box", size: [box.columns * wide + 5, box.height - box.top + 5]});
        if (box.title) labels.push({x: left, y: y - 2, text: box.title, kind: "title"});
        let rowTop = top;
        box.rows.forEach((row, r) => {
          if (row.label && labelled) labels.push({x, y: rowTop + high / 2 - 13, text: row.label, kind: "row", size: [box.left - 9, 24]});
          row.cells.forEach((element, i) => at.set(element, [left + (i % box.columns) * wide, rowTop + Math.floor(i / box.columns) * high]));
          if (row.mark) labels.push({x: left + box.columns * wide + 7, y: rowTop + (mark(row)[1] ? 0 : high / 2 - 13), text: mark(row).join("\n"), kind: `mark${row.wrong ? " wrong" : ""}${mark(row)[1] ? " two" : ""}`});
          rowTop += high * box.lines[r];
        });
        x += box.width + gap - (labelled ? 0 : box.spared);
      }
      y += Math.max(...line.map(box => box.height)) + 18;
    }
    return {at, labels, height: y - 8, size};
  }

  // The row of memory, in two lines where it is narrow, and below it which table, or which row of a single table, reads which slots.
  layMemory(tables) {
    const lines = this.width < 560 ? 2 : 1, per = Math.ceil(this.order.length / lines), wide = Math.floor(Math.min(34, this.width / per)), high = 26;
    const start = Math.max(0, Math.floor((this.width - per * wide) / 2)), spot = slot => [start + (slot % per) * wide, Math.floor(slot / per) * (high + 26)];
    this.order.forEach((element, slot) => place(this.slots[element], ...spot(slot), [wide - 2, high]));
    this.memory.style.height = `${lines * (high + 26)}px`;
    const reader = new Map();
    for (const table of tables) for (const row of table.rows) for (const element of row.cells) reader.set(element, tables.length > 1 ? table.title : row.label);
    const runs = [];
    this.order.forEach((element, slot) => {
      const last = runs.at(-1), name = reader.get(element);
      if (last?.name === name && slot % per) last.count++;
      else runs.push({name, slot, count: 1});
    });
    const fitting = runs.every(run => run.name && this.widthOf(run.name, 12) <= run.count * wide);
    this.brackets.replaceChildren(...(fitting ? runs : []).map(run => {
      const [x, y] = spot(run.slot);
      return place(make("span", {textContent: run.name}), x, y + high + 2, [run.count * wide - 2, 18]);
    }));
  }

  // Outlines one number in the tables and in memory, and says where it is.
  follow(element) {
    this.chosen = element;
    const slot = this.order.indexOf(element);
    for (const cells of [this.cells, this.slots]) cells.forEach((cell, i) => cell.classList.toggle("chosen", i === element));
    const text = `${element} is a number of ${this.owner(element)}.`;
    this.memory.setAttribute("aria-valuenow", slot);
    this.memory.setAttribute("aria-valuetext", text);
    this.path.textContent = `Outlined: ${text} Click another one, or press the arrow keys on the memory.`;
  }
}

function place(element, x, y, size) {
  element.style.transform = `translate(${x}px, ${y}px)`;
  if (size) [element.style.width, element.style.height] = size.map(side => `${side}px`);
  return element;
}

// A table in words, for those who don't see it.
function spoken({title, rows}) {
  const lines = rows.map(row => `${row.label ? `${row.label}: ` : ""}${row.cells.join(" ")}${row.wrong ? ` (${row.mark.replace("✗", "really")})` : ""}`);
  return `${title ? `${title}: ` : ""}${lines.join("; ")}.`;
}

// Buttons of which one is pressed.
class Choice {
  constructor(legend, names, choose) {
    this.buttons = names.map((name, i) => make("button", {type: "button", onclick: () => choose(i)}, name));
    this.element = make("fieldset", {className: "goals"}, make("legend", {textContent: legend}), ...this.buttons);
  }
  press(number) {
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === number));
  }
}

// A slider below its name and the value in words.
class Slider {
  constructor(name, last, change, first = 0) {
    this.input = make("input", {type: "range", min: first, max: last, ariaLabel: name, oninput: () => change(Number(this.input.value))});
    this.words = make("span");
    this.element = make("label", {className: "slide"}, make("span", {textContent: name}), this.words, this.input);
  }
  set(value, words) {
    this.input.value = value;
    this.input.setAttribute("aria-valuetext", words);
    this.words.textContent = words;
  }
}

// The theme that the reader of the book has chosen; in a sandbox nothing is stored, and a notebook names its own theme.
function followTheme() {
  let theme;
  try { theme = localStorage.getItem("theme"); } catch { return; }
  if (theme) document.documentElement.dataset.theme = theme;
}

// Puts a figure on the page, which then does without its picture, and tells the page around it how high it is.
function begin(...parts) {
  followTheme();
  addEventListener("storage", followTheme);
  figure.append(...parts);
  document.documentElement.classList.add("on");
  document.documentElement.classList.toggle("framed", framed);
  requestAnimationFrame(() => requestAnimationFrame(() => document.documentElement.classList.add("moving")));  // not into the first places
  if (!framed) return;
  const tell = () => parent.postMessage({height: document.documentElement.offsetHeight}, "*");
  addEventListener("message", tell);  // it is asked once: a frame that nobody sees yet observes no sizes
  new ResizeObserver(tell).observe(document.documentElement);
}

const three = number => number.toLocaleString("en", {maximumSignificantDigits: 3});
function inUnits(number, [unit, ...larger], each = 1000) {
  return number < each - .5 || !larger.length ? `${three(number)} ${unit}`.trim() : inUnits(number / each, larger, each);
}
const inBytes = bytes => inUnits(bytes, ["bytes", "KiB", "MiB", "GiB"], 1024);
const sum = numbers => numbers.reduce((a, b) => a + b, 0);
const dot = (a, b) => sum(a.map((number, i) => number * b[i]));
const signed = number => number.toFixed(2).replace("-", "−");

// As PyTorch's softmax of one row: where all scores are -Infinity it is nan.
function softmax(scores) {
  const largest = Math.max(...scores), powers = scores.map(score => Math.exp(score - largest)), all = sum(powers);
  return powers.map(power => power / all);
}

// Calls `move` with each event of a pointer that has taken hold of an element.
function drag(element, move) {
  element.addEventListener("touchstart", event => event.preventDefault());  // or the page scrolls: SVG takes no touch-action
  element.addEventListener("pointerdown", event => {
    if (event.button) return;
    element.setPointerCapture(event.pointerId);
    const end = () => element.removeEventListener("pointermove", move);
    element.addEventListener("pointermove", move);
    for (const name of ["pointerup", "pointercancel"]) element.addEventListener(name, end, {once: true});
  });
}

// A sentence that changes with each pixel of a drag is said once it rests.
function whenAtRest({now}) {
  now.setAttribute("aria-busy", true);
  clearTimeout(now.resting);
  now.resting = setTimeout(() => now.setAttribute("aria-busy", false), 500);
}
