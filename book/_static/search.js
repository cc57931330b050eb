// The book's search: what a reader notices, and each name of a thing, leads to its page; excerpts are sentences.
// It ranks by itself what Sphinx's index holds; OTHER_NAMES is book/search.toml and the mistakes' own words, which conf.py writes into the search page.
"use strict";

if (typeof Search !== "undefined") {  // on the search page only
  const stemmer = new Stemmer();
  const empty = new Set([...stopwords, ..."do does did my me i we you your how why what when which can has have vs versus than one am get got "
    .concat("use used using just should would there").split(" ")].map((word) => stemmer.stemWord(word)));
  const says = (word) => word && !empty.has(word) && !/^\d+$/.test(word);
  const letters = (text) => splitQuery(text.toLowerCase()).join("");  // flash attention is FlashAttention
  const notIn = (text) => text.replace(/\b(does|do|is|are|was|did|ca)n['’]?t\b|\bcannot\b/g, "not");  // doesn't
  const stem = (text) => splitQuery(notIn(text.toLowerCase())).map((word) => stemmer.stemWord(word));
  const meanings = OTHER_NAMES.same.flatMap((group, number) => group.map((phrase) =>
    [` ${stem(phrase).join(" ")} `, ` =${number} `])).sort((a, b) => b[0].length - a[0].length);

  // The words of a text without their endings; words and phrases of one meaning become one word.
  const stems = (text) => {
    let joined = ` ${stem(text).join(" ")} `;
    for (const [phrase, meaning] of meanings) joined = joined.split(phrase).join(meaning);
    return new Set(joined.split(" ").filter(says));
  };

  // What leads to a page: [page's number, anchor, its words or null for an excerpt, words as a set, letters, heading]
  let entries, rarity, lastAsked = new Set();
  const readIndex = () => {
    const { docnames, indexentries, alltitles, titles } = Search._index;
    const add = (text, file, anchor, shown, heading = titles[file]) =>
      entries.push([file, anchor, shown, stems(text), letters(text), heading]);
    entries = [];
    for (const [entry, places] of Object.entries(indexentries)) {
      for (const [file, id] of places) {
        const onPage = id.startsWith("index-");  // without text of its own: the entry says why the page was found
        add(entry, file, onPage ? "" : `#${id}`, onPage ? entry : null);
      }
    }
    for (const [title, places] of Object.entries(alltitles)) {
      if (places.length > 4) continue;  // the same heading on every page of a kind
      for (const [file, id] of places) {
        if (titles[file] === title) add(title, file, "", null);
        else add(title, file, id ? `#${id}` : "", null, `${titles[file]}: ${title}`);
      }
    }
    for (const [page, names] of Object.entries(OTHER_NAMES.names)) {
      for (const name of names) add(name, docnames.indexOf(page), "", null);
    }
    docnames.forEach((page, file) => add(page.split("/").pop().replace(/^\d+_/, "").replaceAll(/[-_]/g, " "), file, "", null));
    const found = new Map();
    for (const [, , , words] of entries) words.forEach((word) => found.set(word, (found.get(word) ?? 0) + 1));
    rarity = (word) => found.has(word) ? Math.log(1 + entries.length / found.get(word)) : 1;
  };
  const weight = (words) => words.reduce((sum, word) => sum + rarity(word), 0);

  // From 0 to 100, how well an entry answers: what it holds of the question counts twice what it says besides (F2).
  const likeness = (asked, given) => {
    const shared = weight([...asked].filter((word) => given.has(word)));
    return shared && Math.round(500 * shared / (4 * weight([...asked]) + weight([...given])));
  };

  // What part of the question's words each page holds, up to 65: less than an entry that says the same.
  const pagesWith = (question) => {
    const { terms, titleterms, docnames } = Search._index;
    const words = [...new Set(stem(question))].filter(says);
    const files = (index, word) => Object.hasOwn(index, word) ? new Set([index[word]].flat()) : new Set();
    const known = words.map((word) => [files(terms, word), files(titleterms, word)]);
    const value = ([text, title]) => Math.log(1 + docnames.length / (1 + new Set([...text, ...title]).size));
    const all = known.filter(([text, title]) => text.size + title.size).reduce((sum, one) => sum + value(one), 0);
    return docnames.flatMap((page, file) => {
      const held = known.reduce((sum, one) => sum + (one[1].has(file) ? 1.3 : one[0].has(file) ? 1 : 0) * value(one), 0);
      const dull = /^(reference|notebooks\/exercises)\/|^real_bugs/.test(page) ? 0.85 : 1;
      return held ? [[file, Math.round(50 * dull * held / all)]] : [];
    });
  };

  Search._performSearch = (question) => {  // the last result is shown first
    if (!entries) readIndex();
    const { docnames, titles, filenames } = Search._index;
    const [asked, exactly, found] = [stems(question), letters(question), new Map()];
    lastAsked = asked;
    const add = (file, anchor, shown, score, kind, heading = titles[file]) => {
      const place = docnames[file] + anchor;
      if ((found.get(place)?.[4] ?? 0) >= score) return;
      found.set(place, [docnames[file], headingOf(docnames[file], anchor, heading), anchor, shown, score, filenames[file], kind]);
    };
    const held = new Map(pagesWith(question));
    for (const least of [50, 25]) {  // rather what answers half of a long question than nothing
      if (found.size > 2) break;
      for (const [file, anchor, shown, words, name, heading] of entries) {
        const score = name === exactly ? 140 : likeness(asked, words);
        if (score > least) add(file, anchor, shown, score + (held.get(file) ?? 0) * 0.6, "index", heading);
      }
      const listed = new Set([...found.values()].map(([page]) => page));
      for (const [file, score] of held) {
        if (score > least * 0.6 && !listed.has(docnames[file])) add(file, "", null, score, "text");
      }
    }
    return [...found.values()].sort((a, b) => a[4] - b[4] || (a[0] < b[0] ? 1 : -1));
  };

  // A result says which lesson or which term it is: several pages can have the same title, and terms share one page.
  const headingOf = (page, anchor, heading) => {
    const lesson = page.match(/^notebooks\/(\d+)_/);
    if (lesson) return `Lesson ${lesson[1]}: ${heading}`;
    if (anchor.startsWith("#term-")) return `${heading}: ${anchor.slice("#term-".length).replaceAll("-", " ")}`;
    const [name, owner] = anchor.split(".").reverse();
    if (page.startsWith("reference/") && owner) return `${heading}: ${/^[A-Z]/.test(owner) ? `${owner}.` : ""}${name}`;
    return heading;
  };

  // An excerpt is read when its result comes near the screen, and from the page's text alone.
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  let marked = new Set();
  const showExcerpt = async (item) => {
    const [page, anchor] = item.querySelector("a").getAttribute("href").split("#");
    const text = await fetch(`_static/articles/${page.replace(/html$/, "txt")}`).then((answer) => answer.text());
    item.append(Search.makeSearchSummary(text, null, anchor && `#${anchor}`));
    for (const word of marked) _highlightText(item, word, "highlighted");
  };
  const near = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach(({ target }) => {
    near.unobserve(target);
    showExcerpt(target);
  }), { rootMargin: "50%" });
  const watch = new MutationObserver((changes) => changes.flatMap((one) => [...one.addedNodes]).forEach((item) => {
    if (!item.querySelector(":scope > span")) near.observe(item);  // else the entry says why the page was found
  }));

  // A result that is opened marks the words there. Sphinx would mark them on whatever page is opened next.
  const MARKED = "sphinx_highlight_terms";
  const answer = Search.query;
  Search.query = (question) => {
    watch.observe(Search.output, { childList: true });
    marked = Search._parseQuery(question)[3];
    answer(question);
    const words = localStorage.getItem(MARKED);
    localStorage.removeItem(MARKED);
    for (const opened of ["click", "auxclick"]) {
      Search.output.addEventListener(opened, (event) => event.target.closest("a") && localStorage.setItem(MARKED, words));
    }
    Search.status.setAttribute("role", "status");  // so that it is read out
    if (!Search.output.childElementCount) Search.status.replaceChildren(...whatToTry(question));
  };

  const link = (href, text) => Object.assign(document.createElement("a"), { href, textContent: text });
  const whatToTry = (question) => {
    const meant = corrected(question);
    const again = meant ? ["Did you mean ", link(`?q=${encodeURIComponent(meant)}`, meant), "? Or try"] : ["Try"];
    return ["Nothing was found. ", ...again, " fewer or other words, such as the name of a function or what you notice of a "
      + "mistake, or look into the ", link("glossary.html", "glossary"), " or the ", link("mistakes/index.html", "list of mistakes"), "."];
  };

  // The question with each unknown word replaced by the most similar one that leads to a page; "" if there is none.
  const corrected = (question) => {
    const texts = [...Object.keys(Search._index.indexentries), ...Object.keys(Search._index.alltitles), ...Object.values(OTHER_NAMES.names).flat()];
    const known = new Set(texts.flatMap((text) => splitQuery(text.toLowerCase())).filter((word) => word.length > 3));
    const words = splitQuery(question.toLowerCase()).map((word) => {
      if (known.has(word) || word.length < 4) return word;
      const [apart, nearest] = [...known].map((other) => [edits(word, other), other]).sort((a, b) => a[0] - b[0])[0];
      return apart <= 1 + (word.length > 6) ? nearest : word;
    });
    return words.some((word) => known.has(word)) && words.join(" ") !== question.toLowerCase().trim() ? words.join(" ") : "";
  };

  // How many letters must be added, removed or replaced to make one word of another.
  const edits = (one, other) => {
    let row = [...other, ""].map((_, i) => i);
    for (const [i, letter] of [...one].entries()) {
      const above = row;
      row = [i + 1];
      for (let j = 0; j < other.length; j++) {
        row.push(Math.min(above[j + 1] + 1, row[j] + 1, above[j] + (letter !== other[j])));
      }
    }
    return row[other.length];
  };

  // The sentence of the article that answers best, and the next one if both are short.
  Search.makeSearchSummary = (html, _, anchor) => {
    const article = new DOMParser().parseFromString(html, "text/html");
    article.querySelectorAll(".headerlink, .buttons, .eyebrow, script, style, mjx-assistive-mml").forEach((element) => element.remove());
    const place = anchor ? article.getElementById(anchor.slice(1)) : article.querySelector("article.bd-article");
    const summary = document.createElement("p");
    summary.className = "context";
    summary.textContent = place?.matches("dt") ? meaningOf(place) : bestSentence(place?.closest("section, article") ?? place);
    return summary;
  };

  const meaningOf = (term) => {
    let meaning = term;  // a term may be followed by others of the same meaning
    while (meaning.nextElementSibling && !meaning.matches("dd")) meaning = meaning.nextElementSibling;
    return `${term.textContent.trim()}: ${meaning.textContent.trim()}`;
  };

  const bestSentence = (place) => {
    const texts = [...place?.querySelectorAll("p, li, dd") ?? []].filter((one) => !one.querySelector("p, li, dd"))
      .map((one) => one.textContent.trim().replace(/\s+/g, " "));
    const sentences = texts.flatMap((text) => text.split(/(?<=[.!?])\s+/)).filter((one) => one.length > 25);
    const answers = sentences.map((one) => weight([...stems(one)].filter((word) => lastAsked.has(word))));
    const best = Math.max(0, answers.indexOf(Math.max(...answers)));
    const [one = "", next = ""] = sentences.slice(best);
    return one.length + next.length < 220 ? `${one} ${next}` : one;
  };
}
