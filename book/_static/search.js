// The book's search: what a reader notices leads to its cause, and an excerpt is taken from the article alone.
"use strict";

if (typeof Search !== "undefined") {  // on the search page only
  const stemmer = new Stemmer();
  const stems = (text) => new Set(splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word)
    && !/^\d+$/.test(word)).map((word) => stemmer.stemWord(word)));
  const letters = (text) => splitQuery(text.toLowerCase()).join("");  // flash attention is FlashAttention

  // From 0 to 100: how many words a question and an entry share, in any order; one word of several is no likeness.
  const likeness = (question, entry) => {
    if (letters(question) === letters(entry)) return 100;
    const [asked, given] = [stems(question), stems(entry)];
    const shared = [...given].filter((word) => asked.has(word)).length;
    const score = Math.round(200 * shared / (asked.size + given.size));
    return shared > 1 || score === 100 ? score : 0;
  };

  // Results from the book's index, of each place its best entry.
  const entriesLike = (question) => {
    const { docnames, titles, filenames, indexentries } = Search._index;
    const found = new Map();
    for (const [entry, places] of Object.entries(indexentries)) {
      const score = likeness(question, entry);
      if (score <= 50) continue;
      for (const [file, id] of places) {
        const onPage = id.startsWith("index-");  // without text of its own: the entry says why the page was found
        const [anchor, words] = onPage ? ["", entry] : [`#${id}`, null];
        const place = docnames[file] + anchor;
        if (found.get(place)?.[4] >= score) continue;
        found.set(place, [docnames[file], titles[file], anchor, words, score, filenames[file], "index"]);
      }
    }
    return found;
  };

  const search = Search._performSearch;
  Search._performSearch = (question, ...rest) => {  // the last result is shown first
    const found = entriesLike(question);
    const others = search(question, ...rest).filter(([page, , anchor]) => !anchor.startsWith("#index-") && !found.has(page + anchor));
    return [...others, ...[...found.values()].sort((a, b) => a[4] - b[4])];
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
