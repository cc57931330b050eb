// A query that the reader drags among six keys: scores, attention weights, and the context that follows.

const [LEFT, BOTTOM, RIGHT, TOP] = [-2.4, -1.8, 2.4, 3];  // the plane of queries and keys
const EDGE = .2;  // as near may a query come to it
const LONGEST = "Divided by √64, the scores lie so close together that no word gets more than 20% of the weight: √64 is meant for "
  + "64 numbers per vector, and these have two.";
const NOTE = "A score is a sum of d products, and such sums spread about √d times as wide as one product. Here d is 2.";
const said = new Sentence([LONGEST]);
const {words, keys, values} = data;
let query, d;

const quoted = word => `“${words[word]}”`;
const within = (number, low, high) => Math.min(high - EDGE, Math.max(low + EDGE, number));
const percent = weight => `${Math.round(100 * weight)}%`;
const largest = numbers => numbers.indexOf(Math.max(...numbers));

// As softmax(query keysᵀ / sqrt(d)) values.
function attend(query, d) {
  const scores = keys.map(key => dot(query, key) / Math.sqrt(d)), weights = softmax(scores);
  return {scores, weights, context: [0, 1].map(axis => dot(weights, values.map(value => value[axis])))};
}

function sentence({weights}) {
  const top = largest(weights), most = percent(weights[top]), root = d === 1 ? "Undivided" : `Divided by √${d}`;
  const cosines = keys.map(key => dot(query, key) / Math.hypot(...key) / (Math.hypot(...query) || 1)), near = largest(cosines);
  const usual = attend(query, 2).weights[top], angle = Math.round(Math.acos(Math.min(1, cosines[near])) * 180 / Math.PI);
  if (weights[top] < .21) return d > 2 && Math.hypot(...query) > .3
    ? `${root}, the scores lie so close together that no word gets more than ${most} of the weight: √${d} is meant for ${d} numbers per vector, and these have two.`
    : `So short a query can't choose: no word gets more than ${most} of the weight, and the context is close to the mean of the values.`;
  if (percent(usual) !== most) return `${root}, the scores lie ${d < 2 ? "further apart" : "closer together"}, and ${quoted(top)} gets ${most} of `
    + `the weight, where it would get ${percent(usual)} with √2.`;
  if (weights[top] > .85) return `${quoted(top)} gets ${most} of the weight, so the context all but lands on its value, and the others hardly count.`;
  if (top !== near) return `The key of ${quoted(near)} is nearest in direction, but that of ${quoted(top)} is longer: it has the larger score, and ${most} of the weight.`;
  return angle < 15 ? `The query points along the key of ${quoted(top)}, which gets ${most} of the weight and pulls the context its way.`
    : `The key of ${quoted(top)} comes nearest to the query, ${angle}° away: it gets ${most} of the weight and pulls the context its way.`;
}

const compare = new Plane("The query among the keys", [LEFT, BOTTOM, RIGHT, TOP]);
const origin = [0, 0], middle = [0, 1].map(axis => values.reduce((sum, value) => sum + value[axis], 0) / values.length);
compare.add("circle", {cx: compare.at(origin)[0], cy: compare.at(origin)[1], r: 2.5, class: "origin"});
const arrows = keys.map(() => compare.arrow("key"));
keys.forEach(key => compare.keepFree(origin, key));
keys.forEach((key, i) => compare.label(words[i], key, origin, 8));
const asked = compare.arrow("query"), name = compare.add("text", {class: "query"}, "query");
const handle = compare.add("g", {class: "handle", tabindex: 0, role: "slider", "aria-label": "Query: drag it, or press the arrow keys",
  "aria-valuemin": -180, "aria-valuemax": 180}, svg("circle", {r: 22, class: "halo"}), svg("circle", {r: 9}));

const blend = new Plane("The context among the values", [.01, .205, .55, .55]);
blend.polygon(data.hull, "hull");
const pulls = values.map(() => blend.add("line", {class: "pull"})), dots = values.map(() => blend.add("circle", {class: "value"}));
values.forEach(value => blend.keepFree(value, value));
values.forEach((value, i) => blend.label(words[i], value, middle, 13));
const diamond = blend.add("path", {d: "M0-9L9 0L0 9L-9 0Z", class: "context"}), result = blend.add("text", {class: "query"}, "context");

const rows = words.map(word => {
  const [score, weight] = [make("td"), make("td", {className: "bar"})];
  return {score, weight, element: make("tr", {}, make("th", {scope: "row", textContent: word}), score, weight)};
});
const head = make("tr", {}, ...["key", "score", "weight"].map(textContent => make("th", {scope: "col", textContent})));
const table = make("table", {className: "weigh"}, make("thead", {}, head), make("tbody", {}, ...rows.map(row => row.element)));

const own = words.map((word, i) => make("button", {type: "button", textContent: word, onclick: () => ask(data.queries[i])}));
const slider = make("input", {type: "range", id: "d", min: 0, max: data.divisors.length - 1, oninput: () => ask(query, data.divisors[slider.value])});
const divisor = make("output", {htmlFor: "d"});

// Shows what a query gets.
function ask(to, by = d) {
  query = [within(to[0], LEFT, RIGHT), within(to[1], BOTTOM, TOP)];
  d = by;
  const {scores, weights, context} = attend(query, d);
  arrows.forEach((arrow, i) => compare.lay(arrow, keys[i], 1.5 + 9 * weights[i]));
  compare.lay(asked, query, 4);
  const [x, y] = compare.at(query), [toX, toY] = blend.at(context);
  set(handle, {transform: `translate(${x} ${y})`, "aria-valuenow": Math.round(Math.atan2(query[1], query[0]) * 180 / Math.PI),
    "aria-valuetext": query.map(signed).join(", ")});
  set(name, {x: x + (x < 60 || x > 150 && x < 240 ? 36 : -36), y: y + 5});
  rows.forEach((row, i) => {
    row.score.textContent = signed(scores[i]);
    row.weight.textContent = percent(weights[i]);
    row.weight.style.setProperty("--weight", weights[i]);
    const [cx, cy] = blend.at(values[i]);
    set(pulls[i], {x1: cx, y1: cy, x2: toX, y2: toY, "stroke-width": 10 * weights[i]});
    set(dots[i], {cx, cy, r: 3 + 9 * Math.sqrt(weights[i])});
  });
  set(diamond, {transform: `translate(${toX} ${toY})`});
  set(result, {x: toX, y: toY + 24});
  own.forEach((button, i) => button.setAttribute("aria-pressed", query.every((number, axis) => number === data.queries[i][axis])));
  slider.value = data.divisors.indexOf(d);
  divisor.textContent = d === 1 ? "√1 = 1, undivided" : `√${d} = ${+Math.sqrt(d).toFixed(2)}`;
  slider.setAttribute("aria-valuetext", divisor.textContent);
  said.say(sentence({weights}));
  whenAtRest(said);
  address.set(`${query.map(number => +number.toFixed(4))}/${d}`);
}

compare.element.addEventListener("click", event => ask(compare.under(event)));
drag(handle, event => ask(compare.under(event)));
handle.addEventListener("keydown", event => {
  const [x, y] = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key] ?? [], step = event.shiftKey ? .5 : .1;
  if (x === undefined) return;
  event.preventDefault();
  ask([query[0] + x * step, query[1] + y * step]);
});

const part = (title, kind, ...children) => make("section", {className: kind}, make("h2", {}, ...prose(title)), ...children);
const choices = make("div", {className: "choices"}, make("div", {className: "examples"}, make("span", {textContent: "Take the query of"}), ...own),
  make("label", {htmlFor: "d", textContent: "Divide the scores by "}, divisor), slider, make("p", {className: "note", textContent: NOTE}));
const planes = make("div", {className: "planes"}, part("Compare: drag the query", "plane-of-keys", compare.element), part("Weigh: softmax", "weights", table), choices,
  part("Mix: the context among the values", "plane-of-values", blend.element));
begin(said.element, planes);
const open = () => {
  const [, x, y, by] = /^(-?[\d.]+),(-?[\d.]+)\/(\d+)$/.exec(address.get()) ?? [];
  const known = data.divisors.includes(Number(by));
  ask(known ? [Number(x), Number(y)] : data.queries[data.first], known ? Number(by) : 2);
};
addEventListener("hashchange", open);
open();
