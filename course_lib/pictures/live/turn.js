// A query and a key, whose pairs of numbers are turned by their positions.

const half = data.query.length / 2, pairs = [...Array(half).keys()], bases = Object.values(data.bases);
const rates = base => pairs.map(pair => base ** (-pair / half));  // radians a token
const inPairs = vector => pairs.map(pair => [vector[pair], vector[pair + half]]);
const degrees = radians => radians * 180 / Math.PI;
const state = {query: 0, key: 0, base: bases[0], length: data.lengths[0]};

// As `apply_rotary` with the row of `rotary_table` for this position.
function rotated(vector, position, base) {
  const turned = rates(base).map((rate, pair) => {
    const [cos, sin] = [Math.cos(position * rate), Math.sin(position * rate)], [first, second] = [vector[pair], vector[pair + half]];
    return [first * cos - second * sin, second * cos + first * sin];
  });
  return [...turned.map(([first]) => first), ...turned.map(([, second]) => second)];
}

// What each pair adds to the score.
function parts(query, key) {
  return pairs.map(pair => query[pair] * key[pair] + query[pair + half] * key[pair + half]);
}
const SAYS = {
  start: "Each pair of numbers in a head is one arrow on a dial: the later a word comes in the text, the further its arrows turn.",
  apart: "Only one has moved: the angle between the two arrows on each dial changes, most of all in the fastest pair, and the score changes with it.",
  together: "Both have moved: all arrows turn, but the angle between the two on each dial stays the same, and so does the score.",
  same: "At the same position, both are turned by the same angles, and the score is what it was before any turn.",
  round: "With this base and length, {count} of {half} pairs can make a full turn, so only the others tell far from near.",
  all: "With this base and length, every pair can make a full turn, so no dial can tell far from near on its own.",
};
const said = new Sentence(Object.values(SAYS));
const dials = make("div", {className: "dials"}), scored = make("p", {className: "scored"});
const curve = make("div", {className: "curve"}), ends = make("p", {className: "note ends"});
const sliders = {
  query: new Slider("Query", 0, position => move(position, Math.min(state.key, position), "apart")),
  key: new Slider("Key", 0, position => move(Math.max(state.query, position), position, "apart")),
  both: new Slider("Both", 0, position => move(position + state.query - state.key, position, "together")),
};
const base = new Choice("Base", Object.keys(data.bases), number => set({base: bases[number]}));
const length = new Choice("Length of the text", data.lengths.map(count => `${count.toLocaleString("en")} tokens`), number => set({length: data.lengths[number]}));

// An arrow from the middle of a dial, in its own scale; the y axis points up.
function arrow([x, y], scale, kind) {
  const [tipX, tipY] = [x / scale, -y / scale], size = Math.hypot(tipX, tipY) || 1, [along, up] = [tipX / size * .2, tipY / size * .2];
  const tip = `M${tipX} ${tipY}L${tipX - along - up * .5} ${tipY - up + along * .5}L${tipX - along + up * .5} ${tipY - up - along * .5}Z`;
  const name = kind.startsWith("before") ? "" : `<text x="${tipX + along * 1.1}" y="${tipY + up * 1.1}">${kind[0]}</text>`;
  return `<g class="${kind}"><path d="M0 0L${tipX - along} ${tipY - up}"/><path class="tip" d="${tip}"/>${name}</g>`;
}

// The angle from the key's arrow to the query's, from -pi to pi, as a slice.
function slice(query, key) {
  const from = Math.atan2(key[1], key[0]), between = Math.atan2(key[0] * query[1] - key[1] * query[0], query[0] * key[0] + query[1] * key[1]);
  const at = angle => `${.5 * Math.cos(angle)} ${-.5 * Math.sin(angle)}`;
  return [between, `<path class="slice" d="M0 0L${at(from)}A.5 .5 0 0 ${between > 0 ? 0 : 1} ${at(from + between)}Z"/>`];
}

function drawDials(query, key) {
  const [before, other, queries, keys] = [data.query, data.key, query, key].map(inPairs), adds = parts(query, key), speed = rates(state.base);
  dials.innerHTML = pairs.map(pair => {
    const scale = Math.max(Math.hypot(...queries[pair]), Math.hypot(...keys[pair])) || 1, [between, drawn] = slice(queries[pair], keys[pair]);
    const rate = degrees(speed[pair]), rounded = rate < .1 ? rate.toPrecision(1) : rate.toFixed(1);
    const label = `Pair ${pair}: ${Math.abs(degrees(between)).toFixed(0)} degrees between query and key`;
    return `<div><svg viewBox="-1.3 -1.3 2.6 2.6" role="img" aria-label="${label}"><circle r="1"/>${drawn}`
      + arrow(before[pair], scale, "before query") + arrow(other[pair], scale, "before key") + arrow(keys[pair], scale, "key") + arrow(queries[pair], scale, "query")
      + `</svg><p><b>${signed(adds[pair])}</b><small>${rounded}°<br>a token</small></p></div>`;
  }).join("");
  scored.replaceChildren("Score ", make("b", {textContent: signed(sum(adds))}), `, the sum over ${half} pairs; a head of ${data.real.name} has ${data.real.pairs}`);
}

// The score at each distance; the dot is where we are.
function drawCurve() {
  const last = state.length - 1, of = `${state.base} ${state.length}`;
  if (curve.of !== of) {
    const {query, key} = data, speed = rates(state.base), along = parts(query, key);
    const across = pairs.map(pair => query[pair] * key[pair + half] - query[pair + half] * key[pair]);
    const scores = [...Array(state.length).keys()].map(distance =>  // query turned by distance, without its 4,096 vectors
      pairs.reduce((all, pair) => all + along[pair] * Math.cos(distance * speed[pair]) + across[pair] * Math.sin(distance * speed[pair]), 0));
    const most = Math.max(...scores.map(Math.abs));
    curve.points = scores.map((score, distance) => [Math.round(6000 * distance / last) / 10, Math.round(600 - 550 * score / most) / 10]);
    curve.of = of;
    curve.innerHTML = `<svg viewBox="0 0 600 120" preserveAspectRatio="none" aria-hidden="true"><path d="M0 60H600"/><path class="line" d="M${curve.points.join("L")}"/></svg><i></i>`;
    ends.replaceChildren(...["distance 0", "the score at each distance", last.toLocaleString("en")].map(textContent => make("span", {textContent})));
  }
  const [x, y] = curve.points[state.query - state.key];
  Object.assign(curve.lastChild.style, {left: `${x / 6}%`, top: `${y / 1.2}%`});
}

function show(says) {
  const {query, key, length: count} = state;
  drawDials(rotated(data.query, query, state.base), rotated(data.key, key, state.base));
  drawCurve();
  for (const [name, value, last] of [["query", query, count - 1], ["key", key, count - 1], ["both", key, count - 1 - query + key]]) {
    sliders[name].input.max = last;
    sliders[name].set(value, name === "both" ? `${query - key} apart` : `position ${value}`);
  }
  base.press(bases.indexOf(state.base));
  length.press(data.lengths.indexOf(count));
  said.say(says);
  address.set([query, key, state.base, count].join(","));
}

function move(query, key, how) {
  Object.assign(state, {query, key});
  show(query === key && how !== "together" ? SAYS.same : SAYS[how]);
}

function set(change) {
  Object.assign(state, change);
  state.query = Math.min(state.query, state.length - 1);
  state.key = Math.min(state.key, state.query);
  const count = rates(state.base).filter(rate => rate * (state.length - 1) >= 2 * Math.PI).length;
  show(count === half ? SAYS.all : SAYS.round.replace("{count}", count).replace("{half}", half));
}

begin(said.element, dials, scored, ...Object.values(sliders).map(slider => slider.element), curve, ends, base.element, length.element);
address.follow(() => {
  const [query, key, atBase, count] = address.get().split(",").map(Number);
  state.base = bases.includes(atBase) ? atBase : bases[0];
  state.length = data.lengths.includes(count) ? count : data.lengths[0];
  const inside = 0 <= key && key <= query && query < state.length;
  move(...(inside ? [query, key] : data.at), "start");
});
