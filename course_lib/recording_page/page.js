"use strict";
// Steps through the page, and follows one number back to where it came from and on to where it goes.
(() => {
  const {tensors, steps, words} = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const find = (selector, within = document) => [...within.querySelectorAll(selector)];
  const sections = find("section.step");
  const said = document.getElementById("said");
  const controls = document.getElementById("controls");
  const partial = Object.values(tensors).some(one => !one.whole);
  const stepOf = new Map(steps.map((step, number) => [step.t, number]));
  const cellsIn = box => find("tbody td", box);
  const sizeOf = t => tensors[t].shape.reduce((a, b) => a * b, 1);
  const path = sections.flatMap((section, i) => section.querySelector(".why") ? [i] : []);
  let now = 0, chosen = null, whole = !path.length;

  // --- where numbers come from ---

  // "0*3 10 +2": the positions 0, 1, 2 and 10, and two more that the page does not show.
  const parsed = new Map();
  function parse(text) {
    if (!parsed.has(text)) {
      const row = {at: [], hidden: 0};
      for (const part of text.split(" ").filter(Boolean)) {
        if (part[0] === "+") { row.hidden = +part; continue; }
        const [first, count = 1, step = 1] = part.split("*").map(Number);
        for (let i = 0; i < count; i++) row.at.push(first + i * step);
      }
      parsed.set(text, row);
    }
    return parsed.get(text);
  }

  // What one number was computed from in its own step: [{t, at, hidden, unsure, orders}].
  function sources(t, position) {
    if (!stepOf.has(t)) return [];
    const step = steps[stepOf.get(t)];
    return step.in.map((from, i) => {
      const table = step.from[i];
      if (table === "all") return {t: from, at: [...Array(sizeOf(from)).keys()], hidden: tensors[from].whole ? 0 : 1, unsure: true, orders: step.orders.includes(i)};
      const row = table.length ? parse(table[0][table[1][position]]) : {at: [position], hidden: 0};
      return {t: from, ...row, orders: step.orders.includes(i)};
    }).filter(one => one.at.length || one.hidden);
  }

  // Where one number goes in the steps that read it: [{t, at, unsure, orders}].
  const readers = new Map();
  steps.forEach(step => new Set(step.in).forEach(t => readers.set(t, [...readers.get(t) || [], step.t])));
  const forward = new Map();
  function goals(t, position) {
    if (!forward.has(t)) {
      const table = Array.from({length: sizeOf(t)}, () => new Map());
      for (const reader of readers.get(t) || []) {
        for (let cell = 0; cell < sizeOf(reader); cell++) {
          for (const one of sources(reader, cell)) {
            if (one.t === t) one.at.forEach(p => table[p].set(reader, [...table[p].get(reader) || [], cell]));
          }
        }
      }
      forward.set(t, table);
    }
    const some = (reader, is) => steps[stepOf.get(reader)].in.some((one, i) => one === t && is(steps[stepOf.get(reader)], i));
    return [...forward.get(t)[position]].map(([reader, at]) => ({
      t: reader, at: [...new Set(at)],
      unsure: some(reader, (step, i) => step.from[i] === "all"), orders: some(reader, (step, i) => step.orders.includes(i)),
    }));
  }

  // All shown numbers that can be reached from one by shown ones: Map of tensor -> Set of positions.
  function reached(t, position, next) {
    const found = new Map(), waiting = [[t, position]];
    found.unsure = new Set();  // steps of which the page does not know what each number reads
    found.orders = new Set();  // steps that list what they found, whose order later steps may undo
    while (waiting.length) {
      const [from, p] = waiting.pop();
      for (const one of next(from, p)) {
        const step = next === goals ? one.t : from;
        if (one.unsure) found.unsure.add(step);
        // Within the list itself nothing is undone.
        if (one.orders && (next === goals ? readers.has(step) : step !== t)) found.orders.add(step);
        if (one.hidden) found.cut = true;  // the path goes on where the page can't follow it
        if (!found.has(one.t)) found.set(one.t, new Set());
        const known = found.get(one.t);
        for (const q of one.at) if (!known.has(q)) { known.add(q); waiting.push([one.t, q]); }
      }
    }
    return found;
  }
  const back = (t, position) => reached(t, position, sources);
  const ahead = (t, position) => reached(t, position, goals);

  // --- addresses: #step-7, #step-7.1.0.2 for an element of its result, #step-7~in0.0.3.2 for one of another tensor ---

  function indexOf(t, position) {
    const index = [];
    for (const size of [...tensors[t].shape].reverse()) { index.unshift(position % size); position = Math.floor(position / size); }
    return index;
  }
  function positionOf(t, index) {
    const shape = tensors[t].shape;
    if (index.length !== shape.length || index.some((i, axis) => !(i >= 0 && i < shape[axis]))) return null;
    return index.reduce((position, i, axis) => position * shape[axis] + i, 0);
  }
  function address() {
    const step = `#step-${steps[now].t}`;
    if (!chosen) return step;
    const index = indexOf(...chosen).map(i => "." + i).join("") || ".";
    return step + (chosen[0] === steps[now].t ? "" : "~" + chosen[0]) + index;
  }
  function read(fragment) {
    const match = /^#step-(\d+)(?:~(\w+))?((?:\.\d*)*)$/.exec(fragment);
    if (!match || !stepOf.has(match[1])) return false;
    const t = match[2] || match[1], index = match[3].split(".").slice(1).filter(Boolean).map(Number);
    const position = match[3] && tensors[t] ? positionOf(t, index) : null;
    chosen = position === null ? null : [t, position];
    go(stepOf.get(match[1]));
    return true;
  }

  // --- what is shown ---

  function go(number) {
    now = Math.max(0, Math.min(steps.length - 1, number));
    sections.forEach((section, i) => section.classList.toggle("now", i === now));
    const section = sections[now], before = section.querySelector(".before");
    if (!before.childElementCount) fillBefore(before);
    find("#code .now").forEach(line => line.classList.remove("now"));
    const line = find("#code [data-line]").find(one => one.dataset.line === section.dataset.line);
    section.querySelector(".line").classList.toggle("bare", !line);
    if (line) {
      line.classList.add("now");
      const box = line.closest("pre");
      find("#code figure").forEach(figure => { figure.hidden = !figure.contains(line); });
      box.scrollTop = line.offsetTop - box.offsetTop - box.clientHeight / 3;
    }
    const [first, previous, next, last] = find("button[data-go]", controls);
    if (!whole && !path.includes(now)) showAll(true);
    first.disabled = previous.disabled = STEPS.ArrowLeft() === now;
    next.disabled = last.disabled = STEPS.ArrowRight() === now;
    controls.querySelector("select").value = now;
    mark();
    history.replaceState(null, "", address());
  }

  // The tensors that the step reads, as they are shown where they were made.
  function fillBefore(before) {
    for (const t of new Set(steps[now].in)) {
      const box = document.createElement("div");
      box.dataset.t = t;
      const original = document.querySelector(`[data-t="${t}"]`);
      const heading = document.createElement("h3");
      heading.append(original.querySelector("h3 code").cloneNode(true));
      box.append(heading);
      const note = document.createElement("small");
      note.textContent = stepOf.has(t) ? ` from step ${t}` : " from before the run";
      box.firstChild.append(note);
      box.append(...find(".tables", original).map(table => table.cloneNode(true)));
      before.append(box);
      prepare(box);
    }
  }

  function prepare(box) {
    find("table", box).forEach(table => table.setAttribute("role", "grid"));
    cellsIn(box).forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; });
  }

  // Marks the path of a number: of the one that was chosen, or of one that the mouse points at meanwhile.
  function mark(shown = chosen) {
    find(".sel,.from,.to").filter(one => !one.matches(".key")).forEach(one => {
      one.classList.remove("sel", "from", "to");
      one.removeAttribute("aria-selected");
    });
    if (!chosen) said.textContent = "";
    if (!shown) return;
    const sets = {from: back(...shown), to: ahead(...shown), sel: new Map([[shown[0], new Set([shown[1]])]])};
    for (const box of [...find("[data-t]", sections[now]), ...find("#leaves [data-t]")]) {
      const t = box.dataset.t, cells = cellsIn(box), slots = find(".memory li", box);
      for (const [name, found] of Object.entries(sets)) {
        for (const position of found.get(t) || []) {
          if (cells[position]) cells[position].classList.add(name);
          if (name === "sel" && chosen && cells[position]) cells[position].setAttribute("aria-selected", "true");
          if (slots.length) slots[slotOf(t, position) - box.querySelector(".memory").dataset.first].classList.add(name);
        }
      }
    }
    if (chosen) tell(sets);  // words for a glance would move the tables under the mouse
  }
  const slotOf = (t, position) => indexOf(t, position).reduce((slot, i, axis) => slot + i * tensors[t].stride[axis], tensors[t].offset);

  // --- words ---

  const twice = new Set();  // names that several tensors have, which their step tells apart
  const names = new Set();
  for (const one of Object.values(tensors)) (names.has(one.name) ? twice : names).add(one.name);
  const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  function placeOf(t, position) {
    const index = indexOf(t, position), axes = tensors[t].axes;
    if (index.length && !axes.some(name => name)) return `[${index.join(", ")}]`;
    return index.flatMap((i, axis) => {
      const size = tensors[t].size[axis], name = axes[axis];
      if (!name && size === 1) return [];
      const parts = Array.isArray(name) ? name : [[name || `axis ${axis}:`, size]];
      return parts.map(([part, length], n) => {
        const at = Math.floor(i / parts.slice(n + 1).reduce((product, [, one]) => product * one, 1)) % length;
        return `${part} ${["token", "query", "key"].includes(part) && length === words.length ? apart(words[at]) : at}`;
      });
    }).join(", ");
  }
  // A word from right to left leaves the numbers behind it in their places.
  const apart = word => /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(word) ? `\u2068${word}\u2069` : word;
  function link(t) {
    const code = document.createElement("code");
    code.textContent = tensors[t].name;
    const which = twice.has(tensors[t].name) ? (stepOf.has(t) ? ` (step ${t})` : " (before the run)") : "";
    if (!stepOf.has(t)) return together(code, which);
    const a = document.createElement("a");
    a.href = `#step-${t}${t === chosen[0] ? "" : "~" + chosen[0]}${indexOf(...chosen).map(i => "." + i).join("") || "."}`;
    a.append(code);
    return together(a, which);
  }
  function together(...parts) {
    const span = document.createElement("span");
    span.append(...parts);
    return span;
  }
  // One number with its place, several as a count, and how many of them the page does not show.
  function several(one) {
    if (one.at.length === 1 && !one.hidden) {
      const place = placeOf(one.t, one.at[0]);
      return together(link(one.t), place ? ` at ${place}` : "");
    }
    const hidden = one.hidden && tensors[one.t].whole === false ? `, of which ${one.hidden} not shown` : "";
    return together(counted(one.at.length + one.hidden, "number"), " of ", link(one.t), hidden);
  }
  function tell({from, to}) {
    const [t, position] = chosen;
    const text = cellsIn(document.querySelector(`[data-t="${t}"]`))[position].textContent;
    const p = document.createElement("p"), more = document.createElement("p");
    const place = placeOf(t, position), slot = `slot ${slotOf(t, position)} of memory ${tensors[t].memory}`;
    const later = tensors[t].overwritten, ended = later === null ? "" : " at the end of the run";
    p.append(link(t), `${place ? ` at ${place}` : ""} is ${text}${ended}${stepOf.has(t) ? ` (${slot})` : ""}. `);
    if (ended) p.append(`Step ${later} wrote into its memory, so it may have been another number at this step. `);
    const direct = sources(t, position), sure = direct.filter(one => !one.unsure), unsure = direct.filter(one => one.unsure);
    const list = many => many.forEach((one, i) => p.append(i ? "; " : "", several(one)));
    if (sure.length) {
      p.append(key("from", "It came from"), " ");
      list(sure);
      p.append(". ");
    }
    if (unsure.length) {
      p.append(key("from", "It may depend on"), " ");
      list(unsure);
      p.append(": the page does not know which of them this step reads for it. ");
    }
    if (!direct.length) p.append(stepOf.has(t) ? "This step made it from no other number. " : `${ended ? "Its memory" : "It"} was there before the run. `);
    const start = [...from].filter(([one]) => !stepOf.has(one) && !direct.some(two => two.t === one));
    if (start.length) {
      p.append(`All the way back: ${from.unsure.size || from.orders.size ? "at most " : ""}`);
      const shown = one => tensors[one].whole ? counted(sizeOf(one), "number") : counted(sizeOf(one), "shown number");
      start.forEach(([one, set], i) => p.append(i ? ", " : "", `${set.size} of ${shown(one)} of `, link(one)));
      p.append(". ");
    }
    if (from.unsure.size && !(unsure.length && from.unsure.size === 1)) p.append(counting(from.unsure));
    p.append(moving(from.orders));
    if (from.cut) p.append("The way back also leads through numbers that this page leaves out, so that it is not complete here. ");
    if (to.size) {
      const last = [...to.keys()].sort((a, b) => stepOf.get(a) - stepOf.get(b));
      more.append(key("to", to.unsure.size || to.orders.size ? "It goes at most to" : "It goes to"), " ");
      last.forEach((one, i) => more.append(i ? ", " : "", `${to.get(one).size} of `, link(one)));
      more.append(". ", to.unsure.size ? counting(to.unsure) : "", moving(to.orders));
    } else if (!steps.some(step => step.in.includes(t))) more.append("No later step reads it.");
    else more.append(`In this run it adds nothing to any later number${partial ? " shown here" : ""}.`);
    if (to.size && partial) more.append(" Numbers that this page leaves out are not counted.");
    said.replaceChildren(p, more);
  }
  // "step 3" or "steps 3, 4, 9, ..."
  function fewOf(many) {
    const all = [...many].sort((a, b) => stepOf.get(a) - stepOf.get(b));
    return `step${all.length > 1 ? "s" : ""} ${all.slice(0, 3).join(", ")}${all.length > 3 ? ", ..." : ""}`;
  }
  // On a path through steps that may read everything.
  function counting(unsure) {
    return `Not all of them need count: the page does not know which numbers ${fewOf(unsure)} read${unsure.size > 1 ? "" : "s"} for each result. `;
  }
  // On a path through steps that list what they found.
  function moving(orders) {
    return orders.size ? `Not all of them need count: a change of the order in which ${fewOf(orders)} list${orders.size > 1 ? "" : "s"} what was found may cancel out. ` : "";
  }
  function key(name, text) {
    const span = document.createElement("span");
    span.className = `key ${name}`;
    span.textContent = text;
    return span;
  }

  // --- hands ---

  function elementOf(cell) {
    const box = cell.closest("[data-t]");
    return [box.dataset.t, cellsIn(box).indexOf(cell)];
  }
  function choose(cell) {
    const [t, position] = elementOf(cell);
    const top = () => cell.getBoundingClientRect().top, before = top();
    chosen = chosen && chosen[0] === t && chosen[1] === position ? null : [t, position];
    mark();
    // What is said of it stands above: the number stays where it was, or comes out from under the words.
    scrollBy(0, top() - Math.max(before, said.getBoundingClientRect().bottom));
    history.replaceState(null, "", address());
  }
  function move(cell, key) {
    const box = cell.closest("[data-t]"), cells = cellsIn(box), row = find("td", cell.parentElement);
    const rows = find("tbody tr", box), columns = row.indexOf(cell), line = rows.indexOf(cell.parentElement);
    const at = (y, x) => rows[y] && find("td", rows[y])[x];
    const to = {
      ArrowLeft: () => cells[cells.indexOf(cell) - 1], ArrowRight: () => cells[cells.indexOf(cell) + 1],
      ArrowUp: () => at(line - 1, columns), ArrowDown: () => at(line + 1, columns),
      Home: () => row[0], End: () => row[row.length - 1],
    }[key]();
    if (!to) return;
    cells.forEach(one => { one.tabIndex = one === to ? 0 : -1; });
    to.focus();
  }
  const walk = () => whole ? [...steps.keys()] : path;
  const STEPS = {
    ArrowLeft: () => walk().findLast(i => i < now) ?? now, ArrowRight: () => walk().find(i => i > now) ?? now,
    Home: () => walk()[0], End: () => walk().at(-1),
  };
  // Walks through all steps, or along the path alone.
  function showAll(all) {
    whole = all;
    root.classList.toggle("along", !whole);
    const select = controls.querySelector("select");
    select.replaceChildren(...walk().map(i => new Option(`${steps[i].t}: ${tensors[steps[i].t].name}`, i)));
    controls.querySelector("[data-all]")?.setAttribute("aria-pressed", whole);
  }

  // The first Escape lets the chosen number go and stays where it is; without one it leads from a table to the buttons.
  function letGo(cell) {
    if (!chosen && cell) controls.querySelector("button:enabled").focus();
    chosen = null;
    mark();
    history.replaceState(null, "", address());
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select,input")) return;
    const cell = event.target.closest(".js tbody td");
    if (event.key === "Escape") letGo(cell);
    else if (cell && ["Enter", " "].includes(event.key)) choose(cell);
    else if (cell && (event.key.startsWith("Arrow") || event.key in STEPS)) move(cell, event.key);
    else if (event.key in STEPS && !event.target.closest("pre")) go(STEPS[event.key]());
    else return;
    event.preventDefault();
  }

  // The letters and emoji of a text that this machine has no font for: each is drawn as a letter is that nobody has.
  function withoutFont(text) {
    const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    pen.font = getComputedStyle(document.body).font;
    const drawn = letter => {
      pen.clearRect(0, 0, 48, 48);
      pen.fillText(letter, 8, 32);
      return pen.getImageData(0, 0, 48, 48).data.join();
    };
    const foreign = [...new Set(text)].filter(one => one > "\u007f" && /[\p{L}\p{Emoji_Presentation}]/u.test(one));
    const nobodys = foreign.length && drawn("\u{3fffd}");
    return foreign.filter(one => drawn(one) === nobodys);
  }
  function sayWhatHasNoFont() {
    const missing = withoutFont(words.join("") + document.getElementById("code").textContent);
    if (!missing.length) return;
    const p = document.createElement("p");
    p.className = "fonts";
    const named = missing.slice(0, 3).map(one => `${one} (U+${one.codePointAt(0).toString(16).toUpperCase()})`).join(", ");
    p.textContent = `This machine has no font with ${named}${missing.length > 3 ? ", ..." : ""}, so empty boxes stand for such letters: install a font that has them, such as a Noto font.`;
    controls.before(p);
  }

  function button(text, label, act) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    controls.append(made);
    return made;
  }
  function start() {
    if (!steps.length) return;
    sections.forEach(section => section.removeAttribute("id"));  // or the browser would scroll to the step
    controls.hidden = false;
    for (const one of document.querySelectorAll(".how")) one.hidden = false;
    const moves = [["«", "First step", "Home"], ["◀ Back", "Step back", "ArrowLeft"], ["Next ▶", "Next step", "ArrowRight"], ["»", "Last step", "End"]];
    for (const [text, label, name] of moves) button(text, label, () => go(STEPS[name]())).dataset.go = name;
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Step");
    select.addEventListener("change", () => go(+select.value));
    controls.append(select);
    if (path.length) {
      button(`All ${steps.length} steps`, `All ${steps.length} steps, or the ${path.length} that matter most`, () => {
        showAll(!whole);
        go(whole || path.includes(now) ? now : STEPS.ArrowLeft());
      }).dataset.all = "";
    }
    showAll(whole);
    button("◐", "Dark or light", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
    sayWhatHasNoFont();
    find("[data-t]").forEach(prepare);
    const heights = new ResizeObserver(() => {  // of what stays on top while one scrolls
      root.style.setProperty("--controls", `${controls.offsetHeight}px`);
      root.style.setProperty("--top", `${controls.offsetHeight + said.offsetHeight}px`);
    });
    [controls, said].forEach(one => heights.observe(one));
    document.addEventListener("keydown", onKey);
    document.addEventListener("click", event => {
      const cell = event.target.closest("[data-t] tbody td");
      if (cell) choose(cell);
    });
    document.addEventListener("pointerover", event => {
      if (chosen || event.pointerType !== "mouse") return;
      const cell = event.target.closest("[data-t] tbody td");
      if (cell) mark(elementOf(cell)); else if (document.querySelector("td.sel")) mark();
    });
    addEventListener("hashchange", () => read(location.hash));
    if (!read(location.hash)) go(walk()[0]);
  }
  window.recording = {tensors, steps, sources, goals, back, ahead};  // for tests, and for the curious
  try { start(); } finally { root.classList.remove("loading"); }
})();
