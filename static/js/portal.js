/* What pages do beyond links and forms. Everything here is an addition: each page works without it. */
"use strict";

(() => {
  /* A meaning that covers what one wants to read goes away with Escape, until the pointer comes back. */
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") document.querySelectorAll(".term").forEach(term => term.classList.add("quiet"));
  });
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, event => event.target.closest(".term")?.classList.remove("quiet"));
  }

  /* Copy as text: the link leads to the text itself; with a script it goes to the clipboard at once. */
  const copy = async link => {
    const answer = await fetch(link.href, { headers: { Accept: "text/plain" } });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    await navigator.clipboard.writeText(await answer.text());
    link.textContent = document.body.dataset.copied;
  };
  document.addEventListener("click", event => {
    const link = event.target.closest("a[data-copy]");
    if (!link || event.ctrlKey || event.metaKey || !navigator.clipboard) return;
    event.preventDefault();
    copy(link).catch(() => { window.location.href = link.href; });
  });

  /* Selects marked so submit their form when they change; without a script there is the button. */
  document.addEventListener("change", event => {
    if (event.target.matches("select[data-submits]")) event.target.form.requestSubmit();
  });

  /* What scrolls sideways can be reached, and so scrolled, by the keyboard; what does not is no stop on the way. */
  const reachable = () => document.querySelectorAll(".wrap, .timeline-box").forEach(box => {
    const scrolls = box.scrollWidth > box.clientWidth + 1 && !box.querySelector("a, button, input, select, textarea");
    if (scrolls === box.hasAttribute("tabindex")) return;
    if (!scrolls) { box.removeAttribute("tabindex"); box.removeAttribute("role"); box.removeAttribute("aria-label"); return; }
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", box.querySelector("caption")?.textContent.trim() || document.querySelector("h1")?.textContent.trim() || "");
  });
  new ResizeObserver(reachable).observe(document.body);
  document.addEventListener("htmx:load", reachable);
  document.addEventListener("toggle", reachable, true);

  /* A form is sent once: a second click on its button does nothing while the first is under way. */
  document.addEventListener("submit", event => {
    if (event.target.method !== "post" || event.defaultPrevented) return;
    if (event.target.dataset.sent === "yes") { event.preventDefault(); return; }
    event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach(form => delete form.dataset.sent);
  });

  /* A part that refreshes itself waits while somebody selects or types in it, so that nothing changes under them. */
  const TYPED_IN = "input:not([type=checkbox], [type=radio]), select, textarea";
  const isBeingUsed = part => {
    const selection = window.getSelection();
    const focused = document.activeElement;
    return (part.contains(focused) && focused.matches(TYPED_IN))
      || (selection && !selection.isCollapsed && part.contains(selection.anchorNode));
  };
  document.addEventListener("htmx:beforeRequest", event => {
    const part = event.detail.elt;
    if (part.matches("[data-refreshes]") && (document.hidden || isBeingUsed(part))) event.preventDefault();
  });

  /* What grew or shrank above the row one is reading must not push it: keep that row where it was. */
  let anchor = null;
  /* Details that were opened, or closed, stay so; and what has the focus keeps it. */
  const nameOf = detail => detail.id || detail.querySelector("summary")?.textContent.trim();
  const addressOf = element => {
    if (element.id) return `#${CSS.escape(element.id)}`;
    const row = element.closest("[data-row]");
    const within = row ? `[data-row="${CSS.escape(row.dataset.row)}"] ` : "";
    if (element.matches("a[href]")) return `${within}a[href="${CSS.escape(element.getAttribute("href"))}"]`;
    const detail = element.closest("details[id]");
    return detail && element.matches("summary") ? `#${CSS.escape(detail.id)} > summary` : null;
  };
  let opened = null;
  let focused = null;
  document.addEventListener("htmx:beforeSwap", event => {
    const target = event.detail.target;
    const details = [...target.querySelectorAll("details")].filter(nameOf);
    opened = new Map(details.map(each => [nameOf(each), each.open]));
    const active = document.activeElement;
    focused = active && target !== active && target.contains(active) ? addressOf(active) : null;
  });
  document.addEventListener("htmx:afterSwap", event => {
    const part = event.detail.target;   /* none, where a page comes back out of the history */
    if (part && opened) part.querySelectorAll("details").forEach(each => { const was = opened.get(nameOf(each)); if (was !== undefined) each.open = was; });
    if (focused) document.querySelector(focused)?.focus({ preventScroll: true });
    opened = focused = null;
  });
  document.addEventListener("htmx:beforeSwap", event => {
    const rows = [...event.detail.target.querySelectorAll("[data-row]")];
    const row = rows.find(each => each.getBoundingClientRect().top >= 0);
    anchor = row && window.scrollY > 0 ? { row: row.dataset.row, top: row.getBoundingClientRect().top } : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (!anchor) return;
    const row = document.querySelector(`[data-row="${CSS.escape(anchor.row)}"]`);
    if (row) window.scrollBy(0, row.getBoundingClientRect().top - anchor.top);
    anchor = null;
  });

  const say = text => {
    const place = document.querySelector("#connection");
    if (place) place.textContent = text;
  };
  ["htmx:sendError", "htmx:responseError", "htmx:timeout"].forEach(name => document.addEventListener(name, () => say(document.body.dataset.noAnswer)));
  document.addEventListener("htmx:afterOnLoad", () => say(""));
})();
