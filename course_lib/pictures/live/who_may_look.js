// A mask that the reader paints: the weights under it, what leaks from later words, and rows that are left with nothing.

const {words, scores, masks, meaning} = data, count = words.length, all = [...words.keys()];
const READERS = {
  keep: {name: "True = may look", as: "as `F.scaled_dot_product_attention` and this course read it"},
  hidden: {name: "True = hidden", as: "as `masked_fill` and `nn.MultiheadAttention` read it"},
};
const HOW = "A row is a query, the word that looks; a column is a key, a word that is looked at. Paint: press a cell or drag over several, or use the arrow keys and the space bar. *◥* marks a cell that looks ahead.";
const said = new Sentence(["Read as “True = hidden”, *“it” may look at nobody*, so softmax turns that row into nan, and *15 of the 15 cells above "
  + "the diagonal look ahead*: “Dream” takes 100% of its mix from words that come after it."]);
let mask, reader, brush;

const quoted = (list, and = "and", self) => list.map(word => word === self ? "itself" : `“${words[word]}”`).join(", ").replace(/, ([^,]*)$/, ` ${and} $1`);
// As `weight_color` in Python: between two shades.
const shade = weight => { const at = 5 * weight, below = Math.min(4, Math.floor(at)); return `color-mix(in srgb, var(--shade-${below + 1}) ${100 * (at - below)}%, var(--shade-${below}))`; };
const mayLook = (query, key) => Boolean(mask[query][key]) === (reader === "keep");

// The attention weights of all rows; a row that may look at nothing is nan.
const attend = () => scores.map((row, query) => softmax(row.map((score, key) => mayLook(query, key) ? score : -Infinity)));

function sentence(weights) {
  const empty = all.filter(query => !all.some(key => mayLook(query, key))), unseen = all.filter(key => !all.some(query => mayLook(query, key)));
  const ahead = weights.map((row, query) => all.filter(key => key > query && mayLook(query, key))), leaks = sum(ahead.map(keys => keys.length));
  const taken = weights.map((row, query) => Number(sum(ahead[query].map(key => row[key])).toFixed(6))), most = taken.indexOf(Math.max(...taken.filter(Number.isFinite)));
  if (empty.length === count) return "*Nobody may look at anybody*: every score is −∞, and softmax turns all six rows into nan.";
  const parts = [];
  if (empty.length) parts.push(`*${quoted(empty)} may look at nobody*, so softmax turns ${empty.length > 1 ? "their rows" : "that row"} into nan`);
  else if (unseen.length) parts.push(`nobody looks at ${quoted(unseen, "or")}`);
  if (leaks) return `${[...parts, `*${leaks} of the 15 cells above the diagonal ${leaks === 1 ? "looks" : "look"} ahead*`].join(", and ")}: `
    + `${quoted([most])} takes ${Math.round(100 * taken[most])}% of its mix from ${ahead[most].length > 1 ? "words that come" : "a word that comes"} after it.`;
  if (parts.length) return `${parts}${empty.length ? ", and the other rows are fine" : ", and no word looks ahead"}.`;
  const hidden = all.map(query => all.filter(key => key <= query && !mayLook(query, key)).length), blind = hidden.lastIndexOf(Math.max(...hidden));
  return !hidden[blind] ? "No word looks ahead: each sees itself and all the words before it, so “Dream” can take its mix from itself alone."
    : `No word looks ahead, and some earlier ones are hidden too: ${quoted([blind])} looks only at ${quoted(all.filter(key => mayLook(blind, key)), "and", blind)}.`;
}

const cells = all.map(query => all.map(key => {
  const cell = make("td", {tabIndex: -1});
  for (const [name, value] of [["role", "gridcell"], ["data-query", query], ["data-key", key]]) cell.setAttribute(name, value);
  return cell;
}));
const names = words.map(word => make("th", {scope: "row", textContent: word}));
const axes = ["query ↓", "key →"].map((textContent, i) => make(i ? "th" : "td", {textContent, colSpan: i ? count : 1, className: "note"}));
const grid = make("table", {className: "mask"}, make("thead", {}, make("tr", {}, make("td"), axes[1]), make("tr", {}, axes[0], ...words.map(word => make("th", {scope: "col", textContent: word})))),
  make("tbody", {}, ...all.map(query => make("tr", {}, names[query], ...cells[query]))));
grid.setAttribute("role", "grid");
grid.setAttribute("aria-label", "Mask: a row for each query, a column for each key");
cells[0][0].tabIndex = 0;

const written = keep => keep.map(row => row.map(value => reader === "keep" ? value : 1 - value));  // what may look, in the convention
const presets = Object.keys(masks).map(name => make("button", {type: "button", textContent: name, onclick: () => show(written(masks[name]))}));
const inverse = make("button", {type: "button", textContent: "~ invert", onclick: () => show(mask.map(row => row.map(value => 1 - value)))});
const readers = Object.entries(READERS).map(([name, {name: textContent}]) => make("button", {type: "button", textContent, onclick: () => show(mask, name)}));
const note = make("p", {className: "note"}), meant = make("p", {className: "note"});

// Shows what a mask does, read in one of the two ways.
function show(to, by = reader) {
  mask = to.map(row => [...row]);
  reader = by;
  const weights = attend();
  cells.flat().forEach(cell => {
    const {query, key} = cell.dataset, weight = weights[query][key], looks = mayLook(query, key), leaks = looks && key > query, letter = mask[query][key] ? "True" : "False";
    const empty = Number.isNaN(weight);
    cell.className = [looks ? "" : "hidden", leaks ? "ahead" : "", empty ? "empty" : ""].join(" ");
    cell.style.background = looks && !empty ? shade(weight) : "";
    cell.replaceChildren(make("small", {textContent: letter[0]}), empty ? "nan" : looks ? weight.toFixed(2).slice(weight < .995 ? 1 : 0) : "");
    cell.setAttribute("aria-label", `${words[query]} at ${words[key]}: ${letter}, ${empty ? "nan" : looks ? `weight ${weight.toFixed(2)}` : "hidden"}${leaks ? ", looks ahead" : ""}`);
  });
  names.forEach((name, query) => name.classList.toggle("wrong", Number.isNaN(weights[query][0])));
  presets.forEach(button => button.setAttribute("aria-pressed", String(written(masks[button.textContent])) === String(mask)));
  readers.forEach((button, i) => button.setAttribute("aria-pressed", Object.keys(READERS)[i] === reader));
  note.replaceChildren(...prose(`${READERS[reader].name}, ${READERS[reader].as}. T and F stand for True and False.${
    reader === "keep" && names.some(name => name.className) ? " For an empty row, softmax gives nan, and that function puts zeros in its place." : ""}`));
  meant.textContent = meaning[presets.find(button => button.getAttribute("aria-pressed") === "true")?.textContent] ?? "";
  const text = sentence(weights), start = reader === "keep" ? "" : "Read as “True = hidden”, ";
  said.say(start + (start ? text.replace(/^\*?N/, letter => letter.toLowerCase()) : text.replace(/^\*?n/, letter => letter.toUpperCase())));
  whenAtRest(said);
  address.set(`${mask.map(row => row.join("")).join("-")}/${reader}`);
}

function paint(cell, value) {
  const {query, key} = cell.dataset;
  if (mask[query][key] === value) return;
  mask[query][key] = value;
  show(mask);
}

function focus(cell) {
  for (const other of cells.flat()) other.tabIndex = other === cell ? 0 : -1;
  cell.focus();
}

const under = ({clientX, clientY}) => document.elementFromPoint(clientX, clientY)?.closest("[data-key]");
grid.addEventListener("pointerdown", event => {
  const cell = under(event);
  if (!cell) return;
  brush = 1 - mask[cell.dataset.query][cell.dataset.key];
  paint(cell, brush);
  focus(cell);
});
drag(grid, event => {
  const cell = under(event);
  if (cell) paint(cell, brush);
});
grid.addEventListener("keydown", event => {
  const {query, key} = event.target.dataset, [down, across] = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key] ?? [];
  if (!key || (event.key !== " " && event.key !== "Enter" && down === undefined)) return;
  event.preventDefault();
  if (down === undefined) paint(event.target, 1 - mask[query][key]);
  else focus(cells[+query + down]?.[+key + across] ?? event.target);
});

const side = make("div", {className: "side"}, make("h2", {textContent: "Read the table as"}), make("div", {className: "examples"}, ...readers), note,
  make("h2", {textContent: "Fill it, in that convention, with"}), make("div", {className: "examples"}, ...presets), meant,
  make("h2", {textContent: "Or turn T into F, and F into T"}), make("div", {className: "examples"}, inverse));
begin(said.element, make("div", {className: "painted"}, make("div", {}, grid, make("p", {className: "note"}, ...prose(HOW))), side));
address.follow(() => {
  const [, rows, by] = /^([01]{6}(?:-[01]{6}){5})\/(keep|hidden)$/.exec(address.get()) ?? [];
  show(rows ? rows.split("-").map(row => [...row].map(Number)) : masks[data.first], by ?? "keep");
});
