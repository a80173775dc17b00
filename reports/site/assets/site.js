"use strict";
(() => {
  const read = (id) => {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const shown = (value) => (value === null ? "nothing" : Number(value.toPrecision(5)).toLocaleString("en"));

  /* One chart: values, the band of their noise, lines at steps and at seams. The table below holds the same numbers. */
  function draw(element, data) {
    const places = data.values.map((_, i) => i);
    const fg = colour("--fg"), line = colour("--line"), series = colour("--series"), band = colour("--band");
    const traces = [];
    if (data.low) {
      traces.push({ x: places, y: data.low, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false });
      traces.push({ x: places, y: data.high, mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: band,
        hoverinfo: "skip", name: "noise of the level" });
    }
    traces.push({ x: places, y: data.values, mode: "lines+markers", name: data.label, line: { color: series, width: 1.5 },
      marker: { color: series, size: 5 }, customdata: data.commits, hovertemplate: "%{customdata}<br>%{y}<extra></extra>" });
    const upright = (x, dash, color) => ({ type: "line", x0: x - 0.5, x1: x - 0.5, yref: "paper", y0: 0, y1: 1,
      line: { color, width: 1.5, dash } });
    const shapes = data.steps.map((s) => upright(s.at, "solid", colour(s.worse ? "--bad" : "--good")))
      .concat(data.seams.map((x) => upright(x, "dot", colour("--soft"))));
    const notes = data.steps.slice(-12).map((s) => ({ x: s.at - 0.5, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
      text: s.amount, font: { size: 11, color: colour(s.worse ? "--bad" : "--good") } }));
    const every = Math.max(1, Math.ceil(places.length / Math.max(3, Math.floor(element.clientWidth / 110))));
    const ticks = places.filter((i) => i % every === 0);
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true };
    Plotly.react(element, traces, {
      margin: { l: 60, r: 20, t: 30, b: 60 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: fg, family: "system-ui, sans-serif", size: 12 }, showlegend: false, hovermode: "closest",
      xaxis: { ...axis, tickvals: ticks, ticktext: ticks.map((i) => data.commits[i].split(" ")[0]) },
      yaxis: { ...axis, title: { text: data.unit }, rangemode: "normal" }, shapes, annotations: notes,
    }, { responsive: true, displaylogo: false, displayModeBar: false });
  }

  /* Arrow keys walk along the runs and say each one. */
  function walk(element, data) {
    const reading = document.getElementById(element.id + "-reading");
    let at = data.values.length;
    element.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: data.values.length - 1 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      at = Math.min(Math.max(moves[event.key], 0), data.values.length - 1);
      const step = data.steps.find((s) => s.at === at);
      reading.textContent = `${data.commits[at]}: ${shown(data.values[at])} ${data.unit}` +
        (step ? `, a step of ${step.amount}` : "") + (data.seams.includes(at) ? ", measured with something else from here" : "");
      Plotly.Fx.hover(element, [{ curveNumber: data.low ? 2 : 0, pointNumber: at }]);
    });
  }

  function charts() {
    for (const element of document.querySelectorAll(".chart")) {
      const data = read(element.id + "-data");
      draw(element, data);
      walk(element, data);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(element, data));
      addEventListener("beforeprint", () => draw(element, data));
    }
  }

  /* A text field that keeps the rows that hold its words. */
  function filters() {
    for (const field of document.querySelectorAll("input[data-filters]")) {
      const rows = [...document.querySelectorAll(`#${field.dataset.filters} tbody tr`)];
      const count = document.getElementById(field.id + "-count");
      field.addEventListener("input", () => {
        const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
        let kept = 0;
        for (const row of rows) {
          const content = row.textContent.toLowerCase();
          row.hidden = !words.every((word) => content.includes(word));
          kept += !row.hidden;
        }
        if (count) count.textContent = `${kept} of ${rows.length} rows`;
      });
    }
  }

  /* Two commits side by side. Values come in files of some commits each, loaded when one of theirs is chosen. */
  const parts = new Map();
  window.kvproofPart = (name, values) => parts.get(name).resolve(values);
  function part(name) {
    if (!parts.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => { entry.resolve = resolve; entry.reject = reject; });
      parts.set(name, entry);
      const script = document.createElement("script");
      script.src = `data/${name}.js`;
      script.onerror = () => entry.reject(new Error(`data/${name}.js is missing`));
      document.head.append(script);
    }
    return parts.get(name).promise;
  }

  function compare() {
    const index = read("compare-index");
    if (!index) return;
    const pick = (id) => document.getElementById(id);
    const [target, old, fresh, all] = ["target", "old", "new", "all"].map(pick);
    const fill = () => {
      const commits = index[target.value].commits;
      for (const [select, chosen] of [[old, Math.max(commits.length - 2, 0)], [fresh, commits.length - 1]]) {
        select.replaceChildren(...commits.map((words, i) => new Option(words, i)));
        select.value = chosen;
      }
    };
    const values = async (known, place) =>
      (await part(`${target.value}-${Math.floor(place / known.size)}`))[place % known.size];
    async function show() {
      const known = index[target.value];
      const [names, before, after] = [await part(`${target.value}-names`), await values(known, old.value),
        await values(known, fresh.value)];
      const rows = [];
      names.forEach(([name, noise], i) => {
        // A value is a number, or [number, what it was measured with] where that changed over the history.
        const [a, one] = [before[i] ?? null].flat(), [b, other] = [after[i] ?? null].flat();
        if (a === null && b === null) return;
        const ratio = a && b !== null ? b / a - 1 : null;
        const unlike = a !== null && b !== null && one !== other;
        const within = ratio !== null && !unlike && ratio !== 0 && Math.abs(ratio) <= noise;
        if (!all.checked && (a === b || within)) return;
        const note = unlike ? "measured with other means, so it says nothing"
          : within ? `within its noise of ${(100 * noise).toFixed(1)}%` : "";
        rows.push({ name, a, b, ratio, note, unlike });
      });
      rows.sort((x, y) => x.unlike - y.unlike || Math.abs(y.ratio ?? 9) - Math.abs(x.ratio ?? 9));
      const body = document.querySelector("#comparison tbody");
      body.replaceChildren(...rows.slice(0, 2000).map((row) => {
        const line = document.createElement("tr");
        const cells = [row.name, shown(row.a), shown(row.b),
          row.ratio === null ? "" : (row.ratio > 0 ? "+" : "") + (100 * row.ratio).toFixed(2) + "%", row.note];
        cells.forEach((words, i) => {
          const cell = document.createElement("td");
          cell.textContent = words;
          if (i && i < 4) cell.className = "n";
          line.append(cell);
        });
        return line;
      }));
      pick("comparison-count").textContent = `${rows.length} rows`;
    }
    const safely = () => show().catch((error) => { pick("comparison-count").textContent = String(error.message); });
    target.addEventListener("change", () => { fill(); safely(); });
    for (const control of [old, fresh, all]) control.addEventListener("change", safely);
    fill();
    safely();
  }

  addEventListener("DOMContentLoaded", () => { charts(); filters(); compare(); });
})();
