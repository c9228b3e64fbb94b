// What a reader can turn; explorer.js, which has the heat maps, stands before it. Without scripts the
// page is whole: its pictures show the same things.
(() => {
  const { redraws, redraw, element, drawLegend, drawMap, plainScale, figures } = explorer;
  const relativeScale = explorer.relativeScale("(i + 1) A");
  const root = document.documentElement;
  root.classList.add("js");
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("lecture-data").textContent);
  // JSON has no NaN; null stands for it.
  for (const list of [data.scores, ...data.weights]) list.forEach((v, at) => { list[at] = v ?? NaN; });
  const length = data.labels.length;

  // ---- Theme ----

  const themes = ["automatic", "light", "dark"];
  const showTheme = (theme) => {
    if (theme === "automatic") delete root.dataset.theme;
    else root.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
    redraw();
  };
  // Storage may be refused to a page that was opened from a file.
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* not kept */ } };
  byId("theme").addEventListener("click", () => {
    const theme = themes[(themes.indexOf(root.dataset.theme ?? "automatic") + 1) % themes.length];
    store(theme);
    showTheme(theme);
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

  // What the maps draw of such weights: value(i, j, a) where a key may be seen.
  const matrixOf = (weights, value = (i, j, a) => a) => ({
    rows: length, keys: length,
    value: (i, j) => (j <= i ? value(i, j, weights[place(i, j)]) : undefined),
  });
  const labels = { queries: data.labels, keys: data.labels };

  // ---- Charts ----

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
      drawMap(byId("scale-map"), matrixOf(weights, (i, j, a) => (i + 1) * a), relativeScale, labels);
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
    const seeds = data.weights.map((_, seed) => element("label", {},
      element("input", { type: "radio", name: "explore-seed", value: seed, checked: seed === 0 }),
      element("span", {}, String(seed))));
    byId("explore-seeds").append(...seeds);
    const picked = (name) => document.querySelector(`input[name="${name}"]:checked`).value;
    const parts = { map: byId("explore-map"), strip: byId("explore-text"),
                    readout: byId("explore-readout"), legend: byId("explore-legend") };
    const draw = explorer.explore(parts, labels, () => matrixOf(data.weights[Number(picked("explore-seed"))]),
                                  () => picked("explore-view") === "relative", "(i + 1) A");
    byId("explore-widget").addEventListener("change", draw);
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
      drawMap(byId("kernel-map"), matrixOf(weights), plainScale, labels, { i: chosen });
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
  showTheme(themes.includes(stored()) ? stored() : "automatic");
})();
