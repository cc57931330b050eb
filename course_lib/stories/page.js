"use strict";
// The page around a storyteller: it draws word after word, and shows where the heads looked and which facts are kept.
(() => {
  const {data, max_len, softmax, newCaches, read, wordsOf, spaced, reading} = storyteller;
  const find = id => document.getElementById(id);
  const numberOf = new Map(data.vocabulary.map((word, number) => [word, number]));
  const END = numberOf.get(data.end);
  const PACE = 110;  // milliseconds from word to word
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const story = find("story"), input = find("beginning"), temperature = find("temperature"), seed = find("seed");
  let told, timer = null, chosen = null, head = null;  // a word, and the head of which alone the looks are shown

  // Numbers from 0 to 1, the same ones for the same seed (mulberry32).
  function randomNumbers(state) {
    return () => {
      state = state + 0x6d2b79f5 | 0;
      let mixed = Math.imul(state ^ state >>> 15, 1 | state);
      mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed;
      return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
    };
  }
  function begin(words, warmth, number) {
    told = {tokens: [], before: [null], caches: newCaches(), given: words.length, warmth, number, random: randomNumbers(number), ended: false};
    chosen = head = null;
    [END, ...words.map(word => numberOf.get(word))].forEach(add);
  }
  function add(token) {
    told.tokens.push(token);
    told.ended = told.tokens.length > max_len;
    if (!told.ended) told.before.push(read(token, told.caches));  // what the next token is drawn from
  }
  function writeOne() {
    const {logits} = told.before.at(-1), {warmth} = told;
    let left = told.random();
    const drawn = warmth ? softmax(logits.map(logit => logit / warmth)).findIndex(chance => (left -= chance) < 0) : logits.indexOf(Math.max(...logits));
    if (drawn === END) told.ended = true;
    else add(drawn < 0 ? logits.length - 1 : drawn);
  }

  // --- what is shown ---

  function made(name, className, ...content) {
    const element = document.createElement(name);
    element.className = className;
    element.append(...content);
    return element;
  }
  const stateOf = mark => mark.right ? mark.again ? "right" : "first" : "wrong";
  function show() {
    const pieces = spaced(told.tokens.slice(1).map(token => data.vocabulary[token])), text = pieces.join("");
    const {mentions, kept} = reading(text);
    const markAt = new Map(mentions.map(one => [one.start, one]));
    let offset = 0;
    told.kept = kept;
    told.marks = [undefined, ...pieces.map(piece => (offset += piece.length, markAt.get(offset - piece.trim().length)))];
    story.replaceChildren(made("span", "word start"), ...pieces.flatMap((piece, i) => {
      const mark = told.marks[i + 1], word = made("span", `word ${mark ? stateOf(mark) : ""}`, piece.trim());
      return piece.startsWith(" ") ? [" ", word] : [word];
    }));
    [...story.children].forEach((word, at) => { word.dataset.at = at; });
    find("facts").replaceChildren(...Object.keys(kept).slice(1).map(kind => {
      const words = right => {
        const said = mentions.filter(one => one.kind === kind && one.right === right);
        return said.filter((one, i) => said.findIndex(({word}) => word === one.word) === i).map(one => text.slice(one.start, one.start + one.word.length)).join(", ");
      };
      const state = kept[kind] ? "right" : words(false) ? "wrong" : "first", then = words(false) && `, then ${words(false)}`;
      const verdict = {right: "kept", wrong: "not kept", first: told.ended ? "not said again" : "not yet said again"}[state];
      return made("div", state, made("dt", "", kind), made("dd", "", `${words(true)}${then} `, made("small", "", verdict)));
    }));
    find("keeps").hidden = !mentions.length;  // of a text in another language
    find("go").hidden = told.ended;
    find("go").textContent = timer ? "Stop" : "Continue";
    find("caption").textContent = told.warmth ? `Story ${told.number}, at temperature ${told.warmth}.` : "Written at temperature 0: the likeliest word each time.";
    light();
  }
  const nameOf = token => token === END ? "the end" : `\u201c${data.vocabulary[token]}\u201d`;
  const wordAt = at => at ? data.vocabulary[told.tokens[at]] : "the start";
  // As `weight_color` in Python: between two shades.
  const shade = weight => { const at = 5 * weight, below = Math.min(4, Math.floor(at)); return `color-mix(in srgb, var(--shade-${below + 1}) ${100 * (at - below)}%, var(--shade-${below}))`; };
  function tagOf([layer, number], text = `${layer}.${number}`) {
    const tag = made("small", "tag", text);
    tag.style.background = `var(--head-${number % 8})`;
    return tag;
  }
  // All weights behind a word, or those of one head, the largest first.
  function looksOf(at) {
    const all = told.before[at].looks.flatMap((heads, layer) => heads.flatMap((row, number) => row.map((weight, to) => ({layer, number, at: to, weight}))));
    return all.filter(({layer, number}) => !head || `${layer}.${number}` === head).sort((a, b) => b.weight - a.weight);
  }
  function light() {
    const words = [...story.children];
    for (const word of words) {
      word.classList.remove("chosen", "lit");
      word.style.background = "";
      word.querySelector(".tag")?.remove();
    }
    if (chosen === null) return find("shown").replaceChildren(made("p", "quiet", "Choose a word of the story: its heads, and what each of them looked at, will appear here. 2.1 is head 1 of layer 2."));
    words[chosen].classList.add("chosen");
    for (const {layer, number, at, weight} of looksOf(chosen).filter(({weight}) => weight >= 0.05)) {
      if (words[at].classList.contains("lit")) continue;
      words[at].classList.add("lit");
      words[at].style.background = shade(weight);
      if (weight >= 0.2) words[at].append(tagOf([layer, number], head ? weight.toFixed(2) : undefined));
    }
    const asked = made("p", "asked", "To write ", made("b", "", wordAt(chosen)), ": ", strongest());
    find("shown").replaceChildren(asked, made("p", "quiet", chances(), fact()), ...told.before[chosen].looks.map((heads, layer) => made("div", "", made("h3", "", `Layer ${layer}`), ...heads.map((row, number) => lineOf(row, layer, number)))));
  }
  // A head, and the words that it looked at most.
  function lineOf(row, layer, number) {
    const most = [...row.keys()].sort((a, b) => row[b] - row[a]).filter((at, i) => !i || row[at] >= 0.1).slice(0, 3);
    const line = made("button", "head", tagOf([layer, number]), ...most.map(at => {
      const look = made("span", "look", wordAt(at), " ", made("span", "weight", row[at].toFixed(2)));
      look.style.background = shade(row[at]);
      return look;
    }));
    const rest = 1 - most.reduce((sum, at) => sum + row[at], 0);
    if (rest >= 0.1) line.append(made("small", "quiet", `others ${rest.toFixed(2)}`));
    line.type = "button";
    line.dataset.head = `${layer}.${number}`;
    line.setAttribute("aria-pressed", head === line.dataset.head);
    line.setAttribute("aria-label", `Head ${number} of layer ${layer}: ${most.map(at => `${wordAt(at)} ${row[at].toFixed(2)}`).join(", ")}`);
    return line;
  }
  function strongest() {
    const most = looksOf(chosen).find(({at}) => at > 0);
    return most ? `head ${most.number} of layer ${most.layer} looked at ${nameOf(told.tokens[most.at])} (${most.weight.toFixed(2)}).` : "no word stood before it.";
  }
  function chances() {
    const found = softmax(told.before[chosen].logits), own = told.tokens[chosen];
    const percent = token => found[token] < 0.01 ? "less than 1\u00a0%" : `${Math.round(100 * found[token])}\u00a0%`;
    const others = [...found.keys()].filter(token => token !== own && found[token] >= 0.01).sort((a, b) => found[b] - found[a]).slice(0, 2);
    const beside = others.map(token => `, ${nameOf(token)} ${percent(token)}`).join("");
    return `${chosen <= told.given ? "The word was given. The model would have given it" : "The model gave it"} ${percent(own)}${beside}.`;
  }
  function fact() {
    const mark = told.marks[chosen];
    return mark ? ` The ${mark.kind} is ${{first: "new", right: "repeated correctly", wrong: "repeated wrongly"}[stateOf(mark)]}.` : "";
  }
  function choose(at) {
    if (timer) stop();
    chosen = at === null ? null : Math.max(1, Math.min(told.tokens.length - 1, at));
    if (chosen === null) head = null;
    light();
    find("status").textContent = chosen === null ? "" : `${wordAt(chosen)}: ${strongest()}${fact()}`;
  }
  // The word that shows best what attention is for: a fact said again, at whose earlier place a head looked.
  function tellingWord() {
    const again = [...told.marks.keys()].filter(at => at > told.given && told.marks[at]?.again && told.marks[at].right && told.marks[at].kind !== "pronoun");
    const most = at => looksOf(at).find(one => one.at > 0), copied = at => told.tokens[most(at).at] === told.tokens[at] ? most(at).weight : 0;
    return again.sort((a, b) => copied(b) - copied(a))[0] ?? told.tokens.length - 1;
  }

  // --- hands ---

  function finish() {
    timer = null;
    show();
    chosen = tellingWord();
    light();
    const lost = Object.keys(told.kept).slice(1).filter(kind => !told.kept[kind]);
    find("status").textContent = `The story is finished. ${lost.length ? `Not kept: ${lost.join(", ")}.` : "It keeps all its facts."}`;
  }
  function stop() {
    clearTimeout(timer);
    timer = null;
    show();
  }
  function run() {
    chosen = null;
    while (calm.matches && !told.ended) writeOne();
    if (told.ended) return finish();
    timer = setTimeout(() => { writeOne(); run(); }, PACE);
    show();
    story.lastChild.classList.add("new");
  }
  const cased = word => [word, word[0].toUpperCase() + word.slice(1).toLowerCase(), word.toLowerCase()].find(one => numberOf.has(one));
  // Why the model can't begin with what was typed; "" if it can.
  function problem() {
    const words = wordsOf(input.value), unknown = words.filter(word => !cased(word)).map(word => `\u201c${word}\u201d`), most = max_len - 1;
    return unknown.length ? `The model doesn't know ${unknown.join(", ")}. The words that it knows are listed at the end of the page.`
      : words.length > most ? `The model reads ${most} words at most: shorten the beginning.` : "";
  }
  // Begins anew with what was typed, in the letters that the model knows, or says which words it doesn't know.
  function begun() {
    const reason = problem();
    find("unknown").textContent = reason;
    input.setAttribute("aria-invalid", Boolean(reason));
    clearTimeout(timer);
    timer = null;
    if (reason) input.focus(); else begin(wordsOf(input.value).map(cased), +temperature.value, +seed.value);
    return !reason;
  }
  function start() {
    for (const one of document.querySelectorAll(".live")) one.hidden = false;
    story.tabIndex = 0;
    story.setAttribute("role", "group");
    story.setAttribute("aria-label", "The story. The left and right arrow keys choose a word.");
    find("known").append(data.vocabulary.filter(word => word !== data.end).join(" "));
    temperature.addEventListener("input", () => { find("warmth").textContent = temperature.value; });
    find("controls").addEventListener("submit", event => {
      event.preventDefault();
      if (document.activeElement !== seed && !problem()) seed.value = +seed.value + 1;
      if (begun()) run();
    });
    seed.addEventListener("change", () => { if (begun()) run(); });
    find("go").addEventListener("click", () => { if (timer) stop(); else run(); });
    find("step").addEventListener("click", () => {
      if (timer) stop();
      if (told.ended && !begun()) return;
      writeOne();
      if (told.ended) return finish();
      show();
      choose(told.tokens.length - 1);
    });
    find("beginnings").addEventListener("click", event => {
      if (!event.target.matches("button")) return;
      input.value = event.target.textContent;
      find("controls").requestSubmit();
    });
    story.addEventListener("click", event => {
      const word = event.target.closest(".word");
      if (word) choose(+word.dataset.at === chosen ? null : +word.dataset.at);
    });
    story.addEventListener("keydown", event => {
      const last = told.tokens.length - 1;
      const to = {ArrowLeft: (chosen ?? last + 1) - 1, ArrowRight: (chosen ?? 0) + 1, Home: 1, End: last, Escape: null}[event.key];
      if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      choose(to);
    });
    find("looks").addEventListener("click", event => {
      const pressed = event.target.closest("[data-head]")?.dataset.head;
      if (!pressed) return;
      head = head === pressed ? null : pressed;
      light();
      find("looks").querySelector(`[data-head="${pressed}"]`).focus();
    });
    begin(wordsOf(input.defaultValue), 0, 0);
    while (!told.ended) writeOne();
    finish();
    find("status").textContent = "";
  }
  start();
})();
