// The keys of one query, tile by tile: a largest score, a sum and a weighted sum stand for all tiles before.

const {scores, values, sizes, whole} = data;
const MISTAKES = ["none", "largest score of each tile alone", "sum not corrected", "context not corrected"];
const state = {size: data.size, mistake: 0};
const SAYS = {
  first: "The first tile: its largest score is taken away before exp, so no power is larger than 1.",
  same: "No score here is larger than {largest}, so what was summed before stays as it is, and this tile's powers are added.",
  larger: "{largest} is larger than all before: both sums were made with {before} and shrink by exp({before} − {largest}) = {factor}.",
  end: "All keys have passed, and the context is what softmax over all scores gives: {whole}. No row of weights was ever stored.",
  wrong: "All keys have passed, and the context is {context} instead of {whole}: {why}.",
  lucky: "All keys have passed, and the context is right by luck: {why}, but nothing had to be corrected.",
};
const WHY = ["", "each tile took away its own largest score, so their powers are of different sizes",
  "the sum kept the powers of the tiles before as they were", "the weighted sum kept the powers of the tiles before as they were"];
const fixed = number => number.toFixed(3).replace("-", "−");
const said = new Sentence(Object.values(SAYS));
const keys = make("ol", {className: "slots tall"}), facts = make("dl", {className: "facts"}), holder = make("div");
keys.ariaLabel = "Keys of the query, each with its score and its value";
let steps;

// As `running` in tiles.py; `mistake` is one of three that don't correct what came before.
function running(scores, values, size, mistake = 0) {
  let largest = -Infinity, total = 0, weighted = 0;
  const found = [];
  for (let first = 0; first < scores.length; first += size) {
    const some = scores.slice(first, first + size), held = values.slice(first, first + size);
    const own = Math.max(...some), larger = mistake === 1 ? own : Math.max(largest, own);
    const factor = mistake === 1 ? 1 : Math.exp(largest - larger), powers = some.map(score => Math.exp(score - larger));
    total = total * (mistake === 2 ? 1 : factor) + sum(powers);
    weighted = weighted * (mistake === 3 ? 1 : factor) + dot(powers, held);
    found.push({largest: larger, before: largest, factor, total, weighted, context: weighted / total, powers});
    largest = larger;
  }
  return found;
}

function sentence(now, run) {
  const {largest, before, factor, context} = run[now];
  const filled = text => text.replaceAll("{largest}", largest).replaceAll("{before}", before).replace("{factor}", fixed(factor))
    .replace("{context}", fixed(context)).replace("{whole}", fixed(whole)).replace("{why}", WHY[state.mistake]).replaceAll("-", "−");
  if (now === run.length - 1 && state.mistake) return filled(Math.abs(context - whole) < 5e-4 ? SAYS.lucky : SAYS.wrong);
  if (now === run.length - 1) return filled(SAYS.end);
  return filled(now === 0 ? SAYS.first : largest > before ? SAYS.larger : SAYS.same);
}

function show(now) {
  const run = running(scores, values, state.size, state.mistake), {largest, factor, total, weighted, context, powers} = run[now];
  keys.replaceChildren(...scores.map((score, key) => {
    const tile = Math.floor(key / state.size), power = tile === now ? powers[key % state.size].toFixed(2) : "";
    const [shown, value] = [score, values[key]].map(number => `${number}`.replace("-", "−"));
    const element = make("li", {className: tile < now ? "other" : tile > now ? "empty" : "head0 new"},
      make("small", {textContent: `key ${key}`}), make("b", {textContent: shown}), make("small", {textContent: power && `exp ${power}`}), make("small", {textContent: `value ${value}`}));
    element.ariaLabel = `Key ${key}, score ${shown}, value ${value}, ${tile < now ? "passed" : tile > now ? "to come" : `now, its power is ${power}`}`;
    return element;
  }));
  const rows = [
    ["Largest score", `${largest}`.replace("-", "−")],
    ["Correction", now ? `sums before × ${fixed(factor)}` : "nothing before"],
    ["Sum of powers", fixed(total)],
    ["Weighted sum", `${fixed(weighted)}, of power × value`],
    ["Context so far", `${fixed(weighted)} / ${fixed(total)} = ${fixed(context)}`],
  ];
  facts.replaceChildren(...rows.flatMap(([name, text]) => [make("dt", {textContent: name}), make("dd", {textContent: text})]));
  said.say(sentence(now, run));
  size.press(sizes.indexOf(state.size));
  mistake.press(state.mistake);
  address.set([state.size, state.mistake, now].join(","));
}

function set(change, now = 0) {
  Object.assign(state, change);
  const count = Math.ceil(scores.length / state.size);
  steps = new Steps([...Array(count).keys()].map(tile => `Tile ${tile}`), show);
  holder.replaceChildren(steps.element);
  steps.go(now);
}

const size = new Choice("Keys of a tile", sizes.map(String), number => set({size: sizes[number]}));
const mistake = new Choice("Mistake", MISTAKES, number => set({mistake: number}, Infinity));
begin(said.element, holder, keys, facts, size.element, mistake.element);
address.follow(() => {
  const [tile, wrong, now] = address.get().split(",").map(Number);
  set({size: sizes.includes(tile) ? tile : data.size, mistake: wrong in MISTAKES ? wrong : 0}, now || 0);
});
