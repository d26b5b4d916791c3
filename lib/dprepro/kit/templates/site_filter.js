"use strict";
// Whether an entry with these attributes and this text is wanted: an empty wish wants everything.
function wanted(data, text, wish) {
  const fits = ["paper", "table", "found"].every((name) => !wish[name] || wish[name] === data[name]);
  return fits && wish.text.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
function filterPage() {
  const form = document.getElementById("filter");
  const all = [...document.querySelectorAll(".entry")];
  const texts = all.map((entry) => (entry.dataset.table + " " + entry.textContent).toLowerCase());
  function apply() {
    const wish = Object.fromEntries(new FormData(form));
    all.forEach((entry, i) => { entry.hidden = !wanted(entry.dataset, texts[i], wish); });
    for (const paper of document.querySelectorAll(".paper")) {
      paper.hidden = !paper.querySelector(".entry:not([hidden])");
    }
    form.elements.count.value = all.filter((entry) => !entry.hidden).length + " of " + all.length;
  }
  function unfold() {
    const entry = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (entry && entry.matches(".entry")) { entry.open = true; entry.scrollIntoView(); }
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  addEventListener("hashchange", unfold);
  form.hidden = false;
  apply();
  unfold();
}
if (typeof document !== "undefined") filterPage();
