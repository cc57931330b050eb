// Whatever is wider than the screen scrolls in a frame of its own, which the keyboard reaches and a reader hears the name of.
"use strict";

function frame(element, name) {
  const edges = document.createElement("div");  // stays where it is, with a shade at each end that hides something
  const box = document.createElement("div");
  edges.className = "edges";
  box.className = "scrolls";
  element.replaceWith(edges);
  edges.append(box);
  box.append(element);
  box.dataset.name = name;
  box.addEventListener("scroll", () => markEdges(box), { passive: true });
}

function markEdges(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  box.parentElement.classList.toggle("more-left", box.scrollLeft > 1);
  box.parentElement.classList.toggle("more-right", box.scrollLeft < hidden - 1);
}

function markOverflow() {
  for (const image of document.querySelectorAll(".scrolls > img")) {  // a picture a little too wide is shown smaller
    image.classList.toggle("nearly", image.naturalWidth <= 1.35 * image.closest(".scrolls").clientWidth);
  }
  for (const box of document.querySelectorAll(".scrolls, .bd-article pre")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", box.dataset.name ? "region" : "group");
      box.setAttribute("aria-label", box.dataset.name || "Code or output, wider than the screen");
    } else {
      box.removeAttribute("tabindex");
      box.removeAttribute("role");
      box.removeAttribute("aria-label");
    }
    if (box.dataset.name) markEdges(box);
  }
}

// The theme's menus, without Bootstrap's script, which is larger than all others of a page together.
function openMenus() {
  const show = (opened) => document.querySelectorAll(".dropdown-toggle").forEach((button) => {
    button.classList.toggle("show", button === opened);
    button.setAttribute("aria-expanded", button === opened);
  });
  document.addEventListener("click", ({ target }) => {
    const button = target.closest(".dropdown-toggle");
    show(button?.classList.contains("show") ? null : button);
  });
  document.addEventListener("keydown", ({ key }) => {
    const opened = document.querySelector(".dropdown-toggle.show");
    if (key !== "Escape" || !opened) return;
    show(null);
    opened.focus();
  });
  document.addEventListener("focusin", ({ target }) => target.closest(".dropdown") || show(null));
}

// Paper is white: while a page is printed it has the light theme, whichever the screen has.
let themeOnScreen;
function lightOnPaper(printing) {
  const { dataset } = document.documentElement;
  if (printing && dataset.theme !== "light") {
    themeOnScreen = dataset.theme;
    dataset.theme = "light";
  } else if (!printing && themeOnScreen) {
    dataset.theme = themeOnScreen;
    themeOnScreen = undefined;
  }
}
addEventListener("beforeprint", () => lightOnPaper(true));
addEventListener("afterprint", () => lightOnPaper(false));
matchMedia("print").addEventListener("change", ({ matches }) => lightOnPaper(matches));  // some browsers tell only this

// A figure that moves says how high it is.
addEventListener("message", ({ source, data }) => {
  const frame = [...document.querySelectorAll(".moving-figure")].find(({ contentWindow }) => contentWindow === source);
  if (frame && data.height > 0) frame.style.height = `${Math.ceil(data.height)}px`;
});

document.addEventListener("DOMContentLoaded", () => {
  openMenus();
  const sidebar = document.querySelector(".bd-sidebar-primary");  // the theme's is no landmark, though the logo is in it
  sidebar?.setAttribute("role", "region");
  sidebar?.setAttribute("aria-label", "Site");
  document.querySelectorAll(".bd-sidenav .has-children").forEach((item) => {  // the theme gives its arrows no name
    item.querySelector("summary")?.setAttribute("aria-label", `Pages of ${item.querySelector("a").textContent.trim()}`);
  });
  for (const [selector, kind] of [["figure img", "Picture"], ["table", "Table"]]) {
    document.querySelectorAll(`.bd-article ${selector}`).forEach((element, number) => {
      frame(element.closest("picture") ?? element, `${kind} ${number + 1}, wider than the screen`);
    });
  }
  markOverflow();
  window.addEventListener("load", markOverflow);
  // Not at the window's resize: the theme's sidebar takes its room only afterwards.
  const article = document.querySelector(".bd-article");
  if (article) new ResizeObserver(() => requestAnimationFrame(markOverflow)).observe(article);
  document.addEventListener("toggle", markOverflow, true);
});
