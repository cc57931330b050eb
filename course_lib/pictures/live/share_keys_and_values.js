// Query heads, and the kv heads that they read: from one for each to one for all.

const PER_HEAD = 8;  // colours
const state = {model: 0, option: 0};
const said = new Sentence(), groups = make("div", {className: "groups"}), facts = make("dl", {className: "facts"});
const model = () => data.models[state.model];
const choice = new Choice("Which model?", data.models.map(({name}) => name), number => choose(number));
const slider = new Slider("KV heads", 0, number => {
  state.option = number;
  show();
});
const still = matchMedia("(prefers-reduced-motion: reduce)");
let boxes = [];


function sentence({name, heads, own}, {kvHeads}) {
  const each = heads / kvHeads, here = own === kvHeads ? `${name} does this: ` : "";
  const text = each === 1 ? `Each of the ${heads} query heads reads keys and values of its own, and all of these are kept for every token.`
    : kvHeads === 1 ? `All ${heads} query heads read the same keys and values, and only their queries differ; the cache, and what each step reads of it, shrinks to 1/${heads}.`
    : `Each group of ${each} query heads reads the same keys and values; the cache, and what each step reads of it, shrinks to 1/${each}.`;
  return here + (here ? text[0].toLowerCase() + text.slice(1) : text);
}

// Puts the query heads, which stay the same boxes, above the kv head that they read.
function group({kvHeads}) {
  const before = boxes.map(box => box.getBoundingClientRect()), each = boxes.length / kvHeads;
  groups.replaceChildren(...[...Array(kvHeads).keys()].map(kvHead => {
    const readers = boxes.slice(kvHead * each, (kvHead + 1) * each), color = `head${kvHead % PER_HEAD}`;
    readers.forEach(box => { box.className = color; });
    const kv = make("b", {className: color, textContent: kvHeads > 8 ? kvHead : `kv ${kvHead}`});
    return make("div", {}, make("div", {}, ...readers), kv);
  }));
  groups.classList.toggle("large", boxes.length <= 8);
  groups.ariaLabel = kvHeads === boxes.length ? `Query heads 0 to ${boxes.length - 1} each read the kv head of the same number.`
    : [...Array(kvHeads).keys()].map(kvHead => `Query heads ${kvHead * each} to ${(kvHead + 1) * each - 1} read kv head ${kvHead}.`).join(" ");
  if (still.matches || !before[0]?.width) return;
  boxes.forEach((box, i) => {
    const {x, y} = box.getBoundingClientRect();
    box.animate([{transform: `translate(${before[i].x - x}px, ${before[i].y - y}px)`}, {transform: "none"}], {duration: 500, easing: "ease-in-out"});
  });
}

// What sharing costs: the facts that the stories of each training keep, beside the bytes.
function cost(options, chosen) {
  const {measured} = data, means = options.map(({facts}) => sum(facts) / facts.length), spreads = options.map(({facts}) => Math.max(...facts) - Math.min(...facts));
  if (!chosen.facts.length) return ["Not measured here. ", measured];
  const apart = Math.max(...means) - Math.min(...means), within = Math.max(...spreads);
  const rows = options.map(option => make("tr", {}, ...[`${option.kvHeads} kv head${option.kvHeads > 1 ? "s" : ""}`, option.token.toLocaleString("en"), option.facts.map(one => one.toFixed(1)).join(", ")].map((text, i) =>
    styled(make(i ? "td" : "th", {...i ? {} : {scope: "row"}, textContent: text}), option === chosen ? {background: "var(--plain)", color: "var(--ink)", fontWeight: 650} : {}))));
  const head = make("tr", {}, ...["", "bytes a token", `kept of 100 facts, ${chosen.facts.length} seeds`].map((text, i) => make(i ? "th" : "td", {...i ? {scope: "col"} : {}, textContent: text})));
  return [`Trainings that differ only in their seed are up to ${within.toFixed(1)} facts of 100 apart, the means of these forms ${apart.toFixed(1)}: ${apart < within ? "what sharing costs, if anything, is lost in that noise here." : "sharing makes a difference."} A model this small doesn't show what a large one loses.`,
    make("table", {className: "weigh"}, make("thead", {}, head), make("tbody", {}, ...rows))];
}

function show() {
  const {heads, tokens, options} = model(), option = options[state.option], [all] = options;
  group(option);
  choice.press(state.model);
  slider.input.max = options.length - 1;
  slider.set(state.option, `${option.kvHeads} for ${heads} query heads`);
  said.say(sentence(model(), option));
  const bar = make("div", {className: "share"}, make("i"));
  bar.firstChild.style.width = `${100 * option.token / all.token}%`;
  const rows = [
    ["Kept", `${option.token.toLocaleString("en")} bytes a token, over all layers`, option === all ? "." : `, instead of ${all.token.toLocaleString("en")}.`, bar],
    ["Read", `${inBytes(option.step)} of keys and values in each step, after ${tokens.toLocaleString("en")} tokens.`],
    ["Facts", ...cost(options, option)],
    ["Chosen", `${data.models.filter(({own}) => own).map(({name, heads, own}) => `${own} kv head${own > 1 ? "s" : ""} for ${heads} query heads in ${name}`).join(", ")}.`],
  ];
  facts.replaceChildren(...rows.flatMap(([name, ...parts]) => [make("dt", {textContent: name}), make("dd", {}, ...parts)]));
  address.set(`${model().name}:${option.kvHeads}`);
}

// A model, with its own number of kv heads if no other is asked for.
function choose(number, kvHeads = data.models[number].own) {
  const {heads, options} = data.models[number];
  state.model = number;
  state.option = Math.max(0, options.findIndex(option => option.kvHeads === kvHeads));
  if (boxes.length !== heads) boxes = [...Array(heads).keys()].map(head => make("span", {textContent: head}));
  show();
}

groups.setAttribute("role", "img");
begin(choice.element, said.element, slider.element, make("p", {className: "note", textContent: "Query heads, and below them the keys and values that they read:"}), groups, facts);
onArrows(step => choose(state.model, model().options[Math.max(0, Math.min(model().options.length - 1, state.option + step))].kvHeads));
address.follow(() => {
  const [name, kvHeads] = address.get().split(":");
  choose(Math.max(0, data.models.findIndex(each => each.name === name)), Number(kvHeads) || undefined);
});
