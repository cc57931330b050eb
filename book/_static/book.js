// Whatever is wider than the screen scrolls in a frame of its own, which the keyboard reaches and a reader hears the name of.
"use strict";

function frame(element, name) {
  const box = document.createElement("div");
  box.className = "scrolls";
  element.replaceWith(box);
  box.append(element);
  box.dataset.name = name;
}

function markOverflow() {
  for (const box of document.querySelectorAll(".scrolls, .bd-article pre")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", box.dataset.name || "Code or output, wider than the screen");
    } else {
      box.removeAttribute("tabindex");
      box.removeAttribute("role");
      box.removeAttribute("aria-label");
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(".bd-sidenav .has-children").forEach((item) => {  // the theme gives its arrows no name
    item.querySelector("summary")?.setAttribute("aria-label", `Pages of ${item.querySelector("a").textContent.trim()}`);
  });
  document.querySelectorAll(".bd-article figure img").forEach((image) => frame(image, "Picture, wider than the screen"));
  document.querySelectorAll(".bd-article table").forEach((table) => frame(table, "Table, wider than the screen"));
  markOverflow();
  window.addEventListener("load", markOverflow);
  window.addEventListener("resize", markOverflow);
  document.addEventListener("toggle", markOverflow, true);
});
