// A query that the reader drags among the keys of a head: scores, attention weights, and the context that follows.
// Queries and keys of any width are drawn in a plane for each word, which holds its query and shows its scores exactly.

const {words, planes, values, divisors, width, random} = data;
const LONGEST = `Divided by √64, the scores lie so close together that no word gets more than 20% of the weight: √64 is meant for `
  + `64 numbers per vector, and these have ${width}.`;
const NOTE = `A dot product is a sum of d products, and varies about √d times as much as one of them, because their variances add up. Here d is ${width}; below it is yours to choose.`
  + (width === 2 ? "" : " The plane contains the word's query and the direction across it in which the keys vary most. Every score in it is exact: the rest of a key adds nothing.");
const said = new Sentence([LONGEST]);
let word, keys, query, d, sides, compare, arrows, asked, name, handle;  // the keys are those that the word may see

const quoted = number => `“${words[number]}”`;
const percent = weight => `${Math.round(100 * weight)}%`;
const largest = numbers => numbers.indexOf(Math.max(...numbers));

// The box around points, with room for labels: [left, bottom, right, top], `high` times as high as wide.
function box(points, high) {
  const ends = [0, 1].map(axis => points.map(point => point[axis])).map(numbers => [Math.min(...numbers), Math.max(...numbers)]);
  const [across, up] = ends.map(([low, most]) => most - low), half = .65 * Math.max(across, up / high), [x, y] = ends.map(([low, most]) => (low + most) / 2);
  return [x - half, y - half * high, x + half, y + half * high];
}
const origin = [0, 0];

// A query may not come nearer to the edge than this.
const within = to => to.map((number, axis) => {
  const edge = (sides[2] - sides[0]) / 24;
  return Math.min(sides[axis + 2] - edge, Math.max(sides[axis] + edge, number));
});

// As softmax(query keysᵀ / sqrt(d)) values.
function attend(query, d) {
  const scores = keys.map(key => dot(query, key) / Math.sqrt(d)), weights = softmax(scores);
  return {scores, weights, context: [0, 1].map(axis => sum(weights.map((weight, i) => weight * values[i][axis])))};
}

function sentence({weights}) {
  const top = largest(weights), most = percent(weights[top]), root = d === 1 ? "Undivided" : `Divided by √${d}`, even = 1.25 / weights.length;
  const cosines = keys.map(key => dot(query, key) / Math.hypot(...key) / (Math.hypot(...query) || 1)), near = largest(cosines);
  const usual = attend(query, width).weights[top];
  if (weights.length === 1) return `${quoted(top)} sees nothing but itself, so it gets all of the weight, whatever the query.`;
  if (weights[top] < even) return d > width && usual >= even
    ? `${root}, the scores lie so close together that no word gets more than ${most} of the weight: √${d} is meant for ${d} numbers per vector, and these have ${width}.`
    : `No key stands out for this query: no word gets more than ${most} of the weight, and the context is close to the mean of the values.`;
  if (percent(usual) !== most) return `${root}, the scores lie ${d < width ? "further apart" : "closer together"}, and ${quoted(top)} gets ${most} of `
    + `the weight instead of the ${percent(usual)} that it gets with √${width}.`;
  if (weights[top] > .85) return `${quoted(top)} gets ${most} of the weight, so the context all but lands on its value, and the other words hardly count.`;
  if (top !== near && width === 2) return `The key of ${quoted(near)} is nearest in direction, but that of ${quoted(top)} is longer: it has the larger score, and ${most} of the weight.`;
  return `The key of ${quoted(top)} reaches furthest along the query: it gets ${most} of the weight and pulls the context its way.`;
}

const middle = [0, 1].map(axis => sum(values.map(value => value[axis])) / values.length);
const blend = new Plane("The context among the values", box(values, .64));
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

const own = words.map((word, i) => make("button", {type: "button", textContent: word, onclick: () => take(i)}));
const slider = new Slider("Divide the dot products by", divisors.length - 1, number => ask(query, divisors[number]));
const stage = make("div");

// Draws the keys that a word sees, and asks with its query, or with one in the same plane.
function take(number, to = planes[number].query, by = d) {
  [word, keys] = [number, planes[number].keys];
  sides = box([origin, ...(width === 2 ? planes : [planes[number]]).flatMap(plane => [plane.query, ...plane.keys])], 1);  // of width 2 there is one plane
  compare = new Plane("The query among the keys", sides);
  const [cx, cy] = compare.at(origin);
  compare.add("circle", {cx, cy, r: 2.5, class: "origin"});
  arrows = keys.map(() => compare.arrow("key"));
  keys.forEach(key => compare.keepFree(origin, key));
  keys.forEach((key, i) => compare.label(words[i], key, origin, 8));
  [asked, name] = [compare.arrow("query"), compare.add("text", {class: "query"}, "query")];
  handle = compare.add("g", {class: "handle", tabindex: 0, role: "slider", "aria-label": "Query: drag it, or press the arrow keys",
    "aria-valuemin": -180, "aria-valuemax": 180}, svg("circle", {r: 22, class: "halo"}), svg("circle", {r: 9}));
  const here = compare;
  compare.element.addEventListener("click", event => ask(here.under(event)));
  drag(handle, event => ask(here.under(event)));
  handle.addEventListener("keydown", event => {
    const [x, y] = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key] ?? [], step = event.shiftKey ? .5 : .1;
    if (x === undefined) return;
    event.preventDefault();
    ask([query[0] + x * step, query[1] + y * step]);
  });
  stage.replaceChildren(compare.element);
  ask(to, by);
}

// Shows what a query gets.
function ask(to, by = d) {
  [query, d] = [within(to), by];
  const {scores, weights, context} = attend(query, d);
  arrows.forEach((arrow, i) => compare.lay(arrow, keys[i], 1.5 + 9 * weights[i]));
  compare.lay(asked, query, 4);
  const [x, y] = compare.at(query), [toX, toY] = blend.at(context);
  set(handle, {transform: `translate(${x} ${y})`, "aria-valuenow": Math.round(Math.atan2(query[1], query[0]) * 180 / Math.PI),
    "aria-valuetext": query.map(signed).join(", ")});
  set(name, {x: x + (x < 60 || x > 150 && x < 240 ? 36 : -36), y: y + 5});
  rows.forEach((row, i) => {
    const seen = i < keys.length, weight = seen ? weights[i] : 0, [cx, cy] = blend.at(values[i]);
    row.score.textContent = seen ? signed(scores[i]) : "hidden";
    row.weight.textContent = percent(weight);
    row.weight.style.setProperty("--weight", weight);
    set(pulls[i], {x1: cx, y1: cy, x2: toX, y2: toY, "stroke-width": 10 * weight});
    set(dots[i], {cx, cy, r: 3 + 9 * Math.sqrt(weight)});
  });
  set(diamond, {transform: `translate(${toX} ${toY})`});
  set(result, {x: toX, y: toY + 24});
  own.forEach((button, i) => button.setAttribute("aria-pressed", i === word && query.every((number, axis) => number === planes[i].query[axis])));
  slider.set(divisors.indexOf(d), d === 1 ? "√1 = 1, undivided" : `√${d} = ${+Math.sqrt(d).toFixed(2)}`);
  said.say(sentence({weights}));
  whenAtRest(said);
  address.set(`${query.map(number => +number.toFixed(4))}/${d}/${word}`);
}

// Random queries and keys of d numbers each: what becomes of their scores, undivided and divided.
const chance = number => number < .095 ? String(+number.toPrecision(1)) : number.toFixed(2);
const why = make("p"), ranks = make("tbody");
why.setAttribute("aria-live", "polite");
const sizes = new Choice("Numbers in each query and key: d", random.map(({d}) => d), number => draw(number));
function draw(number) {
  const {d, spread, weights, slopes} = random[number], small = 2 * slopes[0] > slopes[1];
  sizes.press(number);
  why.replaceChildren(...prose(`A dot product adds up ${d} products, and those of random queries and keys have a spread of ${spread[0].toFixed(1)}, about √${d}. Softmax then gives one key of six ${percent(weights[0][0])} `
    + `of the weight. Gradients pass softmax by the slopes w(1 − w), which ${small ? `sum to ${chance(slopes[0])}` : `*sum to only ${chance(slopes[0])}*`} on average here, so a query that looks at the wrong key ${small ? "can still learn" : "learns slowly or not at all"} to look elsewhere. `
    + `Divided by √${d} = ${+Math.sqrt(d).toFixed(2)}, the spread is ${spread[1].toFixed(1)}, as for every d, and the slopes sum to ${chance(slopes[1])}.`));
  ranks.replaceChildren(...weights[0].map((_, rank) => make("tr", {}, make("th", {scope: "row", textContent: ["largest", "second", "third", "fourth", "fifth", "smallest"][rank]}),
    ...weights.map(each => {
      const bar = make("td", {className: "bar", textContent: percent(each[rank])});
      styled(bar, {color: "var(--ink)"}).style.setProperty("--weight", each[rank]);
      return bar;
    }))), ...[["spread of the scores", spread.map(one => one.toFixed(1))], ["Σ w(1 − w)", slopes.map(chance)]].map(([name, numbers]) =>
    make("tr", {}, make("th", {scope: "row", textContent: name}), ...numbers.map(textContent => make("td", {textContent})))));
}

const part = (title, kind, ...children) => make("section", {className: kind}, make("h2", {}, ...prose(title)), ...children);
const choices = make("div", {className: "choices"}, make("div", {className: "examples"}, make("span", {textContent: "Take the query of"}), ...own),
  slider.element, make("p", {className: "note", textContent: NOTE}));
const columns = make("tr", {}, ...["weight", "undivided", "divided"].map(textContent => make("th", {scope: "col", textContent})));
begin(said.element, make("div", {className: "planes"}, part("Compare: drag the query", "plane-of-keys", stage), part("Weigh: softmax", "weights", table), choices,
  part("Mix: the context among the values", "plane-of-values", blend.element)),
part("Why divide by √d? Random queries and keys", "", make("div", {className: "painted"}, make("div", {}, sizes.element, why),
  make("table", {className: "weigh"}, make("thead", {}, columns), ranks)),
make("p", {className: "note", textContent: `Each number is drawn with a spread of 1. The weights w are means over ${random[0].pairs.toLocaleString("en")} queries with six keys each; so is the sum Σ of the slopes.`})));
draw(random.length - 2);
onArrows(step => ask([query[0] + step / 10, query[1]]));
address.follow(() => {
  const [, x, y, by, at = data.first] = /^(-?[\d.]+),(-?[\d.]+)\/(\d+)(?:\/(\d+))?$/.exec(address.get()) ?? [];
  if (divisors.includes(Number(by)) && planes[at]) take(Number(at), [Number(x), Number(y)], Number(by));
  else take(data.first, undefined, width);
});
