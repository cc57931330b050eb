// A line of code that the reader edits: what PyTorch makes of it, whose numbers its rows hold, and the mistake's name.

const said = new Sentence();
const stage = new Stage(data.goals.split.memory);
const calls = make("ol", {className: "calls"});
const field = make("textarea", {id: "line", rows: 2, spellcheck: false, autocapitalize: "off", autocomplete: "off"});
stage.element.classList.add("quick");
const goals = make("fieldset", {className: "goals"}, make("legend", {textContent: "What should the line do?"}));
const examples = make("div", {className: "examples"});
const given = make("p", {className: "note"});
let goal;

const plain = shape => shape.filter(size => size !== 1);
const wordOf = element => data.words[data.owners[element][0]];
const headOf = element => `head ${data.owners[element][1]}`;
const shared = (elements, name) => new Set(elements.map(name)).size === 1 ? name(elements[0]) : "";

// Whose numbers a row holds: "work, head 0", "work, both heads", "Dream + big", "6 words".
function holders(elements) {
  const words = [...new Set(elements.map(wordOf))];
  if (words.length > 1) return words.length > 2 ? `${words.length} words` : words.join(" + ");
  return `${words[0]}, ${shared(elements, headOf) || "both heads"}`;
}

// The tensor as tables of its last two axes. Where its shape is the wanted one, rows are labelled with what they should hold.
function tablesOf(tensor, isWanted) {
  const {shape, elements} = tensor, columns = shape.at(-1), rows = shape.at(-2) ?? 1;
  return range(elements.length / (rows * columns)).map(t => {
    const inTable = elements.slice(t * rows * columns, (t + 1) * rows * columns);
    const word = shared(inTable, wordOf), head = shared(inTable, headOf), byHead = isWanted && goal === data.goals.split;
    const title = isWanted ? (byHead ? `head ${t}` : "") : [word, head].filter(Boolean).join(", ");
    return {title, rows: range(rows).map(r => {
      const cells = inTable.slice(r * columns, (r + 1) * columns), first = (t * rows + r) * columns;
      if (!isWanted) return {label: [word ? "" : shared(cells, wordOf), head ? "" : shared(cells, headOf)].filter(Boolean).join(", "), cells};
      const wrong = !same(cells, goal.wanted.elements.slice(first, first + columns));
      return {label: wordOf(goal.wanted.elements[first]), cells, wrong, mark: wrong ? `✗ ${holders(cells)}` : "✓"};
    })};
  });
}

function verdict(tensor, tables) {
  const {shape, elements} = tensor, rows = tables.flatMap(table => table.rows), wrong = rows.filter(row => row.wrong).length;
  if (!same(plain(shape), plain(goal.wanted.shape))) return [`Not there yet: the shape is \`${tuple(shape)}\`, and it should be \`${tuple(goal.wanted.shape)}\`.`];
  if (!wrong) return [goal === data.goals.split
    ? `✓ Right: each head has a table of its own, and all ${rows.length} rows hold the word that they should.`
    : `✓ Right: each word has its two heads side by side again, in all ${rows.length} rows.`];
  const named = goal.mistakes.find(mistake => same(mistake.elements, elements));
  const right = same(shape, goal.wanted.shape) ? "The shape is right" : `But for axes of size 1, the shape \`${tuple(shape)}\` is right`;
  return [`${right} and no error is raised, but *${wrong} of ${rows.length} rows hold something else*. `
    + (named ? "The mistake is called " : "This mistake has no name in the catalogue."), named];
}

// The name of a mistake, which leads to its page where the course knows its address.
function link({id, address: href}) {
  return href ? make("a", {href, target: framed ? "_blank" : "", textContent: id}) : id;
}

function list(steps) {
  calls.replaceChildren(...steps.map(({code, tensor}, i) => {
    const before = steps[i - 1]?.tensor, copied = before && tensor.memory !== before.memory;
    return make("li", {}, make("code", {textContent: code}), ...[
      `shape ${tuple(tensor.shape)}`, `strides ${tuple(tensor.strides)}`, tensor.isContiguous ? "contiguous" : "not contiguous",
      ...(before ? [copied ? "copied to new memory" : "same memory"] : code.endsWith(")") ? ["taken as a projection"] : []),
    ].map(textContent => make("span", {textContent})));
  }));
}

// Runs the line; what it made before a call that is refused stays on the stage.
function run() {
  const line = new Line(field.value, new Strided(goal.shape, goal.strides, goal.memory), data.names);
  let sentence, mistake, refused = false;
  try {
    line.run();
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    refused = true;
    const reason = refusal.message[0].toUpperCase() + refusal.message.slice(1);
    const who = {EinopsError: "einops", SyntaxError: "Python", ZeroDivisionError: "Python"}[refusal.kind] ?? "PyTorch";
    sentence = refusal.kind ? `*${who} refuses this* with ${/^[EI]/.test(refusal.kind) ? "an" : "a"} ${refusal.kind}. ${reason}`
      : `*This page can't read the line.* ${reason}`;
  }
  const {tensor} = line.steps.at(-1) ?? {tensor: line.tensor};
  const isWanted = !refused && same(plain(tensor.shape), plain(goal.wanted.shape)), tables = tablesOf(tensor, isWanted);
  if (!refused) [sentence, mistake] = verdict(tensor, tables);
  said.say(sentence, ...(mistake ? [link(mistake), "."] : []));
  field.setAttribute("aria-invalid", refused);
  stage.show(tables, tensor.memory, (refused ? "Above: the tensor before that call. " : "") + (tensor.memory === goal.memory
    ? "Memory: one row of 24 numbers, and none has moved." : "Memory: a new row, into which the numbers were copied."));
  list(line.steps);
  for (const button of examples.children) button.setAttribute("aria-pressed", button.dataset.line === field.value);
  address.set(`${goalName()}:${field.value}`);
}

const goalName = () => Object.keys(data.goals).find(name => data.goals[name] === goal);

function choose(name, line = Object.values(data.goals[name].examples)[0]) {
  goal = data.goals[name];
  field.value = line;
  for (const button of goals.querySelectorAll("button")) button.setAttribute("aria-pressed", button.dataset.goal === name);
  given.replaceChildren(...prose(`\`x\` has the shape \`${tuple(goal.shape)}\`. You may use your own names, such as \`num_heads\` and \`self.q_proj(x)\`.`));
  examples.replaceChildren(...Object.entries(goal.examples).map(([name, code]) => {
    const button = make("button", {type: "button", textContent: name, onclick: () => choose(goalName(), code)});
    button.dataset.line = code;
    return button;
  }));
  run();
}

for (const [name, {title}] of Object.entries(data.goals)) {
  const button = make("button", {type: "button", textContent: title, onclick: () => choose(name)});
  button.dataset.goal = name;
  goals.append(button);
}
field.addEventListener("input", run);
field.addEventListener("keydown", event => event.key === "Enter" && event.preventDefault());  // it is one line
begin(goals, make("label", {textContent: "Your line"}, field), examples, given, said.element, stage.element, calls);
address.follow(() => {
  const [, name, line] = /^(split|join):([^]*)$/.exec(address.get()) ?? [, "split", undefined];
  choose(name, line);
});
