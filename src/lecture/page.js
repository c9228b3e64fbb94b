"use strict";
// What a reader can turn. Without this script the page is whole: its pictures show the same things.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("lecture-data").textContent);
  // JSON has no NaN; null stands for it.
  for (const list of [data.scores, ...data.weights]) list.forEach((v, at) => { list[at] = v ?? NaN; });
  const length = data.labels.length;
  const redraws = [];  // called when colours or sizes change

  // ---- Theme ----

  const themes = ["automatic", "light", "dark"];
  const showTheme = (theme) => {
    if (theme === "automatic") delete root.dataset.theme;
    else root.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
    redraws.forEach((redraw) => redraw());
  };
  // Storage may be refused to a page that was opened from a file.
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* not kept */ } };
  byId("theme").addEventListener("click", () => {
    const theme = themes[(themes.indexOf(root.dataset.theme ?? "automatic") + 1) % themes.length];
    store(theme);
    showTheme(theme);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    redraws.forEach((redraw) => redraw());
  });

  // ---- Code ----

  const tokens = new RegExp([
    String.raw`(?<comment>\/\/[^\n]*)`,
    String.raw`(?<literal>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|\b\d[\w.']*)`,
    String.raw`(?<keyword>\b(?:auto|bool|break|case|char|class|const|constexpr|continue|double|else|enum|false|float|for|if|int|namespace|return|static|struct|switch|template|true|typename|using|void|while)\b)`,
  ].join("|"), "g");
  for (const code of document.querySelectorAll("pre code")) {
    const source = code.textContent;
    const pieces = [];
    let end = 0;
    for (const match of source.matchAll(tokens)) {
      pieces.push(source.slice(end, match.index));
      const span = document.createElement("span");
      span.className = Object.keys(match.groups).find((name) => match.groups[name]);
      span.textContent = match[0];
      pieces.push(span);
      end = match.index + match[0].length;
    }
    code.replaceChildren(...pieces, source.slice(end));
  }
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((details) => { details.open = false; }));

  // ---- Pictures at their own size ----

  for (const picture of document.querySelectorAll("figure img")) {
    picture.tabIndex = 0;
    picture.role = "button";
    const enlarge = () => {
      const large = document.createElement("dialog");
      large.append(picture.cloneNode());
      large.addEventListener("click", () => large.close());
      large.addEventListener("close", () => large.remove());
      document.body.append(large);
      large.showModal();
    };
    picture.addEventListener("click", enlarge);
    picture.addEventListener("keydown", (event) => { if (event.key === "Enter") enlarge(); });
  }

  // ---- Colours: those of the pictures, turned round on a dark page ----

  const isDark = () => getComputedStyle(root).colorScheme === "dark";
  const colour = (name) => getComputedStyle(root).getPropertyValue(name);
  const oklch = (lightness, chroma, hue) => `oklch(${lightness} ${chroma} ${hue})`;
  const sequential = (t) => isDark()
    ? oklch(0.27 + 0.6 * t, 0.02 + 0.36 * t * (1 - 0.8 * t), 255 + 8 * t)
    : oklch(0.94 - 0.66 * t, 0.02 + 0.36 * t * (1 - 0.8 * t), 255 + 8 * t);
  const diverging = (t) => {
    const distance = Math.abs(2 * t - 1);
    const chroma = 0.36 * distance * (1 - 0.64 * distance);
    return oklch(isDark() ? 0.3 + 0.48 * distance : 0.95 - 0.5 * distance, chroma, t < 0.5 ? 255 : 50);
  };
  const clamp = (t) => Math.min(Math.max(t, 0), 1);
  // A on the scale of its root, so that 1/48 and 1 can both be seen; and (i+1) A on that of its
  // logarithm, white where a key gets its even share.
  const plainScale = {
    at: (a) => clamp(Math.sqrt(a)), colours: sequential, label: "A",
    ticks: [[0, "0"], [0.2, "0.04"], [0.5, "0.25"], [1, "1"]],
  };
  const relativeScale = {
    at: (ratio) => clamp(0.5 + Math.log2(ratio) / 6), colours: diverging, label: "(i + 1) A",
    ticks: [[0, "⅛"], [1 / 6, "¼"], [1 / 3, "½"], [0.5, "1"], [2 / 3, "2"], [5 / 6, "4"], [1, "8"]],
  };
  const palettes = new Map();
  const colourOf = (scale, value) => {
    const key = `${scale.label} ${isDark()}`;
    if (!palettes.has(key)) {
      palettes.set(key, Array.from({ length: 129 }, (_, k) => scale.colours(k / 128)));
    }
    return palettes.get(key)[Math.round(128 * scale.at(value))] ?? "gold";  // NaN, as in the pictures
  };

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    Object.assign(made, attributes);
    made.append(...children);
    return made;
  };
  const drawLegend = (box, scale) => {
    const stops = Array.from({ length: 13 }, (_, k) => scale.colours(k / 12)).join(", ");
    const ticks = element("span", { className: "ticks" });
    for (const [at, text] of scale.ticks) {
      const tick = element("span", {}, text);
      tick.style.left = `${100 * at}%`;
      ticks.append(tick);
    }
    const ramp = element("span", { className: "colours" });
    ramp.style.background = `linear-gradient(90deg, ${stops})`;
    box.replaceChildren(element("span", {}, scale.label), element("span", { className: "ramp" }, ramp, ticks));
  };

  // ---- Matrices: only the entries on and below the diagonal, row after row ----

  const place = (i, j) => (i * (i + 1)) / 2 + j;
  const softmaxRows = (score) => {
    const weights = new Float64Array(place(length, 0));
    for (let i = 0; i < length; ++i) {
      let greatest = -Infinity, sum = 0;
      for (let j = 0; j <= i; ++j) greatest = Math.max(greatest, score(i, j));
      for (let j = 0; j <= i; ++j) sum += weights[place(i, j)] = Math.exp(score(i, j) - greatest);
      for (let j = 0; j <= i; ++j) weights[place(i, j)] /= sum;
    }
    return weights;
  };
  const row = (weights, i) => weights.slice(place(i, 0), place(i + 1, 0));

  // Draws a heat map and returns how to find the cell under a point. Characters label the axes where
  // cells are large enough to read them.
  const drawMap = (canvas, weights, scale, value, chosen) => {
    const width = canvas.clientWidth;
    if (width === 0) return null;
    const labelled = width >= 420;
    const margin = labelled ? 16 : 0;
    const ratio = devicePixelRatio || 1;
    const cell = (width - margin) / length;
    const pixels = Math.round(width * ratio);
    if (canvas.width !== pixels) canvas.width = canvas.height = pixels;
    canvas.style.height = `${width}px`;
    const paint = canvas.getContext("2d");
    const edge = (k) => Math.round((margin + k * cell) * ratio);  // whole pixels: no seams
    paint.clearRect(0, 0, pixels, pixels);
    for (let i = 0; i < length; ++i) {
      for (let j = 0; j <= i; ++j) {
        paint.fillStyle = colourOf(scale, value(i, j, weights[place(i, j)]));
        paint.fillRect(edge(j), edge(i), edge(j + 1) - edge(j), edge(i + 1) - edge(i));
      }
    }
    if (labelled) {
      paint.font = `${Math.min(cell, 13) * ratio}px ${colour("--mono")}`;
      paint.textAlign = "center";
      paint.textBaseline = "middle";
      for (let k = 0; k < length; ++k) {
        const middle = (edge(k) + edge(k + 1)) / 2;
        const room = cell * ratio * 1.1;
        paint.fillStyle = colour(chosen && k === chosen.i ? "--accent" : "--soft");
        paint.fillText(data.labels[k], (margin / 2) * ratio, middle, margin * ratio);
        paint.fillStyle = colour(chosen && k === chosen.j ? "--accent" : "--soft");
        paint.fillText(data.labels[k], middle, (margin / 2) * ratio, room);
      }
    }
    if (chosen) {
      paint.strokeStyle = colour("--ink");
      paint.lineWidth = 1.5 * ratio;
      paint.globalAlpha = 0.35;
      paint.strokeRect(edge(0), edge(chosen.i), edge(chosen.i + 1) - edge(0), edge(chosen.i + 1) - edge(chosen.i));
      paint.globalAlpha = 1;
      if (chosen.j !== undefined) {
        paint.strokeRect(edge(chosen.j), edge(chosen.i), edge(chosen.j + 1) - edge(chosen.j),
                         edge(chosen.i + 1) - edge(chosen.i));
      }
    }
    return (event) => {
      const box = canvas.getBoundingClientRect();
      const at = (offset) => Math.min(Math.max(Math.floor((offset - margin) / cell), 0), length - 1);
      return { i: at(event.clientY - box.top), j: at(event.clientX - box.left) };
    };
  };

  // ---- Charts ----

  const figures = (value, digits = 3) => value.toFixed(digits);
  const svg = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, setting] of Object.entries(attributes)) made.setAttribute(key, setting);
    made.textContent = text;
    return made;
  };
  // A frame in the box (left, top, right, bottom) of a chart, with x and y as functions to pixels.
  const frame = (chart, box, xRange, yRange, xTicks, yTicks, title) => {
    const [left, top, right, bottom] = box;
    const x = (v) => left + ((v - xRange[0]) / (xRange[1] - xRange[0])) * (right - left);
    const y = (v) => bottom - ((v - yRange[0]) / (yRange[1] - yRange[0])) * (bottom - top);
    for (const v of yTicks) {
      chart.append(svg("line", { class: "axis", x1: left, x2: right, y1: y(v), y2: y(v) }),
                   svg("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, String(v)));
    }
    for (const v of xTicks) {
      chart.append(svg("text", { x: x(v), y: bottom + 15, "text-anchor": "middle" }, String(v)));
    }
    chart.append(svg("text", { x: left, y: top - 8 }, title));
    return { x, y };
  };
  const path = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  // ---- The scale of the scores ----

  const scaleWidget = () => {
    const slider = byId("scale"), chart = byId("scale-chart");
    const weightsAt = (scale) => softmaxRows((i, j) => scale * data.scores[place(i, j)]);
    // Row 0 has no choice, so means go over the others.
    const summary = (weights) => {
      let largest = 0, jacobian = 0;
      for (let i = 1; i < length; ++i) {
        const p = row(weights, i);
        const power = (n) => p.reduce((sum, a) => sum + a ** n, 0);
        largest += Math.max(...p);
        // |diag(p) - p p^T|^2, the squares of all its entries added up.
        jacobian += Math.sqrt(Math.max(0, power(2) - 2 * power(3) + power(2) ** 2));
      }
      return { largest: largest / (length - 1), jacobian: jacobian / (length - 1) };
    };
    const sweep = Array.from({ length: 41 }, (_, k) => ({ scale: k / 10, ...summary(weightsAt(k / 10)) }));
    const draw = () => {
      const scale = Number(slider.value);
      const weights = weightsAt(scale);
      const now = summary(weights);
      byId("scale-value").textContent = figures(scale, 2);
      slider.setAttribute("aria-valuetext", `${figures(scale, 2)} times one over root d k`);
      drawMap(byId("scale-map"), weights, relativeScale, (i, j, a) => (i + 1) * a);
      drawLegend(byId("scale-legend"), relativeScale);
      chart.replaceChildren();
      const { x, y } = frame(chart, [30, 24, 350, 270], [0, 4], [0, 1], [0, 1, 2, 3, 4], [0, 0.25, 0.5, 0.75, 1],
                             "means over rows 1 to 47, against the scale");
      chart.append(
        svg("path", { class: "first", d: path(sweep.map((s) => [x(s.scale), y(s.largest)])) }),
        svg("path", { class: "second", d: path(sweep.map((s) => [x(s.scale), y(s.jacobian)])) }),
        svg("line", { class: "now", x1: x(scale), x2: x(scale), y1: y(0), y2: y(1) }),
        svg("text", { class: "first", x: x(4), y: y(sweep[40].largest) - 8, "text-anchor": "end" }, "largest weight"),
        svg("text", { class: "second", x: x(4), y: y(sweep[40].jacobian) - 8, "text-anchor": "end" }, "norm of the Jacobian"));
      byId("scale-readout").textContent =
        `Largest weight of a row ${figures(now.largest)}, norm of its Jacobian ${figures(now.jacobian)} on average.`;
    };
    slider.addEventListener("input", draw);
    redraws.push(draw);
  };

  // ---- The explorer ----

  const exploreWidget = () => {
    const canvas = byId("explore-map");
    const strip = byId("explore-text");
    const chosen = { i: 0, j: 0 };
    const seeds = data.weights.map((_, seed) => element("label", {},
      element("input", { type: "radio", name: "explore-seed", value: seed, checked: seed === 0 }),
      element("span", {}, String(seed))));
    byId("explore-seeds").append(...seeds);
    strip.append(...data.labels.map((label) => element("span", {}, element("bdi", {}, label))));
    const picked = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

    // Begin where something shows: at the key that is most above its even share.
    data.weights[0].forEach((a, at) => {
      const i = Math.floor((Math.sqrt(8 * at + 1) - 1) / 2);
      if ((i + 1) * a > (chosen.i + 1) * data.weights[0][place(chosen.i, chosen.j)]) {
        chosen.i = i;
        chosen.j = at - place(i, 0);
      }
    });

    let find = null;
    const draw = () => {
      const weights = data.weights[Number(picked("explore-seed"))];
      const relative = picked("explore-view") === "relative";
      const scale = relative ? relativeScale : plainScale;
      const value = (i, j, a) => (relative ? (i + 1) * a : a);
      const { i, j } = chosen;
      find = drawMap(canvas, weights, scale, value, chosen);
      drawLegend(byId("explore-legend"), scale);
      [...strip.children].forEach((span, k) => {
        span.className = [k > i && "future", k === i && "query", k === j && "key"].filter(Boolean).join(" ");
        span.style.background = k > i ? "" : colourOf(scale, value(i, k, weights[place(i, k)]));
        // Strong colours need letters of the other brightness.
        const at = k > i ? 0 : scale.at(value(i, k, weights[place(i, k)]));
        const strength = relative ? Math.abs(2 * at - 1) : 1.4 * at;
        span.style.color = k <= i && strength > 0.55 ? colour("--paper") : "";
      });
      const a = weights[place(i, j)];
      byId("explore-readout").replaceChildren(
        "Query ", element("strong", {}, String(i)), " “", element("bdi", {}, data.labels[i]), "” reads key ",
        element("strong", {}, String(j)), " “", element("bdi", {}, data.labels[j]), "”",
        j > i ? ": masked, for it comes later. The weight is 0."
              : ` with weight A = ${figures(a, 4)}, which is (i + 1) A = ${figures((i + 1) * a, 2)} times its even share.`);
    };
    const choose = (i, j) => {
      chosen.i = Math.min(Math.max(i, 0), length - 1);
      chosen.j = Math.min(Math.max(j, 0), length - 1);
      draw();
    };
    for (const kind of ["pointermove", "pointerdown"]) {
      canvas.addEventListener(kind, (event) => {
        const cell = find && find(event);
        if (cell && (cell.i !== chosen.i || cell.j !== chosen.j)) choose(cell.i, cell.j);
      });
    }
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key === "Home") choose(chosen.i, 0);
      else if (event.key === "End") choose(chosen.i, chosen.i);
      else if (step) choose(chosen.i + step[0], chosen.j + step[1]);
      else return;
      event.preventDefault();
    });
    strip.addEventListener("click", (event) => {
      const k = [...strip.children].findIndex((span) => span.contains(event.target));
      if (k >= 0) choose(k, Math.min(chosen.j, k));
    });
    byId("explore-widget").addEventListener("change", draw);
    redraws.push(draw);
  };

  // ---- The bandwidth ----

  const kernelWidget = () => {
    const slider = byId("bandwidth"), query = byId("kernel-row"), chart = byId("kernel-chart");
    query.max = length - 1;
    // Eight steps double it, so that 0.5, 2 and 8 are among them; the last step is infinity.
    const bandwidth = () => (slider.value === slider.max ? Infinity : 2 ** (Number(slider.value) / 8));
    // A step with noise on it, the same for every reader.
    const noise = (j) => { const u = Math.sin(12.9898 * (j + 1)) * 43758.5453; return u - Math.floor(u) - 0.5; };
    const values = Array.from({ length }, (_, j) => (j < length / 2 ? 0.25 : 0.75) + 0.4 * noise(j));
    const draw = () => {
      const s = bandwidth(), chosen = Number(query.value);
      const score = (i, j) => -((i - j) ** 2) / (2 * s * s);
      const weights = softmaxRows(score);
      const p = row(weights, chosen);
      const named = s === Infinity ? "∞" : s < 10 ? figures(s, 2) : figures(s, 1);
      byId("bandwidth-value").textContent = named === "∞" ? "∞, the running mean" : named;
      byId("kernel-row-value").textContent = String(chosen);
      slider.setAttribute("aria-valuetext", s === Infinity ? "infinite" : named);
      drawMap(byId("kernel-map"), weights, plainScale, (i, j, a) => a, { i: chosen });
      drawLegend(byId("kernel-legend"), plainScale);
      chart.replaceChildren();
      const ticks = [0, 10, 20, 30, 40];
      const top = [0.04, 0.1, 0.2, 0.5, 1].find((v) => v >= Math.max(...p) - 1e-9);
      const above = frame(chart, [30, 24, 350, 120], [-1, length], [0, top], ticks, [0, top / 2, top],
                          `weights of query ${chosen}, for each key j`);
      const step = above.x(1) - above.x(0);
      p.forEach((a, j) => chart.append(svg("rect", {
        class: "bars", x: above.x(j) - 0.4 * step, width: 0.8 * step, y: above.y(a), height: above.y(0) - above.y(a) })));
      const below = frame(chart, [30, 172, 350, 270], [-1, length], [0, 1], ticks, [0, 0.5, 1],
                          "values (dots) and their smoothing (line)");
      const smooth = values.map((_, i) => row(weights, i).reduce((sum, a, j) => sum + a * values[j], 0));
      values.forEach((v, j) => chart.append(svg("circle", { class: "dots", cx: below.x(j), cy: below.y(v), r: 1.8 })));
      chart.append(
        svg("path", { class: "second", d: path(smooth.map((v, i) => [below.x(i), below.y(v)])) }),
        svg("line", { class: "now", x1: below.x(chosen), x2: below.x(chosen), y1: below.y(0), y2: below.y(1) }));
      let underflowed = 0;  // gaps so wide that exp is 0 in single precision
      for (let i = 0; i < length; ++i) for (let j = 0; j <= i; ++j) underflowed += score(i, j) < -103.97;
      const effective = 1 / p.reduce((sum, a) => sum + a * a, 0);
      byId("kernel-readout").textContent =
        `Row ${chosen} sums to ${figures(p.reduce((sum, a) => sum + a, 0), 6)}; it averages over ` +
        `${figures(effective, 1)} keys, in effect. ` + (underflowed === 0 ? "All allowed weights are above 0."
        : `In single precision ${underflowed} of ${place(length, 0)} allowed weights are 0.`);
    };
    slider.addEventListener("input", draw);
    query.addEventListener("input", draw);
    redraws.push(draw);
  };

  for (const [id, start] of [["scale-widget", scaleWidget], ["explore-widget", exploreWidget],
                             ["kernel-widget", kernelWidget]]) {
    if (byId(id)) start();
  }
  let width = 0;
  new ResizeObserver(() => {
    if (width === innerWidth) return;
    width = innerWidth;
    redraws.forEach((redraw) => redraw());
  }).observe(root);
  showTheme(themes.includes(stored()) ? stored() : "automatic");
})();
