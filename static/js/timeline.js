/* Dragging over a GPU timeline asks the server for that stretch of time, and for those nodes where the drag goes down
   over several rows. The part comes as the links beside the drawing would bring it, at the same addresses. */
"use strict";

(() => {
  const DRAG_PX = 6, ROWS_DRAG_PX = 40;
  let begun = null;

  const part = document.getElementById("timeline");
  if (!part || !window.htmx) return;

  const go = address => window.htmx.ajax("GET", address, { target: part, swap: "innerHTML" }).then(() => history.pushState(null, "", address));
  const hint = () => part.querySelectorAll("[data-how]").forEach(each => { each.hidden = false; });

  /* The instant and the row's name under a point of the window. */
  const at = (svg, event) => {
    const place = svg.getBoundingClientRect(), said = svg.dataset, scale = place.width / svg.viewBox.baseVal.width;
    const [left, right, from, until] = [said.left, said.right, said.from, said.until].map(Number);
    const x = Math.min(Math.max((event.clientX - place.left) / scale, left), right);
    const y = (event.clientY - place.top) / scale, tops = said.rows.split(",").map(Number);
    const row = Math.max(tops.findLastIndex(top => top <= y), 0);
    return { s: from + (x - left) / (right - left) * (until - from), row };
  };

  const address = (svg, one, other, withRows) => {
    const asked = new URL(svg.closest("[data-timeline]").dataset.timeline, location.href);
    const begin = Date.parse(asked.searchParams.get("from")) - Number(svg.dataset.from) * 1000;
    const instant = s => new Date(begin + Math.round(s) * 1000).toISOString().replace(/\.\d+Z$/, "Z");
    const [from, until] = [Math.min(one.s, other.s), Math.max(one.s, other.s)];
    asked.searchParams.set("from", instant(from));
    asked.searchParams.set("until", instant(Math.max(until, from + 60)));
    if (withRows) {
      const names = svg.dataset.names.split(" ");
      asked.searchParams.set("nodes", `${names[Math.min(one.row, other.row)]}:${names[Math.max(one.row, other.row)]}`);
    }
    return asked.pathname + asked.search;
  };

  part.addEventListener("pointerdown", event => {
    const svg = event.target.closest("svg.timeline");
    if (!svg || event.button !== 0 || event.pointerType === "touch") return;
    const frame = svg.parentElement.appendChild(Object.assign(document.createElement("div"), { className: "timeline-frame" }));
    begun = { svg, event, frame, from: at(svg, event) };
  });
  part.addEventListener("dragstart", event => { if (event.target.closest("svg.timeline")) event.preventDefault(); });
  window.addEventListener("pointermove", event => {
    if (!begun) return;
    const place = begun.svg.parentElement.getBoundingClientRect(), first = begun.event;
    const isTall = Math.abs(event.clientY - first.clientY) > ROWS_DRAG_PX;
    Object.assign(begun.frame.style, {
      left: `${Math.min(first.clientX, event.clientX) - place.left}px`, width: `${Math.abs(event.clientX - first.clientX)}px`,
      top: isTall ? `${Math.min(first.clientY, event.clientY) - place.top}px` : "0",
      height: isTall ? `${Math.abs(event.clientY - first.clientY)}px` : "100%",
    });
  });
  window.addEventListener("pointerup", event => {
    if (!begun) return;
    const { svg, event: first, frame, from } = begun;
    begun = null;
    frame.remove();
    if (Math.abs(event.clientX - first.clientX) < DRAG_PX) return;
    window.addEventListener("click", click => click.preventDefault(), { once: true, capture: true });
    go(address(svg, from, at(svg, event), Math.abs(event.clientY - first.clientY) > ROWS_DRAG_PX));
  });

  part.addEventListener("click", event => {
    const link = event.target.closest("a[data-step]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  window.addEventListener("popstate", () => location.reload());
  document.addEventListener("htmx:load", hint);
  hint();
})();
