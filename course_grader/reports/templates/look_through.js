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

function decisions() {
  return cards
    .map((card) => [card.dataset.student, card.dataset.exercise, ...[...card.querySelectorAll("input")].map((each) => each.value.trim())])
    .filter(([, , points]) => points !== "");
}

function count() {
  const shown = cards.filter((card) => !card.hidden).length;
  const wrong = cards.filter((card) => !card.querySelector("[name=points]").checkValidity()).length;
  const refused = wrong ? `; in ${wrong} the points can't be given` : "";
  document.getElementById("count").textContent = `${shown} of ${cards.length} answers, ${decisions().length} decided${refused}.`;
  return wrong;
}

function quoted(cell) {
  return /[",\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

function download() {
  if (count()) return;
  const rows = [["student", "exercise", "points", "comment"], ...decisions()];
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
window.addEventListener("beforeunload", (event) => {
  if (!downloaded) event.preventDefault();
});
show();
