/* Draws every figure that carries its own data: <figure data-chart> with a JSON script and a .plot inside.
   Colours in the data are roles ("role:delivered", "role:short/14" at 14 %), resolved here from the style sheet,
   since plotly cannot read light-dark(), and again whenever the theme changes. */
"use strict";

(() => {
  const NARROW_PX = 640;
  const language = document.documentElement.lang || "en";
  const named = (options, month, day) =>
    new Intl.DateTimeFormat(language, { timeZone: "UTC", ...options }).format(Date.UTC(2023, month, day));
  const weekdays = style => [...Array(7).keys()].map(index => named({ weekday: style }, 0, 1 + index)); /* from Sunday */
  const months = style => [...Array(12).keys()].map(index => named({ month: style }, index, 1));
  const locales = { [language]: { dictionary: {}, format: {
    days: weekdays("long"), shortDays: weekdays("short"), months: months("long"), shortMonths: months("short"),
  } } };
  const probe = document.createElement("i");
  probe.hidden = true;

  const role = (name, percent) => {
    probe.style.color = `var(--${name})`;
    const solid = getComputedStyle(probe).color;
    if (percent === undefined) return solid;
    const channels = solid.match(/[\d.]+/g).slice(0, 3);
    return `rgba(${channels.join(", ")}, ${percent / 100})`;
  };

  const resolved = value => {
    if (typeof value === "string" && value.startsWith("role:")) {
      const [name, percent] = value.slice(5).split("/");
      return role(name, percent === undefined ? undefined : Number(percent));
    }
    if (Array.isArray(value)) return value.map(resolved);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolved(inner)]));
    }
    return value;
  };

  const draw = figure => {
    const plot = figure.querySelector(".plot");
    const spec = resolved(JSON.parse(figure.querySelector("script[type='application/json']").textContent));
    const layout = spec.layout;
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: role("ink-2") };
    layout.hoverlabel = { bgcolor: role("bg-raised"), bordercolor: role("line-2"), font: { color: role("ink"), size: 12 } };
    if (plot.clientWidth < NARROW_PX) {
      layout.margin.r = 8;
      layout.annotations = (layout.annotations || []).filter(note => note.name !== "edge");
    }
    window.Plotly.react(plot, spec.data, layout, { displayModeBar: false, responsive: true, locale: language, locales });
    plot.querySelectorAll(".main-svg").forEach(svg => svg.setAttribute("aria-hidden", "true"));
    figure.dataset.drawn = "yes";
  };

  const figures = within => [...within.querySelectorAll("figure[data-chart]")];
  const drawAll = within => figures(within).forEach(draw);
  const forget = within => figures(within).forEach(figure => window.Plotly.purge(figure.querySelector(".plot")));

  document.addEventListener("DOMContentLoaded", () => {
    document.body.append(probe);
    drawAll(document);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(document));
    document.addEventListener("htmx:beforeSwap", event => forget(event.detail.target));
    document.addEventListener("htmx:load", event => drawAll(event.detail.elt));
  });
})();
