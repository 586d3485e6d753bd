"use strict";
const status = document.getElementById("status");

function valueOf(row, column) {
  const text = row.cells[column].dataset.value;
  if (text === undefined) return null;
  const number = Number(text);
  return text.trim() === "" || Number.isNaN(number) || row.cells[column].tagName === "TH" ? text.toLowerCase() : number;
}

function sortBy(header) {
  const table = header.closest("table");
  const column = header.cellIndex;
  const first = header.classList.contains("number") && column > 0 ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const direction = header.getAttribute("aria-sort") === first ? other : first;
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1;
  const rows = Array.from(table.tBodies[0].rows);
  rows.sort((a, b) => {
    const [x, y] = [valueOf(a, column), valueOf(b, column)];
    if (x === null || y === null) return (x === null) - (y === null) || a.dataset.order - b.dataset.order;
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a.dataset.order - b.dataset.order;
  });
  table.tBodies[0].append(...rows);
  status.textContent = "Sorted by " + header.textContent.trim() + ", " + direction + ".";
}

for (const header of document.querySelectorAll(".board thead th")) {
  header.querySelector("button").addEventListener("click", () => sortBy(header));
}
for (const choice of document.querySelectorAll("input[name=tier]")) {
  choice.addEventListener("change", () => {
    for (const section of document.querySelectorAll("section.tier")) {
      section.hidden = choice.value !== "all" && section.dataset.tier !== choice.value;
    }
    status.textContent = "Showing " + (choice.value === "all" ? "both tiers" : choice.value + " entries") + ".";
  });
}
