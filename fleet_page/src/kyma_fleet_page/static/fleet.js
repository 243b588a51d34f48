// Arrow keys move between the squares, so that the keyboard does not have to pass all of them one by one.
"use strict";
document.addEventListener("keydown", (event) => {
  const square = event.target.closest(".squares > a");
  if (!square) return;
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
