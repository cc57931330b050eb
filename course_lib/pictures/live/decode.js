// A text, token by token, and what four caches keep of it.

const OTHER = -2;  // in place of a position: a slot of the other text
const {words, caches, blockSize, kept, real, length, models} = data;
const word = position => `“${words[position]}”`, counted = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;
const said = new Sentence(caches.flatMap(cache => cache.steps.map(step => step.says)));
const facts = make("dl", {className: "facts"});
const memory = make("div", {className: "caches"});
const slider = new Slider("Token", words.length - 1, position => steps.go(position));
const atSize = make("p", {className: "note"}), room = make("div", {className: "share"}, make("i"));
const published = new Choice("In a published model", models.map(({name}) => name), number => layReal(number));
let chosen = 0, model = 1;  // of the caches, and of the published models

const choice = new Choice("Which cache?", caches.map(({name}) => name), number => {
  chosen = number;
  show(steps.now);
});
choice.buttons.forEach(button => button.append(make("small")));
const steps = new Steps([...words], show);
steps.element.classList.add("tokens");

// What has become of a token: "kept", "forgotten", "to come".
const stateOf = (position, now, slots) => position > now ? "to come" : slots.includes(position) ? "kept" : "forgotten";

function show(now) {
  const cache = caches[chosen], step = cache.steps[now], before = now ? cache.steps[now - 1].slots : [];
  choice.press(chosen);
  choice.buttons.forEach((button, i) => { button.lastChild.textContent = ` ${caches[i].steps[now].kept} of ${caches[i].steps[now].reserved} bytes`; });
  slider.set(now, `${now}, ${word(now)}`);
  steps.buttons.forEach((button, position) => {
    const state = stateOf(position, now, step.slots);
    button.dataset.state = state;
    button.ariaLabel = `${words[position]}, ${state}`;
  });
  said.say(step.says);
  layMemory(step, before, now);
  layFacts(step, now);
  layReal(model);
  address.set(`${cache.name}:${now}`);
}

function slot(number, {slots}, before, now) {
  const position = slots[number], filled = position >= 0, fresh = position === now;
  const old = fresh && before[number] >= 0 ? make("s", {textContent: words[before[number]]}) : "";
  const name = filled ? words[position] : position === OTHER ? "other" : "";
  const element = make("li", {}, make("small", {textContent: fresh ? "new" : filled ? `token ${position}` : ""}), make("b", {textContent: name}), old);
  element.className = filled ? `head0${fresh ? " new" : ""}` : position === OTHER ? "other" : "empty";
  if (!name) element.ariaLabel = "empty";
  return element;
}

function layMemory(step, before, now) {
  const slots = step.slots.map((_, number) => slot(number, step, before, now));
  const blocks = step.table.length ? slots.length / blockSize : 1, size = slots.length / blocks;
  memory.replaceChildren(...[...Array(blocks).keys()].map(block => {
    const list = make("ol", {className: "slots"}, ...slots.slice(block * size, (block + 1) * size));
    const page = step.table.indexOf(block), owner = page >= 0 ? `page ${page} of the text` : step.slots[block * size] === OTHER ? "another text" : "free";
    const title = blocks > 1 ? `Block ${block}: ${owner}` : `Cache: ${size} slots, each for a key and a value`;
    list.ariaLabel = title;
    return make("div", {}, make("p", {className: "note", textContent: title}), list);
  }));
}

function layFacts({read, kept: bytes, reserved, table}, now) {
  const made = ["query", "key", "value"].map((name, i) => make("b", {className: i ? "head0" : "unkept", textContent: name}));
  const without = now ? ` Without a cache, ${read.length} keys and ${read.length} values.` : "";
  const rows = [
    ["Computed", ...made.flatMap(part => [part, " "]), `of ${word(now)}.${without}`],
    ["Read", `${counted(read.length, "key")} and ${counted(read.length, "value")}, by the query, which is then discarded.`],
    ["Kept", `${bytes} of ${reserved} reserved bytes: ${kept}.`],
    ["Why these", "No later word asks with an old query. And an old key or value never changes: no word sees the later ones."],
    ...(table.length ? [["Block table", `${table.join(", ")}: token ${now} is in block ${table.at(-1)}, slot ${now % blockSize}.`]] : []),
  ];
  facts.replaceChildren(...rows.flatMap(([name, ...parts]) => [make("dt", {textContent: name}), make("dd", {}, ...parts)]));
}

// What the chosen cache holds of a long text in a published model, and what it has reserved.
function layReal(number) {
  model = number;
  const {name, token, after} = models[number], [held, reserved] = after[chosen], most = Math.max(...after.map(([, all]) => all));
  published.press(number);
  room.style.width = `${100 * reserved / most}%`;
  room.firstChild.style.width = `${100 * held / reserved}%`;
  atSize.textContent = `${name} keeps ${inBytes(token)} a token, over all its layers. With ${real[chosen]}, a text of ${length.toLocaleString("en")} tokens uses ${inBytes(held)} of ${inBytes(reserved)} reserved.`;
}

begin(choice.element, said.element, steps.element, slider.element, memory, facts, published.element, room, atSize);
address.follow(() => {
  const [name, now] = address.get().split(":");
  chosen = Math.max(0, caches.findIndex(cache => cache.name === name));
  steps.go(Number(now) || 0);
});
