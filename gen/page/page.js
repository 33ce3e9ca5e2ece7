// What the page does beside its playgrounds: playgrounds start when they are opened, packed drawings are unpacked when their limit
// is, links open what they lead to, and the list of limits can be filtered.
for (const details of document.querySelectorAll("details.try")) details.hidden = false;

// Toggle events do not bubble.
document.addEventListener("toggle", event => {
  const details = event.target;
  if (!details.open) return;
  if (details.matches(".limit")) unpack(details);
  if (details.matches(".try")) play(details.querySelector("[data-play]"));
}, true);

function play(place) {
  if (place.playground) place.playground.wake();
  else place.playground = new Playground(place, JSON.parse(place.dataset.play));
}

// unpack fills the packed parts of a limit.
async function unpack(limit) {
  for (const place of limit.querySelectorAll("[data-packed]")) {
    const wanted = +place.dataset.packed;
    delete place.dataset.packed;
    try {
      place.innerHTML = await fragment(wanted);
      for (const details of place.querySelectorAll("details.try")) details.hidden = false;
    } catch (error) {
      place.textContent = "This browser cannot unpack the drawings: " + error.message;
    }
  }
}

// fragment returns the HTML of a packed part.
async function fragment(wanted) {
  const pack = [...document.querySelectorAll("script.pack")].findLast(pack => +pack.dataset.first <= wanted);
  const bytes = Uint8Array.from(atob(pack.textContent), c => c.charCodeAt(0));
  const text = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  return JSON.parse(await text)[wanted - pack.dataset.first];
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
