// Words that the reader types, and from each of them the attention weights that a trained head gives to those before it.

const {words, steps, norm: [gain, shift], longest, examples, notes} = data, width = gain.length;
const codes = Int8Array.from(atob(data.numbers), letter => letter.charCodeAt(0));
const row = number => [...codes.subarray(number * width, (number + 1) * width)].map(code => code * steps[number] / 1e5);
const positions = words.length;
const matrix = gain.map((_, i) => row(positions + longest + 1 + i));  // a score is x[query] matrix x[key] / sqrt(width)
const HOW = `This is the first head of a trained storyteller, with the ${words.length - 1} words and signs that its stories use most. It reads “(start)” before every text, and `
  + "later words are hidden. Its numbers are rounded to 8 bits each, which changes a weight by 0.02 at most.";
const said = new Sentence([...notes, "*“daydreaming” is not among the 225 words that this head knows.* The nearest are “drawing”, “evening” and “morning”."]);
const WORD = /[A-Za-z]+|[^\sA-Za-z]/g;
let tokens;

function normed(x) {
  const mean = sum(x) / width, size = Math.sqrt(sum(x.map(number => (number - mean) ** 2)) / width + 1e-5);
  return x.map((number, i) => (number - mean) / size * gain[i] + shift[i]);
}

// The scores and weights of each token, by their numbers, over those up to itself.
function attend(tokens) {
  const x = tokens.map((token, at) => { const place = row(positions + at); return normed(row(token).map((number, i) => number + place[i])); });
  const keys = x.map(one => matrix.map(line => dot(line, one)));
  return x.map((query, at) => {
    const scores = keys.slice(0, at + 1).map(key => dot(query, key) / Math.sqrt(width));
    return {scores, weights: softmax(scores)};
  });
}

// How many letters must be put in, left out or exchanged.
function distance(from, to) {
  let line = [...Array(to.length + 1).keys()];
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j++) next.push(Math.min(next[j] + 1, line[j + 1] + 1, line[j] + (letter !== to[j])));
    line = next;
  }
  return line.at(-1);
}
const unlike = (word, known) => distance(word.toLowerCase(), known.toLowerCase()) + (word[0].toLowerCase() !== known[0].toLowerCase());
const nearest = word => words.slice(1).map(known => [unlike(word, known), known]).sort(([a], [b]) => a - b).slice(0, 3).map(([, known]) => known);
const numberOf = word => [word, word[0].toUpperCase() + word.slice(1).toLowerCase(), word.toLowerCase()].map(one => words.indexOf(one, 1)).find(number => number > 0);

const field = make("textarea", {rows: 2, spellcheck: false, autocapitalize: "off", oninput: () => read(field.value)});
const byLetters = (a, b) => /\w/.test(b) - /\w/.test(a) || a.localeCompare(b);
const pick = make("select", {ariaLabel: "A word that it knows"}, ...words.slice(1).sort(byLetters).map(textContent => make("option", {textContent})));
pick.style.cssText = "font:inherit;min-height:2.25rem";
const add = make("button", {type: "button", textContent: "Add this word", onclick: () => read(`${field.value.trim()} ${pick.value}`.trim())});
const texts = new Choice("Or read one of these", examples.map(text => `… ${text.split(". ").at(-1)}`), number => read(examples[number]));
const chosen = new Choice("", [], null).element, caption = make("caption"), body = make("tbody");
const head = make("tr", {}, ...["key", "score", "weight"].map(textContent => make("th", {scope: "col", textContent})));

const table = make("table", {className: "weigh"}, caption, make("thead", {}, head), body);

// Offers words to press below a line that says what they are for.
function offer(legend, names, press) {
  chosen.firstChild.textContent = legend;
  chosen.replaceChildren(chosen.firstChild, ...names.map((textContent, i) => make("button", {type: "button", textContent, onclick: () => press(i)})));
}

// Takes a text if the head knows its words, or says which of them it doesn't know, and of what the table still is.
function read(text, at) {
  if (field.value !== text) field.value = text;
  texts.press(examples.indexOf(text));
  const written = text.match(WORD) ?? [], unknown = written.find(word => !numberOf(word)), refused = Boolean(unknown) || written.length > longest;
  field.setAttribute("aria-invalid", refused);
  styled(table, {color: refused ? "var(--quiet)" : ""}).style.setProperty("--shade-4", refused ? "var(--faint)" : null);
  if (refused) caption.replaceChildren(...prose("*Not of these words: still of the last text that it could read.*"));
  if (unknown) {
    const near = nearest(unknown), [one, two, three] = near.map(word => `“${word}”`);
    said.say(`*“${unknown}” is not among the ${words.length - 1} words that this head knows.* The nearest are ${one}, ${two} and ${three}.`);
    offer(`Put in place of “${unknown}”`, near, i => {
      read(text.replace(WORD, word => word === unknown ? near[i] : word));
      field.focus();
    });
  } else if (refused) {
    said.say(`*${written.length} words are too many:* this page holds the positions of ${longest}. Leave some out.`);
    offer("Leave some words out", [], null);
  } else {
    tokens = [0, ...written.map(numberOf)];
    offer("Ask with the query of", tokens.map(token => words[token]), ask);
    ask(Math.min(at ?? written.length, written.length));
  }
  whenAtRest(said);
}

// Shows where a token looks.
function ask(at) {
  const {scores, weights} = attend(tokens)[at], order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  [...chosen.children].slice(1).forEach((button, i) => button.setAttribute("aria-pressed", i === at));
  body.replaceChildren(...tokens.map((token, i) => {
    const seen = i <= at, bar = make("td", {className: "bar", textContent: seen ? weights[i].toFixed(2) : ""});
    bar.style.setProperty("--weight", seen ? weights[i] : 0);
    return make("tr", {}, make("th", {scope: "row", textContent: words[token]}), make("td", {textContent: seen ? signed(scores[i]) : "hidden"}), bar);
  }));
  caption.textContent = `Where “${words[tokens[at]]}” looks`;
  const name = i => i === at ? "itself" : `“${words[tokens[i]]}”`, [first, second] = order;
  said.say(second === undefined ? `“${words[tokens[at]]}” sees nothing but itself, so it gets all of the weight. Type some words.`
    : `“${words[tokens[at]]}” looks most at ${name(first)}: ${weights[first].toFixed(2)}, and next at ${name(second)}: ${weights[second].toFixed(2)}.${at === tokens.length - 1 ? notes[examples.indexOf(field.value)] ?? "" : ""}`);
  whenAtRest(said);
  address.set(`${field.value}/${at}`);
}

const left = make("div", {}, make("label", {textContent: `Your words, ${longest} at most`}, field), make("div", {className: "goals"}, pick, add), chosen, texts.element);
caption.style.textAlign = "left";
const sides = make("div", {className: "painted"}, left, table);
sides.style.gridTemplateColumns = "repeat(auto-fit,minmax(min(100%,19rem),1fr))";  // side by side only where the table fits
begin(said.element, sides, make("p", {className: "note", textContent: HOW}));
address.follow(() => {
  const [, text, at] = /^([^]*)\/(\d+)$/.exec(address.get()) ?? [, examples[0]];
  read(text, at && Number(at));
});
