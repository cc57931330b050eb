// The book's search: what a reader notices, and each name of a thing, leads to its page; excerpts are sentences.
// It ranks by itself what Sphinx's index holds; OTHER_NAMES is book/search.toml, which conf.py writes into the search page.
"use strict";

if (typeof Search !== "undefined") {  // on the search page only
  const stemmer = new Stemmer();
  const empty = new Set("do does did my me i we you your how why what when which can has have vs versus than one am get got use used using just should would there".split(" "));
  const letters = (text) => splitQuery(text.toLowerCase()).join("");  // flash attention is FlashAttention
  const stem = (text) => splitQuery(text.toLowerCase().replace(/(does|do|is|are|was|did|can)n['’]?t\b|\bcannot\b/g, "not")).map((word) => stemmer.stemWord(word));
  const meanings = OTHER_NAMES.same.flatMap((group, number) => group.map((phrase) =>
    [` ${stem(phrase).join(" ")} `, ` =${number} `])).sort((a, b) => b[0].length - a[0].length);

  // The words of a text without their endings; words and phrases of one meaning become one word.
  const stems = (text) => {
    const words = stem(text).filter((word) => word === "not" || word === "no" || !empty.has(word));
    let joined = ` ${words.join("  ")} `.replaceAll("  ", " ");
    for (const [phrase, meaning] of meanings) joined = joined.split(phrase).join(meaning);
    return new Set(joined.split(" ").filter((word) => word && !stopwords.has(word) && !/^\d+$/.test(word)));
  };

  // What leads to a page: [page's number, anchor, its words or null for an excerpt, words as a set, letters]
  let entries, rarity;
  const readIndex = () => {
    const { docnames, indexentries, alltitles, titles } = Search._index;
    const add = (text, file, anchor, shown) => entries.push([file, anchor, shown, stems(text), letters(text)]);
    entries = [];
    for (const [entry, places] of Object.entries(indexentries)) {
      for (const [file, id] of places) {
        const onPage = id.startsWith("index-");  // without text of its own: the entry says why the page was found
        add(entry, file, onPage ? "" : `#${id}`, onPage ? entry : null);
      }
    }
    for (const [title, places] of Object.entries(alltitles)) {
      for (const [file, id] of places) add(title, file, id && titles[file] !== title ? `#${id}` : "", null);
    }
    for (const [page, names] of Object.entries(OTHER_NAMES.names)) {
      for (const name of names) add(name, docnames.indexOf(page), "", null);
    }
    const found = new Map();
    for (const [, , , words] of entries) words.forEach((word) => found.set(word, (found.get(word) ?? 0) + 1));
    rarity = (word) => Math.log(1 + entries.length / (1 + (found.get(word) ?? 0)));
  };
  const weight = (words) => words.reduce((sum, word) => sum + rarity(word), 0);

  // From 0 to 100, how well an entry answers: what it holds of the question counts twice what it says besides (F2).
  const likeness = (asked, given) => {
    const shared = weight([...asked].filter((word) => given.has(word)));
    return shared && Math.round(500 * shared / (4 * weight([...asked]) + weight([...given])));
  };

  // Pages whose text holds most of the question's words, less likely than an entry that says the same.
  const pagesWith = (question) => {
    const { terms, titleterms, docnames } = Search._index;
    const words = [...new Set(stem(question))].filter((word) => word.length > 1 && !stopwords.has(word) && !empty.has(word)
      && !/^\d+$/.test(word));
    const files = (index, word) => Object.hasOwn(index, word) ? new Set([index[word]].flat()) : new Set();
    const known = words.map((word) => [files(terms, word), files(titleterms, word)]);
    const value = ([text, title]) => Math.log(1 + docnames.length / (1 + new Set([...text, ...title]).size));
    const all = known.reduce((sum, one) => sum + value(one), 0);
    return docnames.flatMap((page, file) => {
      const held = known.reduce((sum, one) => sum + (one[1].has(file) ? 1.3 : one[0].has(file) ? 1 : 0) * value(one), 0);
      const dull = /^(reference|notebooks\/exercises)\/|^real_bugs/.test(page) ? 0.85 : 1;
      return held > 0.6 * all ? [[file, Math.round(50 * dull * held / all)]] : [];
    });
  };

  Search._performSearch = (question) => {  // the last result is shown first
    if (!entries) readIndex();
    const { docnames, titles, filenames } = Search._index;
    const [asked, exactly, found] = [stems(question), letters(question), new Map()];
    const add = (file, anchor, shown, score, kind) => {
      const place = docnames[file] + anchor;
      if ((found.get(place)?.[4] ?? 0) < score) found.set(place, [docnames[file], titles[file], anchor, shown, score, filenames[file], kind]);
    };
    for (const [file, anchor, shown, words, name] of entries) {
      const score = name === exactly ? 100 : likeness(asked, words);
      if (score > 50) add(file, anchor, shown, score, "index");
    }
    const listed = new Set([...found.values()].map(([page]) => page));
    for (const [file, score] of pagesWith(question)) if (!listed.has(docnames[file])) add(file, "", null, score, "text");
    return [...found.values()].sort((a, b) => a[4] - b[4] || (a[0] < b[0] ? 1 : -1));
  };

  Search.htmlToText = (html, anchor) => {
    const article = new DOMParser().parseFromString(html, "text/html").querySelector("article.bd-article");
    article?.querySelectorAll(".headerlink, script, style").forEach((element) => element.remove());
    const place = anchor ? article?.querySelector(anchor) : article;
    if (!place?.matches("dt")) return place?.textContent ?? "";
    let meaning = place;  // a term may be followed by others of the same meaning
    while (meaning.nextElementSibling && !meaning.matches("dd")) meaning = meaning.nextElementSibling;
    return `${place.textContent.trim()}: ${meaning.textContent.trim()}`;
  };
}
