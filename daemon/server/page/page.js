// SPDX-License-Identifier: BSD-2-Clause
// The page of admin.page: its overview, which draws what /metrics says; views.js has the rest. All
// text goes into the page as text, never as HTML; all requests go to where the page is from.
"use strict";

const PREFIX = "criproxyd_";
const POINTS = 150; // of a chart
const WINDOW = 10; // seconds that rates and times are of, at least two readings
const ABOUT = [
  ["success", "answered"], ["client", "the client"], ["target", "the target"],
  ["origin", "the origin server"], ["proxy", "the proxy"],
];
const TIMES = [["median", "median"], ["slowest", "99 % within"]];
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

const readings = []; // the newest last; those of WINDOW
let points = []; // {at, ends: {about: rate}, median, slowest}
let timer = 0;
let turn = 0; // of asking: only the newest goes on
let since = null; // when the proxy last answered

const at = (id) => document.getElementById(id);

// ---- reading ----

function unescapeLabel(text) {
  return text.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
}

// {at, help: Map, type: Map, samples: Map of name to [{labels, key, value}]}
function parse(text) {
  const reading = { at: performance.now() / 1000, help: new Map(), type: new Map(), samples: new Map() };
  for (const line of text.split("\n")) {
    if (line.startsWith("# ")) {
      const [, kind, name, ...rest] = line.split(" ");
      (kind === "HELP" ? reading.help : reading.type).set(name, rest.join(" "));
      continue;
    }
    const found = SAMPLE.exec(line);
    if (found === null) {
      continue;
    }
    const labels = {};
    for (const label of (found[2] || "").matchAll(LABEL)) {
      labels[label[1]] = unescapeLabel(label[2]);
    }
    if (!reading.samples.has(found[1])) {
      reading.samples.set(found[1], []);
    }
    reading.samples.get(found[1]).push({ labels, key: found[2] || "", value: Number(found[3]) });
  }
  return reading;
}

const newest = () => readings[readings.length - 1];
const oldest = () => readings[0];
const span = () => newest().at - oldest().at;

function samples(reading, name) {
  return reading.samples.get(name) || [];
}

function gauge(name) {
  return samples(newest(), name).reduce((sum, sample) => sum + sample.value, 0);
}

// What a reading has of a family, added up by some of its labels: Map of text to number.
function sums(reading, name, keyOf) {
  const found = new Map();
  for (const sample of samples(reading, name)) {
    const key = keyOf(sample.labels);
    if (key !== null) {
      found.set(key, (found.get(key) || 0) + sample.value);
    }
  }
  return found;
}

// A second, over the window. A label that has changed hands begins at 0 again.
function rates(name, keyOf, from = oldest()) {
  const before = sums(from, name, keyOf);
  const now = sums(newest(), name, keyOf);
  const seconds = newest().at - from.at;
  for (const [key, value] of now) {
    now.set(key, seconds > 0 ? Math.max(0, value - (before.get(key) || 0)) / seconds : 0);
  }
  return now;
}

// The time within which this share of a histogram ended in the window, in seconds; NaN: none did.
function quantile(name, keyOf, key, share, from = oldest()) {
  const limits = (reading) => sums(reading, name + "_bucket", (labels) =>
    (keyOf(labels) === key ? labels.le : null));
  const before = limits(from);
  const all = [...limits(newest())].map(([le, value]) =>
    [le === "+Inf" ? Infinity : Number(le), Math.max(0, value - (before.get(le) || 0))]);
  const wanted = share * all.reduce((most, [, value]) => Math.max(most, value), 0);
  let below = 0, reached = 0;
  for (const [limit, value] of all) {
    if (wanted > 0 && value >= wanted) {
      const part = (wanted - reached) / (value - reached || 1);
      return limit === Infinity ? below : below + (limit - below) * part;
    }
    below = limit;
    reached = value;
  }
  return NaN;
}

// ---- writing ----

function number(value) {
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function duration(seconds) {
  return Number.isNaN(seconds) ? "–"
    : seconds >= 1 ? number(seconds) + " s" : number(seconds * 1000) + " ms";
}

function bytes(value) {
  return value >= 2 ** 30 ? number(value / 2 ** 30) + " GiB" : number(value / 2 ** 20) + " MiB";
}

function age(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  return parts.slice(first < 0 ? 3 : first).slice(0, 2).map(([size, unit], index, all) => {
    const count = Math.floor((index === 0 ? seconds : seconds % all[index - 1][0]) / size);
    return count + " " + unit;
  }).join(" ");
}

function say(element, text) {
  if (element.textContent !== text) { // a screen reader would say it again
    element.textContent = text;
  }
}

function cell(content, style) {
  const made = document.createElement("td");
  made.className = style || "";
  made.append(content);
  return made;
}

// Cells that have not changed stay, and with them the focus and what a person has selected.
function fill(id, rows, empty) {
  const body = at(id).tBodies[0];
  const width = at(id).tHead.rows[0].cells.length;
  const shown = rows.map((cells) => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  });
  if (shown.length === 0) {
    const row = document.createElement("tr");
    row.append(cell(empty, "empty"));
    row.cells[0].colSpan = width;
    shown.push(row);
  }
  shown.forEach((row, index) => {
    const old = body.rows[index];
    if (old === undefined) {
      body.append(row);
    } else if (old.cells.length !== row.cells.length) {
      old.replaceWith(row);
    } else {
      [...row.cells].forEach((made, place) => {
        if (!old.cells[place].isEqualNode(made)) {
          old.cells[place].replaceWith(made);
        }
      });
    }
  });
  while (body.rows.length > shown.length) {
    body.deleteRow(-1);
  }
}

// ---- charts ----

function draw(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.textContent = text || "";
  return made;
}

// The next of these steps times a power of ten: half of it, too, is short to write.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 6, 8, 10].map((step) => step * power).find((limit) => limit >= value * 0.999999);
}

function chart(id, most, write, shapes) {
  const svg = at(id), width = svg.clientWidth, height = svg.clientHeight;
  const left = 58, right = 8, top = 8, bottom = 20;
  const limit = roundUp(Math.max(most, 1e-6));
  const seconds = POINTS * Number(at("interval").value);
  const now = points.length > 0 ? points[points.length - 1].at : 0;
  const x = (when) => left + (width - left - right) * (1 - (now - when) / seconds);
  const y = (value) => top + (height - top - bottom) * (1 - value / limit);
  const made = [];

  for (let step = 0; step <= 2; step++) {
    const value = limit * step / 2;
    made.push(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    made.push(draw("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, write(value)));
  }
  for (const [when, anchor] of [[seconds, "start"], [seconds / 2, "middle"], [0, "end"]]) {
    if (anchor === "middle" && width < 420) {
      continue; // the texts would touch
    }
    made.push(draw("text", { x: x(now - when), y: height - 4, "text-anchor": anchor },
      when === 0 ? "now" : age(when) + " ago"));
  }
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.replaceChildren(...made, ...shapes(x, y));
}

const place = (x, y) => x.toFixed(1) + "," + y.toFixed(1);

function drawEnds() {
  const total = (point) => ABOUT.reduce((sum, [about]) => sum + (point.ends.get(about) || 0), 0);
  const high = points.reduce((most, point) => Math.max(most, total(point)), 0);

  chart("chart-ends", Math.max(high, 1), number, (x, y) => {
    let below = points.map(() => 0);
    return ABOUT.map(([about]) => {
      const above = points.map((point, index) => below[index] + (point.ends.get(about) || 0));
      const edge = points.map((point, index) => place(x(point.at), y(above[index])));
      const foot = points.map((point, index) => place(x(point.at), y(below[index]))).reverse();
      below = above;
      return draw("polygon", { class: about, points: [...edge, ...foot].join(" ") });
    });
  });
  const last = points[points.length - 1];
  const parts = ABOUT.filter(([about]) => last.ends.get(about) > 0)
    .map(([about, words]) => words + " " + number(last.ends.get(about)));
  say(at("text-ends"), "Now " + number(total(last)) + " a second" +
    (parts.length > 0 ? ": " + parts.join(", ") : "") + "; at most " + number(high));
}

function drawTimes() {
  const known = (name) => points.filter((point) => !Number.isNaN(point[name]));
  const most = known("slowest").reduce((high, point) => Math.max(high, point.slowest), 0.001);

  chart("chart-times", most, duration, (x, y) => TIMES.map(([name]) =>
    draw("polyline", {
      class: "edge " + name,
      points: known(name).map((point) => place(x(point.at), y(point[name]))).join(" "),
    })));
  const last = points[points.length - 1];
  say(at("text-times"), Number.isNaN(last.median) ? "Now none was forwarded"
    : "Now " + duration(last.median) + " in the median, 99 % within " + duration(last.slowest));
}

function legend(id, rows) {
  for (const [name, words] of rows) {
    const entry = document.createElement("span"), mark = document.createElement("i");
    mark.className = name;
    entry.append(mark, words);
    at(id).append(entry);
  }
}

// ---- the parts ----

const everything = () => "";
const byAbout = (labels) => labels.about;
const ENDED = PREFIX + "requests_ended_total";
const REQUEST_TIME = PREFIX + "request_duration_seconds";
const forwarded = (labels) => (labels.cache === "miss" ? "" : null);

function showTiles() {
  const ends = rates(ENDED, byAbout);
  const all = [...ends.values()].reduce((sum, rate) => sum + rate, 0);
  const hits = rates(PREFIX + "cache_hits_total", everything).get("") || 0;
  const busy = rates("process_cpu_seconds_total", everything).get("") || 0;

  say(at("tile-rate"), number(all));
  say(at("tile-flight"), number(gauge(PREFIX + "exchanges")));
  say(at("tile-median"), duration(quantile(REQUEST_TIME, forwarded, "", 0.5)));
  say(at("tile-p99"), duration(quantile(REQUEST_TIME, forwarded, "", 0.99)));
  say(at("tile-cache"), all > 0 ? number(Math.min(100, 100 * hits / all)) + " %" : "–");
  say(at("tile-bad"), all > 0 ? number(100 * (all - (ends.get("success") || 0)) / all) + " %" : "–");
  say(at("tile-clients"), number(gauge(PREFIX + "clients")));
  say(at("tile-observations"), number(gauge(PREFIX + "observations")) + " / " +
    number(gauge(PREFIX + "observers")));
  say(at("tile-memory"), bytes(gauge("process_resident_memory_bytes")));
  say(at("tile-processor"), number(100 * busy) + " %");
}

function showReasons() {
  const keyOf = (labels) => labels.reason + " " + labels.about;
  const rate = rates(ENDED, keyOf), total = sums(newest(), ENDED, keyOf);
  const all = [...rate.values()].reduce((sum, value) => sum + value, 0);
  const rows = [...total].filter(([, count]) => count > 0)
    .sort((a, b) => rate.get(b[0]) - rate.get(a[0]) || b[1] - a[1] || (a[0] < b[0] ? -1 : 1));

  fill("reasons", rows.map(([key, count]) => {
    const [reason, about] = key.split(" "), share = all > 0 ? rate.get(key) / all : 0;
    const meter = document.createElement("meter");
    meter.setAttribute("value", share.toFixed(3));
    meter.setAttribute("aria-label", reason + ": " + Math.round(100 * share) + " %");
    return [cell(reason), cell(about), cell(number(rate.get(key)), "number"),
      cell(number(count), "number"), cell(meter)];
  }), "No request has ended yet.");
}

// A table of histograms: a row for each text of keyOf.
function showTimes(id, name, keyOf, cellsOf, empty) {
  const rate = rates(name + "_count", keyOf), total = sums(newest(), name + "_count", keyOf);
  const rows = [...total].filter(([, count]) => count > 0)
    .sort((a, b) => rate.get(b[0]) - rate.get(a[0]) || b[1] - a[1] || (a[0] < b[0] ? -1 : 1));

  fill(id, rows.map(([key, count]) => [
    ...cellsOf(key), cell(number(rate.get(key)), "number"),
    cell(duration(quantile(name, keyOf, key, 0.5)), "number"),
    cell(duration(quantile(name, keyOf, key, 0.99)), "number"), cell(number(count), "number"),
  ]), empty);
}

function showCounters() {
  const wanted = at("filter").value.trim().toLowerCase(), zeros = at("zeros").checked;
  const rows = [];

  for (const [name, type] of newest().type) {
    const help = newest().help.get(name) || "";
    const plain = samples(newest(), name).length === 1 && samples(newest(), name)[0].key === "";
    const value = gauge(name), short = name.replace(PREFIX, "");
    if (plain && (zeros || value !== 0) && (short + " " + help).toLowerCase().includes(wanted)) {
      const rate = type === "counter" ? number(rates(name, everything).get("")) : "";
      rows.push([cell(short), cell(number(value), "number"), cell(rate, "number"),
        cell(help.replace(/\\\\/g, "\\"), "wide")]);
    }
  }
  fill("counters", rows, "None.");
  say(at("count"), rows.length + " shown");
}

function showAbout() {
  const build = samples(newest(), PREFIX + "build_info")[0];
  const started = gauge("process_start_time_seconds");
  const running = age(Math.max(0, Date.now() / 1000 - started));
  const state = gauge(PREFIX + "ready") === 1 ? "ready" : "draining";
  const workers = gauge(PREFIX + "workers");

  at("about").className = "";
  say(at("about"), (build ? build.labels.version + ", " : "") + state + ", running for " + running +
    ", " + workers + (workers === 1 ? " worker" : " workers") +
    (paused() ? "; paused" : ""));
}

function show() {
  showAbout();
  if (readings.length < 2 || at("view-overview").hidden) {
    return;
  }
  showTiles();
  drawEnds();
  drawTimes();
  showReasons();
  showTimes("origins", PREFIX + "origin_duration_seconds",
    (labels) => labels.origin + " " + labels.upstream,
    (key) => key.split(" ").map((text) => cell(text)), "None has answered yet.");
  showTimes("fronts", REQUEST_TIME, (labels) => labels.front, (key) => [cell(key)],
    "No request was forwarded or answered from the cache yet.");
  showTimes("routes", PREFIX + "route_duration_seconds", (labels) => labels.route,
    (key) => [cell(key === "" ? "no route" : key)], "No request was forwarded yet.");
  showCounters();
}

// ---- asking ----

const paused = () => at("pause").getAttribute("aria-pressed") === "true";

function take(text) {
  const reading = parse(text);
  const start = (one) => samples(one, "process_start_time_seconds").map((sample) => sample.value)[0];

  if (readings.length > 0 && start(newest()) !== start(reading)) {
    readings.length = 0; // another process counts from 0
    points = [];
  }
  if (readings.length > 0 && reading.at - newest().at < 0.5) {
    readings.pop(); // rates of so short a time would be chance
    points.pop();
  }
  readings.push(reading);
  while (readings.length > 2 && reading.at - readings[1].at >= WINDOW) {
    readings.shift();
  }
  if (readings.length > 1) {
    const before = readings[readings.length - 2];
    points.push({
      at: reading.at,
      ends: rates(ENDED, byAbout, before),
      median: quantile(REQUEST_TIME, forwarded, "", 0.5, before),
      slowest: quantile(REQUEST_TIME, forwarded, "", 0.99, before),
    });
    points = points.slice(-POINTS);
  }
}

function complain(error) {
  at("about").className = "bad";
  say(at("about"), "No answer from the proxy" +
    (since === null ? "" : " since " + since.toLocaleTimeString("en-GB")) + ": " + error.message);
}

async function ask() {
  const mine = ++turn, began = performance.now();
  let text = null;

  clearTimeout(timer);
  try {
    const answer = await fetch("metrics", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    text = await answer.text();
    if (!answer.ok) {
      throw new Error("status " + answer.status);
    }
  } catch (error) {
    text = null;
    complain(error);
  }
  if (mine !== turn || paused()) {
    return; // another one has begun, or is to begin later
  }
  const wait = Number(at("interval").value) * 1000 - (performance.now() - began);
  timer = setTimeout(ask, Math.max(200, wait));
  if (text !== null) {
    since = new Date();
    take(text);
    show();
  }
}

at("pause").addEventListener("click", () => {
  at("pause").setAttribute("aria-pressed", paused() ? "false" : "true");
  clearTimeout(timer);
  if (paused() && readings.length > 0) {
    showAbout();
  } else if (!paused()) {
    ask();
  }
});
at("interval").addEventListener("change", () => {
  if (!paused()) {
    ask();
  }
});
for (const id of ["filter", "zeros"]) {
  at(id).addEventListener("input", () => {
    if (readings.length > 1) {
      showCounters();
    }
  });
}
addEventListener("resize", () => {
  if (points.length > 0 && !at("view-overview").hidden) {
    drawEnds();
    drawTimes();
  }
});
legend("legend-ends", ABOUT);
legend("legend-times", TIMES);
ask();
