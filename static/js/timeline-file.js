/* Zoom on a timeline file: inflates the runs that the file holds and draws any part of them on a canvas over the
   drawing of the whole. All panels show the same part. The file works without this: then it shows the whole. */
"use strict";

(() => {
  const DEVICE = 1000, TICKS = 8, DRAG_PX = 6, ROWS_DRAG_PX = 40, LETTER_PX = 7;
  const STEPS_S = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 604800, 1209600, 2592000];
  const find = selector => document.querySelector(selector);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const inflate = async text => {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  };

  const words = seconds => {
    let rest = Math.abs(Math.round(seconds)), said = "";
    for (const [unit, letter] of [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]]) {
      const count = Math.floor(rest / unit);
      rest -= count * unit;
      if (count) said += `${count}${letter}`;
    }
    return (seconds < 0 && said ? "−" : "") + (said || "0");
  };

  /* Bars as objects of absolute instants; the differences are docs/developers.md's, "Timeline files". */
  const barsOf = data => {
    let start = 0;
    return data.start.map((step, i) => {
      start += step;
      const at = name => (data[name][i] < 0 ? null : start + data[name][i]);
      const end = at("end") ?? data.now;
      const told = Math.min(at("told") ?? end, end);
      const funded = data.team[i] % 2 === 1;
      const running = funded ? Math.min(at("running") ?? told, told) : told;
      const over = funded ? Math.min(Math.max(at("contract") ?? told, running), told) : told;
      return {
        node: data.node[i], lane: data.lane[i], size: data.size[i], start, running, over, told, end, funded,
        team: data.team[i] >> 1, name: data.workloads[data.names[i]],
        taker: data.taken[i] < 0 ? null : data.workloads[data.taken[i]],
      };
    });
  };

  const hatch = (context, ink, ground) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    if (ground) { pen.fillStyle = ground; pen.fillRect(0, 0, 8, 8); }
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    for (const x of [-8, 0, 8]) { pen.beginPath(); pen.moveTo(x, 8); pen.lineTo(x + 8, 0); pen.stroke(); }
    return context.createPattern(tile, "repeat");
  };

  class Panel {
    constructor(figure, data) {
      this.data = data;
      this.bars = barsOf(data);
      this.box = figure.querySelector(".drawing");
      this.svg = this.box.querySelector("svg");
      this.canvas = this.box.appendChild(document.createElement("canvas"));
      this.canvas.hidden = true;
      const said = this.svg.dataset;
      [this.left, this.right, this.top, this.bottom] = [said.left, said.right, said.top, said.bottom].map(Number);
      this.hits = [];
    }

    scale() { return this.svg.getBoundingClientRect().width / this.svg.viewBox.baseVal.width; }

    /* The instant and the row under a point of the window. */
    at(event, view) {
      const place = this.svg.getBoundingClientRect(), scale = this.scale();
      const x = (event.clientX - place.left) / scale, y = (event.clientY - place.top) / scale;
      const part = Math.min(Math.max((x - this.left) / (this.right - this.left), 0), 1);
      const row = Math.min(Math.max((y - this.top) / (this.bottom - this.top), 0), 0.9999);
      return { s: view.from + part * (view.until - view.from), row: Math.floor(view.first + row * (view.end - view.first)), x, y };
    }

    draw(view, isWhole) {
      this.canvas.hidden = isWhole;
      this.svg.style.visibility = isWhole ? "" : "hidden";
      if (isWhole) return;
      const scale = this.scale(), ratio = window.devicePixelRatio || 1;
      const { width, height } = this.svg.viewBox.baseVal;
      this.canvas.width = width * scale * ratio;
      this.canvas.height = height * scale * ratio;
      const pen = this.canvas.getContext("2d");
      pen.scale(scale * ratio, scale * ratio);
      pen.font = "12px system-ui, sans-serif";
      const rows = this.data.rows.slice(view.first, view.end), size = rows.reduce((sum, row) => sum + row[1], 0);
      const gap = rows.length > 64 ? 0.5 : 2, room = this.bottom - this.top - gap * rows.length;
      const device = room / (size / DEVICE);
      const tops = [];
      rows.reduce((y, row) => { tops.push(y); return y + row[1] / DEVICE * device + gap; }, this.top);
      const x = s => this.left + (Math.min(Math.max(s, view.from), view.until) - view.from) * (this.right - this.left) / (view.until - view.from);
      this.ground(pen, view, rows, tops, device, x);
      this.drawBars(pen, view, tops, device, x);
      this.axis(pen, view, rows, tops, x);
    }

    ground(pen, view, rows, tops, device, x) {
      pen.fillStyle = colour("bg");
      pen.fillRect(0, 0, this.svg.viewBox.baseVal.width, this.svg.viewBox.baseVal.height);
      rows.forEach((row, i) => {
        pen.fillStyle = colour("bg-sunk");
        pen.fillRect(this.left, tops[i], this.right - this.left, row[1] / DEVICE * device);
      });
      for (const [node, from, until] of this.data.unfit) {
        if (node < view.first || node >= view.end || until <= view.from || from >= view.until) continue;
        const high = rows[node - view.first][1] / DEVICE * device, y = tops[node - view.first];
        pen.fillStyle = colour("line");
        pen.fillRect(x(from), y, x(until) - x(from), high);
        pen.fillStyle = colour("ink-3");
        for (let at = x(from); at < x(until); at += 5) pen.fillRect(at, y, 0.7, high);
      }
    }

    drawBars(pen, view, tops, device, x) {
      const ground = colour("bg"), red = colour("short"), over = hatch(pen, `${ground}aa`);
      const fills = this.data.teams.map(([, hue]) => colour(`team-${hue}`));
      const free = fills.map(fill => hatch(pen, fill, colour("bg-sunk")));
      this.hits = [];
      for (const bar of this.bars) {
        if (bar.start >= view.until) break;
        if (bar.end <= view.from || bar.node < view.first || bar.node >= view.end) continue;
        const y = tops[bar.node - view.first] + bar.lane / DEVICE * device, high = bar.size / DEVICE * device;
        const piece = (fill, from, until, thin) => {
          if (until <= view.from || from >= view.until || until <= from) return;
          pen.fillStyle = fill;
          pen.fillRect(x(from), y + high * (1 - thin) / 2, Math.max(x(until) - x(from), 0.3), high * thin);
        };
        const fill = fills[bar.team];
        if (bar.funded) {
          piece(fill, bar.start, bar.running, 0.5);
          piece(fill, bar.running, bar.told, 1);
          piece(over, bar.over, bar.told, 1);
        } else {
          piece(free[bar.team], bar.start, bar.told, 1);
        }
        piece(fill, bar.told, bar.end, 0.5);
        const left = x(bar.start), right = x(bar.end);
        if (!bar.funded && right - left > 2 && high > 3) {
          pen.strokeStyle = fill;
          pen.lineWidth = 1;
          pen.strokeRect(left + 0.5, y + 0.5, right - left - 1, high - 1);
        }
        if (bar.taker && bar.end <= view.until) this.taken(pen, red, ground, right, y, high, right - left);
        this.hits.push([left, y, right, y + high, bar]);
        if (high >= 11 && right - left > bar.name.length * LETTER_PX + 12) {
          pen.lineWidth = 3;
          pen.strokeStyle = ground;
          pen.fillStyle = colour("ink");
          pen.strokeText(bar.name, left + 8, y + Math.min(high, 18) / 2 + 4);
          pen.fillText(bar.name, left + 8, y + Math.min(high, 18) / 2 + 4);
        }
      }
    }

    taken(pen, red, ground, right, y, high, wide) {
      pen.fillStyle = red;
      pen.fillRect(right - Math.min(3, wide), y, Math.min(3, wide), high);
      if (high < 10 || wide < 12) return;
      pen.beginPath();
      pen.moveTo(right - 1, y + high / 2 - 5);
      pen.lineTo(right + 7, y + high / 2);
      pen.lineTo(right - 1, y + high / 2 + 5);
      pen.closePath();
      pen.strokeStyle = ground;
      pen.lineWidth = 1.5;
      pen.stroke();
      pen.fill();
    }

    axis(pen, view, rows, tops, x) {
      const span = view.until - view.from, step = STEPS_S.find(each => span <= each * TICKS) || STEPS_S.at(-1);
      pen.fillStyle = colour("ink-2");
      pen.textAlign = "center";
      for (let at = Math.ceil(view.from / step) * step; at <= view.until; at += step) {
        pen.strokeStyle = colour("line-2");
        pen.lineWidth = 0.5;
        pen.beginPath();
        pen.moveTo(x(at), this.top);
        pen.lineTo(x(at), this.bottom + 4);
        pen.stroke();
        pen.fillText(words(at), Math.min(x(at), this.right - 8), this.bottom + 18);
      }
      pen.textAlign = "start";
      let below = -99;
      rows.forEach((row, i) => {
        if (tops[i] - below < 14) return;
        below = tops[i];
        pen.fillText(row[0], 0, tops[i] + 12);
      });
    }

    /* What is known of the bar under a point. */
    told(point) {
      const hit = this.hits.findLast(([left, top, right, bottom]) => point.x >= left && point.x <= right && point.y >= top && point.y <= bottom);
      if (!hit) return "";
      const bar = hit[4], kind = bar.funded ? `funded, contract until ${words(bar.over)}` : "unallocated";
      const end = bar.taker ? `preempted at ${words(bar.end)} for ${bar.taker}` : `until ${words(bar.end)}`;
      return `${bar.name} (${this.data.teams[bar.team][0]}) on ${this.data.rows[bar.node][0]}: ${bar.size / DEVICE} GPUs from ${words(bar.start)}, ${kind}, ${end}`;
    }
  }

  const begin = async () => {
    const figures = [...document.querySelectorAll("figure[data-panel]")];
    const panels = await Promise.all(figures.map(async figure =>
      new Panel(figure, await inflate(figure.querySelector("[data-runs]").textContent))));
    const wholes = panels.map(panel => panel.data.view);
    const whole = {
      from: Math.min(...wholes.map(view => view[0])), until: Math.max(...wholes.map(view => view[1])),
      first: Math.min(...wholes.map(view => view[2])), end: Math.max(...wholes.map(view => view[3])),
    };
    let view = { ...whole };

    const show = wanted => {
      const span = Math.min(Math.max(wanted.until - wanted.from, 60), whole.until - whole.from);
      const from = Math.min(Math.max(wanted.from, whole.from), whole.until - span);
      view = { ...wanted, from, until: from + span };
      const isWhole = ["from", "until", "first", "end"].every(name => view[name] === whole[name]);
      panels.forEach(panel => panel.draw(view, isWhole));
      const rows = panels[0].data.rows;
      find("[data-range]").textContent = isWhole ? "" : `${words(view.from)} to ${words(view.until)}, ${rows[view.first][0]} to ${rows[view.end - 1][0]}`;
      history.replaceState(null, "", isWhole ? "#" : `#${Math.round(view.from)}-${Math.round(view.until)},${view.first}-${view.end}`);
    };
    const middle = factor => {
      const centre = (view.from + view.until) / 2, half = (view.until - view.from) * factor / 2;
      return { ...view, from: centre - half, until: centre + half };
    };
    const moved = part => ({ ...view, from: view.from + part * (view.until - view.from), until: view.until + part * (view.until - view.from) });
    const verbs = {
      closer: () => show(middle(0.5)), wider: () => show(middle(2)), earlier: () => show(moved(-0.5)), later: () => show(moved(0.5)), whole: () => show({ ...whole }),
    };
    const keys = { "+": "closer", "=": "closer", "-": "wider", ArrowLeft: "earlier", ArrowRight: "later", 0: "whole" };

    panels.forEach(panel => {
      let begun = null, frame = null;
      panel.box.addEventListener("pointerdown", event => {
        if (event.button !== 0 || event.pointerType === "touch") return;
        event.preventDefault();
        begun = { at: panel.at(event, view), event };
        frame = panel.box.appendChild(Object.assign(document.createElement("div"), { className: "frame" }));
      });
      window.addEventListener("pointermove", event => {
        if (begun) {
          const place = panel.box.getBoundingClientRect();
          const tall = Math.abs(event.clientY - begun.event.clientY) > ROWS_DRAG_PX;
          const [a, b] = [begun.event.clientX, event.clientX].sort((one, other) => one - other);
          const [c, d] = [begun.event.clientY, event.clientY].sort((one, other) => one - other);
          Object.assign(frame.style, {
            left: `${a - place.left}px`, width: `${b - a}px`,
            top: tall ? `${c - place.top}px` : "0", height: tall ? `${d - c}px` : "100%",
          });
        } else if (panel.box.contains(event.target)) {
          find("[data-told]").textContent = panel.canvas.hidden ? "" : panel.told(panel.at(event, view));
        }
      });
      window.addEventListener("pointerup", event => {
        if (!begun) return;
        const start = begun;
        begun = null;
        frame.remove();
        if (Math.abs(event.clientX - start.event.clientX) < DRAG_PX) return;
        const end = panel.at(event, view);
        const tall = Math.abs(event.clientY - start.event.clientY) > ROWS_DRAG_PX;
        show({
          from: Math.min(start.at.s, end.s), until: Math.max(start.at.s, end.s),
          first: tall ? Math.min(start.at.row, end.row) : view.first, end: tall ? Math.max(start.at.row, end.row) + 1 : view.end,
        });
      });
    });
    document.querySelectorAll("[data-do]").forEach(button => button.addEventListener("click", () => verbs[button.dataset.do]()));
    document.addEventListener("keydown", event => {
      const verb = keys[event.key];
      if (!verb || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      verbs[verb]();
    });
    window.addEventListener("resize", () => show(view));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(view));
    document.querySelectorAll("[data-how], [data-tools]").forEach(each => { each.hidden = false; });
    const kept = location.hash.match(/^#(-?\d+)-(-?\d+),(\d+)-(\d+)$/);
    if (kept) {
      const [from, until, first, end] = kept.slice(1).map(Number);
      if (until > from && first < end && end <= whole.end) show({ from, until, first, end });
    }
  };

  begin();
})();
