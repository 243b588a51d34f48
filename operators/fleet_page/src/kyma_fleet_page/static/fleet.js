// A page that receives nothing says so, and loads itself anew once the server answers: signed out, that is the sign-in form.
"use strict";
const SILENT_MS = 4000;
let received = Date.now();
let asking = false;
document.addEventListener("htmx:sseMessage", (event) => {
  received = Date.now();
  if (event.detail.type === "signed-out") location.reload();
});
async function watch(banner) {
  if (document.hidden) return;
  const silent = Date.now() - received;
  banner.hidden = silent < SILENT_MS;
  if (banner.hidden || asking) return;
  const since = `Not live: last update at ${new Date(received).toLocaleTimeString()}. Trying to reconnect.`;
  if (banner.textContent !== since) banner.textContent = since;
  if (silent < SILENT_MS + 1000) return;
  asking = true; // and stays so while the page is loaded anew
  const ping = fetch("/ping", { cache: "no-store", signal: AbortSignal.timeout(SILENT_MS) });
  const answers = await ping.then((answer) => answer.status < 500, () => false);
  if (answers && Date.now() - received > SILENT_MS) location.reload();
  else asking = false;
}
if (document.querySelector("[sse-connect]")) setInterval(watch, 250, document.getElementById("stale"));

// A browser has six connections for all tabs of a host: those that are hidden leave theirs to the others.
let stream;
let resting = false;
function rest() {
  if (!stream || stream.readyState === EventSource.CLOSED) return;
  stream.close();
  resting = true;
}
htmx.createEventSource = (address) => {
  stream = new EventSource(address);
  if (document.hidden) rest();
  return stream;
};
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return rest();
  received = Date.now();
  if (resting) stream.onerror(); // htmx connects anew
  resting = false;
});

// Back shows the fleet as its address says, not as it was left.
addEventListener("pageshow", (event) => event.persisted && location.reload());

// What is typed filters the squares at once, and is in the address after Enter; what is chosen is there at once.
document.documentElement.classList.add("js");
document.querySelector("form.filters")?.addEventListener("change", (event) => event.target.matches("select") && event.currentTarget.requestSubmit());
document.querySelector("form.filters")?.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
});
// What is swapped in keeps what was opened, or closed although it is open at first, and where the keyboard was.
let shown = new Map();
let focused;
function place(each) {
  const around = each.closest("details > :not(summary)")?.parentElement.firstElementChild;
  const text = each.href ?? each.dataset.copy ?? each.textContent.replace(/^[^\p{L}]+/u, "").split(/ is |:/)[0];
  return `${around ? place(around) : each.closest("section")?.getAttribute("aria-labelledby")} ${text}`;
}
function remember() {
  const known = document.querySelectorAll("details:is([open], [data-open]) > summary");
  shown = new Map([...known].map((each) => [place(each), each.parentElement.open]));
  focused = document.activeElement.matches("a, button, summary") && place(document.activeElement);
}
function restore() {
  for (const each of document.querySelectorAll("details > summary")) each.parentElement.open = shown.get(place(each)) ?? each.parentElement.open;
  if (!focused || document.activeElement !== document.body) return;
  [...document.querySelectorAll("a, button, summary")].find((each) => place(each) === focused)?.focus({ preventScroll: true });
}
for (const event of ["htmx:beforeSwap", "htmx:sseBeforeMessage"]) document.addEventListener(event, remember);
for (const event of ["htmx:afterSwap", "htmx:sseMessage"]) document.addEventListener(event, restore);
// Until Enter, what comes of the worst clusters is filtered by the address alone, so they are loaded with what is typed.
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  const typed = [...document.querySelectorAll("form.filters input")].some((each) => each.value !== each.defaultValue);
  if (event.detail.type !== "worst" || !typed) return;
  event.preventDefault();
  htmx.trigger("#squares", "sse:reload");
});
// A square that has changed is another one: it stays the one that Tab leads to.
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => (detail.fragment.firstElementChild.tabIndex = detail.target.tabIndex));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const names = new Set([...document.querySelectorAll(button.dataset.copyNames)].map((each) => decodeURIComponent(each.pathname.slice(7))));
  await navigator.clipboard.writeText(button.dataset.copy ?? [...names].join("\n"));
  const said = (button.getAttribute("aria-label") ?? button.textContent).replace(/^Copy/, "Copied");
  document.getElementById("said").textContent = said;
  button.removeAttribute("aria-label");
  button.textContent = "Copied";
});

// Arrow keys move between the squares, so that the keyboard does not have to pass all of them one by one.
document.addEventListener("keydown", (event) => {
  const square = event.target.closest(".squares > a");
  if (!square || event.altKey || event.ctrlKey || event.metaKey) return;
  const all = [...square.parentElement.children];
  const perRow = Math.max(1, all.findIndex((each) => each.offsetTop > all[0].offsetTop));
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow };
  const next = event.key === "Home" ? all[0] : event.key === "End" ? all[all.length - 1] : all[all.indexOf(square) + steps[event.key]];
  if (!next) return;
  event.preventDefault();
  square.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
