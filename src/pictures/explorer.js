"use strict";
// Heat maps of attention, and a reader's walk through one. A matrix is an object with `rows` and
// `keys`, its numbers of queries and keys, and value(i, j), which is undefined where a key is masked.
const explorer = (() => {
  const root = document.documentElement;
  const redraws = [];  // called when colours or sizes change
  const redraw = () => redraws.forEach((draw) => draw());

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
  // A on the scale of its root, so that 1/48 and 1 can both be seen; and A in units of the even share
  // on that of its logarithm, white where a key gets just that.
  const plainScale = {
    at: (a) => clamp(Math.sqrt(a)), colours: sequential, label: "A",
    ticks: [[0, "0"], [0.2, "0.04"], [0.5, "0.25"], [1, "1"]],
  };
  const relativeScale = (label) => ({
    at: (ratio) => clamp(0.5 + Math.log2(ratio) / 6), colours: diverging, label,
    ticks: [[0, "⅛"], [1 / 6, "¼"], [1 / 3, "½"], [0.5, "1"], [2 / 3, "2"], [5 / 6, "4"], [1, "8"]],
  });
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

  // ---- Maps ----

  const largestCell = 48, tallest = 720, widestLabel = 96, leastLabelled = 8;
  // Where labels stand and how large cells are in a map of that width. Labels that are wider than a
  // cell stand upright above it.
  const planOf = (paint, width, matrix, labels) => {
    const bare = { left: 0, top: 0, upright: false };
    const fitted = (plan) => {
      const across = Math.min((width - plan.left) / matrix.keys, largestCell);
      const down = Math.min(across, Math.max((tallest - plan.top) / matrix.rows, 2));
      return { ...plan, across, down };
    };
    if (!labels || width < 420) return fitted(bare);
    paint.font = `13px ${colour("--mono")}`;
    const widest = (list) => Math.min(widestLabel, Math.max(...list.map((text) => paint.measureText(text).width)));
    const upright = widest(labels.keys) > 13;
    const left = Math.max(16, Math.ceil(widest(labels.queries)) + 6);
    const plan = fitted({ left, top: upright ? Math.ceil(widest(labels.keys)) + 6 : 16, upright });
    return plan.across < leastLabelled || plan.down < leastLabelled ? fitted(bare) : plan;
  };

  // The text, or as much of it as fits that many pixels.
  const fitting = (paint, text, width) => {
    if (paint.measureText(text).width <= width) return text;
    const letters = [...text];
    while (letters.length > 0 && paint.measureText(`${letters.join("")}…`).width > width) letters.pop();
    return `${letters.join("")}…`;
  };

  // Draws a heat map and returns how to find the cell under a point. Labels stand at the axes where
  // cells are large enough to read them.
  const drawMap = (canvas, matrix, scale, labels, chosen) => {
    canvas.style.width = "";
    const width = canvas.clientWidth;
    if (width === 0) return null;
    const ratio = devicePixelRatio || 1;
    const paint = canvas.getContext("2d");
    const { left, top, upright, across, down } = planOf(paint, width, matrix, labels);
    const pixels = [Math.round((left + across * matrix.keys) * ratio), Math.round((top + down * matrix.rows) * ratio)];
    if (canvas.width !== pixels[0]) canvas.width = pixels[0];
    if (canvas.height !== pixels[1]) canvas.height = pixels[1];
    canvas.style.width = `${pixels[0] / ratio}px`;
    canvas.style.height = `${pixels[1] / ratio}px`;
    // Whole pixels: no seams.
    const x = (k) => Math.round((left + k * across) * ratio), y = (k) => Math.round((top + k * down) * ratio);
    paint.clearRect(0, 0, ...pixels);
    for (let i = 0; i < matrix.rows; ++i) {
      for (let j = 0; j < matrix.keys; ++j) {
        const value = matrix.value(i, j);
        if (value === undefined) continue;
        paint.fillStyle = colourOf(scale, value);
        paint.fillRect(x(j), y(i), x(j + 1) - x(j), y(i + 1) - y(i));
      }
    }
    if (left > 0) {
      paint.font = `${Math.min(across, down, 13) * ratio}px ${colour("--mono")}`;
      paint.textBaseline = "middle";
      const alone = left === 16;  // single characters stand in the middle
      for (let i = 0; i < matrix.rows; ++i) {
        paint.fillStyle = colour(chosen && i === chosen.i ? "--accent" : "--soft");
        paint.textAlign = alone ? "center" : "right";
        const text = fitting(paint, labels.queries[i], (left - 4) * ratio);
        paint.fillText(text, (alone ? left / 2 : left - 4) * ratio, (y(i) + y(i + 1)) / 2);
      }
      for (let j = 0; j < matrix.keys; ++j) {
        paint.fillStyle = colour(chosen && j === chosen.j ? "--accent" : "--soft");
        paint.save();
        paint.translate((x(j) + x(j + 1)) / 2, (upright ? top - 4 : top / 2) * ratio);
        paint.textAlign = upright ? "left" : "center";
        if (upright) paint.rotate(-Math.PI / 2);
        if (upright) paint.fillText(fitting(paint, labels.keys[j], (top - 6) * ratio), 0, 0);
        else paint.fillText(labels.keys[j], 0, 0, across * 1.1 * ratio);
        paint.restore();
      }
    }
    if (chosen) {
      paint.strokeStyle = colour("--ink");
      paint.lineWidth = 1.5 * ratio;
      paint.globalAlpha = 0.35;
      paint.strokeRect(x(0), y(chosen.i), x(matrix.keys) - x(0), y(chosen.i + 1) - y(chosen.i));
      paint.globalAlpha = 1;
      if (chosen.j !== undefined) {
        paint.strokeRect(x(chosen.j), y(chosen.i), x(chosen.j + 1) - x(chosen.j), y(chosen.i + 1) - y(chosen.i));
      }
    }
    return (event) => {
      const box = canvas.getBoundingClientRect();
      const at = (offset, cell, count) => Math.min(Math.max(Math.floor(offset / cell), 0), count - 1);
      return { i: at(event.clientY - box.top - top, down, matrix.rows),
               j: at(event.clientX - box.left - left, across, matrix.keys) };
    };
  };

  // ---- Who reads whom ----

  const figures = (value, digits = 3) => value.toFixed(digits);

  // `parts`: the elements map, strip, readout, legend. `weights()`: the matrix of A as it is chosen.
  // `relative()`: whether to show it in units of the even share, 1 / (the number of keys that a query
  // sees), which `shareName` writes as a factor. Returns what draws it again.
  const explore = (parts, labels, weights, relative, shareName) => {
    const relativeColours = relativeScale(shareName);
    const square = labels.queries.length === labels.keys.length;
    const chosen = { i: 0, j: 0 };
    const shares = (matrix, i) => {  // how many keys query i sees
      let seen = 0;
      for (let j = 0; j < matrix.keys; ++j) seen += matrix.value(i, j) !== undefined;
      return seen;
    };
    parts.strip.classList.toggle("words", labels.keys.some((label) => [...label].length > 1));
    parts.strip.append(...labels.keys.map((label) => element("span", {}, element("bdi", {}, label))));

    // Begin where something shows: at the key that is most above its even share.
    const first = weights();
    let most = 0;
    for (let i = 0; i < first.rows; ++i) {
      const seen = shares(first, i);
      for (let j = 0; j < first.keys; ++j) {
        if (seen * first.value(i, j) > most) {
          most = seen * first.value(i, j);
          Object.assign(chosen, { i, j });
        }
      }
    }

    let find = null;
    const draw = () => {
      const matrix = weights();
      const scale = relative() ? relativeColours : plainScale;
      const counts = Array.from({ length: matrix.rows }, (_, i) => shares(matrix, i));
      const value = (i, j) => {
        const a = matrix.value(i, j);
        return a === undefined || !relative() ? a : counts[i] * a;
      };
      const { i, j } = chosen;
      find = drawMap(parts.map, { ...matrix, value }, scale, labels, chosen);
      drawLegend(parts.legend, scale);
      [...parts.strip.children].forEach((span, k) => {
        const shown = value(i, k), hidden = shown === undefined;
        span.className = [hidden && "future", square && k === i && "query", k === j && "key"].filter(Boolean).join(" ");
        span.style.background = hidden ? "" : colourOf(scale, shown);
        // Strong colours need letters of the other brightness.
        const at = hidden ? 0 : scale.at(shown);
        const strength = relative() ? Math.abs(2 * at - 1) : 1.4 * at;
        span.style.color = !hidden && strength > 0.55 ? colour("--paper") : "";
      });
      const a = matrix.value(i, j);
      parts.readout.replaceChildren(
        "Query ", element("strong", {}, String(i)), " “", element("bdi", {}, labels.queries[i]), "” reads key ",
        element("strong", {}, String(j)), " “", element("bdi", {}, labels.keys[j]), "”",
        a === undefined ? ": masked, for it comes later. The weight is 0."
          : ` with weight A = ${figures(a, 4)}, which is ${shareName} = ${figures(counts[i] * a, 2)} times its even share.`);
    };
    const choose = (i, j) => {
      chosen.i = Math.min(Math.max(i, 0), labels.queries.length - 1);
      chosen.j = Math.min(Math.max(j, 0), labels.keys.length - 1);
      draw();
    };
    for (const kind of ["pointermove", "pointerdown"]) {
      parts.map.addEventListener(kind, (event) => {
        const cell = find && find(event);
        if (cell && (cell.i !== chosen.i || cell.j !== chosen.j)) choose(cell.i, cell.j);
      });
    }
    parts.map.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key === "Home") choose(chosen.i, 0);
      else if (event.key === "End") choose(chosen.i, shares(weights(), chosen.i) - 1);
      else if (step) choose(chosen.i + step[0], chosen.j + step[1]);
      else return;
      event.preventDefault();
    });
    parts.strip.addEventListener("click", (event) => {
      const k = [...parts.strip.children].findIndex((span) => span.contains(event.target));
      if (k >= 0) square ? choose(k, Math.min(chosen.j, k)) : choose(chosen.i, k);
    });
    redraws.push(draw);
    return draw;
  };

  let width = 0;
  new ResizeObserver(() => {
    if (width === innerWidth) return;
    width = innerWidth;
    redraw();
  }).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  return { redraws, redraw, element, drawLegend, drawMap, plainScale, relativeScale, figures, explore };
})();
