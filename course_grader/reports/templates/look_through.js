"use strict";
const cards = [...document.querySelectorAll("article")];
const choice = document.getElementById("choice");
let downloaded = true;

function show() {
  const wanted = new FormData(choice);
  const name = wanted.get("name").trim().toLowerCase();
  for (const card of cards) {
    const { exercise, state, shown } = card.dataset;
    card.hidden = !((!wanted.get("exercise") || exercise === wanted.get("exercise"))
      && (!wanted.get("state") || state === wanted.get("state"))
      && shown.toLowerCase().includes(name));
  }
  count();
}

function decided(card) {
  const [points, comment] = [...card.querySelectorAll("input")].map((each) => each.value.trim());
  return [card.dataset.student, card.dataset.exercise, points.replace(",", "."), comment];
}

// A field of type "number" would make 05 of 0,5 without a word, and count on when a mouse's wheel turns over it.
function isWrong(card) {
  const field = card.querySelector("[name=points]");
  const [, , points] = decided(card);
  const wrong = points !== "" && !(/^(\d+\.?\d*|\.\d+)$/.test(points) && Number(points) <= Number(field.dataset.most));
  field.setAttribute("aria-invalid", wrong);
  return wrong;
}

function count() {
  const shown = cards.filter((card) => !card.hidden).length;
  const wrong = cards.filter(isWrong);
  const rows = cards.map(decided);
  const bare = rows.filter(([, , points, comment]) => comment && !points).length;
  const refused = wrong.length ? `; in ${wrong.length} the points can't be given` : "";
  const lost = bare ? `; ${bare} with a comment and no points, which doesn't count` : "";
  document.getElementById("count").textContent =
    `${shown} of ${cards.length} answers, ${rows.filter((row) => row[2]).length} decided${refused}${lost}.`;
  return wrong;
}

function goTo(card) {
  if (card.hidden) {
    choice.reset();
    show();
  }
  card.querySelector("[name=points]").focus();
}

function quoted(cell) {
  return /[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

function download() {
  const [wrong] = count();
  if (wrong) {
    goTo(wrong);
    return;
  }
  const rows = [["student", "exercise", "points", "comment"], ...cards.map(decided).filter((row) => row[2])];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows.map((row) => row.map(quoted).join(",") + "\n").join("")], { type: "text/csv" }));
  link.download = "decisions.csv";
  link.click();
  downloaded = true;
}

choice.addEventListener("input", show);
choice.addEventListener("submit", (event) => event.preventDefault());
document.getElementById("download").addEventListener("click", download);
document.addEventListener("input", (event) => {
  if (event.target.closest("article")) {
    downloaded = false;
    count();
  }
});
document.addEventListener("keydown", (event) => {
  const card = event.target.closest("article");
  if (event.key === "Enter" && card) {
    const next = cards.slice(cards.indexOf(card) + 1).find((each) => !each.hidden);
    if (next) goTo(next);
  }
});
window.addEventListener("beforeunload", (event) => {
  if (!downloaded) event.preventDefault();
});
show();
