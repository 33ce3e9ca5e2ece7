// What the page does beside its playgrounds: playgrounds start when they are opened, links open what they lead to, and
// the list of limits can be filtered.
for (const details of document.querySelectorAll("details.try")) {
  details.hidden = false;
  details.addEventListener("toggle", () => {
    const place = details.querySelector("[data-play]");
    if (!details.open) return;
    if (place.playground) place.playground.wake();
    else place.playground = new Playground(place, JSON.parse(place.dataset.play));
  });
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const details = target.closest("details");
  if (details) details.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

const filter = document.querySelector("input.filter");
if (filter) {
  filter.closest("label").hidden = false;
  filter.addEventListener("input", () => {
    const wanted = filter.value.trim().toLowerCase();
    let shown = 0;
    for (const item of document.querySelectorAll("nav li")) {
      item.hidden = !item.textContent.toLowerCase().includes(wanted);
      if (!item.hidden) shown++;
    }
    document.querySelector(".found").textContent = wanted ? shown + " found" : "";
  });
}
