"use strict";
const POLL_MS = 1000, PATIENCE_MS = 5000, PICTURE_MS = 2000, REMEMBERED = 120, QUIET_MS = 3000;
const at = id => document.getElementById(id);
const rates = [], pictures = new Map(), inView = new Set();
let lastAnswer = null, lastMove = null, lastTicks = null, known = null;

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}
function say(node, text) { if (node.textContent !== text) node.textContent = text; }
function whole(value) { return value.toLocaleString("en").replaceAll(",", "\u202f"); }
function figures(value) { return value === 0 ? "0" : value >= 99.95 ? whole(Math.round(value)) : value.toPrecision(3); }
function seconds(value) {
  if (value === null) return "–";
  if (value === 0) return "0";
  if (value < 0.0009995) return figures(value * 1e6) + " µs";
  return value < 0.9995 ? figures(value * 1e3) + " ms" : figures(value) + " s";
}
function called(status) { return "samepath cluster" + (status && status.name !== "samepath" ? " " + status.name : ""); }
function clock(date) { return date.toLocaleTimeString("en-GB"); }
function several(count, one, many) { return whole(count) + " " + (count === 1 ? one : many); }

function spark(values) {
  const space = "http://www.w3.org/2000/svg", svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "spark"); svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none"); svg.setAttribute("aria-hidden", "true");
  const top = Math.max(...values, 1e-9), step = 100 / Math.max(values.length - 1, 1);
  const points = values.map((value, index) => (index * step).toFixed(2) + "," + (30 - 29 * value / top).toFixed(2));
  const area = document.createElementNS(space, "polygon"), line = document.createElementNS(space, "polyline");
  area.setAttribute("points", ["0,30", ...points, ((values.length - 1) * step).toFixed(2) + ",30"].join(" "));
  line.setAttribute("points", points.join(" "));
  svg.append(area, line);
  return svg;
}

function fact(name, value, note, values, tone) {
  const box = make("div", (values ? "wide " : "") + (tone || ""));
  box.append(make("dt", "", name));
  const words = make("dd", "", value);
  if (note) words.append(make("span", "note", note));
  if (values && values.length > 1) words.append(spark(values));
  box.append(words);
  return box;
}

// Cells are [key, builder or text]: what has not changed is left alone, so that a reader can mark and copy it.
function fill(body, rows, labels) {
  while (body.rows.length > rows.length) body.lastElementChild.remove();
  rows.forEach((cells, index) => {
    const row = body.rows[index] || body.insertRow();
    cells.forEach((cell, column) => {
      let place = row.cells[column];
      if (!place) {
        place = row.appendChild(make(cell.head ? "th" : "td", cell.number ? "number" : ""));
        if (cell.head) place.scope = "row";
        else if (labels) place.dataset.label = labels[column];
      }
      const key = cell.key === undefined ? cell.text : cell.key;
      if (place.dataset.key === key) return;
      place.dataset.key = key;
      place.classList.toggle("strong", Boolean(cell.strong));
      place.replaceChildren(...(cell.build ? cell.build() : [cell.text]));
    });
  });
}
function number(value, strong) { return { text: typeof value === "string" ? value : whole(value), number: true, strong }; }

function nodeCells(node, lockstep) {
  const where = node.host + ", process " + node.pid, silent = node.silent_s >= 1 && node.state !== "gone";
  const state = node.state + (silent ? ", silent for " + Math.round(node.silent_s) + " s" : "");
  const busy = Math.round(100 * Math.min(Math.max(node.busy, 0), 1));
  return [
    { head: true, key: [node.name, where, node.address].join("|"),
      build: () => [node.name, make("span", "note", node.address), make("span", "note", where)] },
    { key: state, build: () => [make("span", "badge " + node.state, node.state),
      ...(silent ? [make("span", "note", "silent for " + Math.round(node.silent_s) + " s")] : [])] },
    { key: String(busy), build: () => {
      const bar = make("div", "bar"), part = make("span");
      part.style.width = busy + "%";
      bar.append(part);
      return [busy + " %", bar];
    } },
    number(figures(node.frames_per_s)), number(seconds(node.step_s)),
    number(node.late_frames, lockstep && node.late_frames > 0), number(node.dropped_frames, node.dropped_frames > 0),
    { number: true, strong: node.desynchronised > 0, key: node.desynchronised + " " + node.compared,
      build: () => [whole(node.desynchronised), make("span", "note", "of " + whole(node.compared))] },
    number(node.sensors), number(node.clients), number(node.speed === null ? "–" : node.speed.toFixed(2)), number(node.restarts),
  ];
}
const NODE_LABELS = ["", "", "busy", "frames/s", "step", "late", "dropped", "desynchronised", "sensors", "clients", "speed", "restarts"];

function commandCells(one) {
  return [{ text: one.id, head: true }, number(String(one.actor)), { text: one.method }, number(one.frame),
    number(seconds(one.latency_s)), { text: one.winner ? "counted" : "overruled" }];
}

const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) inView[entry.isIntersecting ? "add" : "delete"](entry.target);
}, { rootMargin: "200px" });

function newSensor(sensor) {
  const figure = make("figure"), box = make("div", "picture"), caption = make("figcaption");
  const head = make("strong"), what = make("span", "note"), who = make("span", "note"), cost = make("span", "note");
  caption.append(head, what, who, cost);
  const one = { figure, box, head, what, who, cost, frames: -1, asked: -Infinity };
  if (sensor.width > 0) {
    say(box, "no picture yet");
    figure.append(box);
    watcher.observe(figure);
  }
  figure.append(caption);
  return one;
}
function refresh(one, sensor) {
  // The main server fetches a picture when it is first asked for, so the first answer may be that there is none yet.
  const now = performance.now();
  if (!sensor.width || !inView.has(one.figure) || one.frames === sensor.frames || now - one.asked < PICTURE_MS) return;
  one.asked = now;
  const image = new Image(), frames = sensor.frames;
  image.alt = "what " + sensor.type + " " + sensor.id + " saw last";
  image.onload = () => { one.box.replaceChildren(image); one.frames = frames; };
  image.onerror = () => { if (!one.box.querySelector("img")) say(one.box, "no picture"); };
  image.src = "/thumbnails/" + sensor.id + ".png?frame=" + frames;
}
function showSensors(sensors) {
  const present = new Set(sensors.map(sensor => sensor.id));
  for (const [id, one] of pictures) if (!present.has(id)) { watcher.unobserve(one.figure); inView.delete(one.figure); one.figure.remove(); pictures.delete(id); }
  for (const sensor of sensors) {
    let one = pictures.get(sensor.id);
    if (!one) {
      one = newSensor(sensor);
      pictures.set(sensor.id, one);
      at("sensors").append(one.figure);
    }
    const size = sensor.width ? ", " + sensor.width + "×" + sensor.height : "";
    say(one.head, sensor.id + " on " + (sensor.node || "no node"));
    say(one.what, sensor.type.replace(/^sensor\./, "") + size);
    say(one.who, sensor.homes.length ? "listened to through " + sensor.homes.join(", ") : "nobody listens");
    say(one.cost, several(sensor.frames, "frame", "frames") + (sensor.cost_s === null ? "" : ", " + seconds(sensor.cost_s) + " each"));
    refresh(one, sensor);
  }
}

function showVerdict(status) {
  const apart = status.desynchronised, compared = several(status.compared, "state digest", "state digests");
  at("verdict").className = "verdict " + (apart ? "bad" : status.compared ? "good" : "unknown");
  say(at("verdict-words"), status.compared ? whole(apart) + " desynchronised" : "Nothing compared yet");
  say(at("verdict-why"), !status.compared ? "No node has sent a digest of its state."
    : apart ? "Of " + compared + " of nodes, " + whole(apart) + " differ from the main server's: what those nodes drew is not this world."
    : "All " + compared + " of nodes are equal to the main server's.");
  say(at("where"), status.mode + ", map " + status.map_name + ", episode " + status.episode + ", tick " + whole(status.frame) +
    (lastMove && Date.now() - lastMove >= QUIET_MS ? "; no tick for " + Math.round((Date.now() - lastMove) / 1000) + " s" : ""));
  const least = status.nodes.find(node => node.address === status.connect[0]);
  say(at("connect"), least ? "New clients: " + least.address + " (" + least.name + ", the least loaded)." : "");
  at("waiting").hidden = !status.waiting_for.length;
  say(at("waiting"), "This tick waits for " + status.waiting_for.join(", ") + ".");
}

function showFacts(status) {
  const commands = status.commands, top = Math.max(0, ...status.recent_tick_s);
  const clients = status.nodes.reduce((sum, node) => sum + node.clients, 0);
  const working = status.nodes.filter(node => node.state === "working").length;
  at("facts").replaceChildren(
    fact("Tick time", seconds(status.tick_s), status.recent_tick_s.length > 1
      ? "the last " + status.recent_tick_s.length + ": mean " + seconds(status.tick_s_mean) + ", longest " + seconds(top) : "", status.recent_tick_s),
    fact("Frames a second, all nodes", figures(status.frames_per_s), whole(status.frames) + " frames; here since this page was opened", rates),
    fact("Ticks a second", figures(status.ticks_per_s), several(status.ticks, "tick", "ticks")),
    fact("Nodes working", working + " of " + status.nodes.length, several(clients, "client", "clients") + " connected"),
    fact("Late frames", whole(status.late_frames), status.late_frames ? "at worst " + seconds(status.worst_lateness_s) : "", null,
      status.late_frames && status.mode === "lockstep" ? "bad" : ""),
    fact("Dropped frames", whole(status.dropped_frames), "", null, status.dropped_frames ? "bad" : ""),
    fact("Ordered again elsewhere", several(status.reissued, "frame", "frames"), "because a node failed"),
    fact("Command latency", commands.count ? seconds(commands.latency_s_median) : "–", commands.count
      ? "99 % within " + seconds(commands.latency_s_p99) + ", longest " + seconds(commands.latency_s_max) : "median"),
    fact("Sensors", whole(status.sensors.length), several(status.moved, "move", "moves") + " to another node"),
    fact("Commands", whole(commands.count), whole(commands.overruled) + " overruled within their tick"),
  );
}

function show(status) {
  const name = called(status);
  document.title = (status.desynchronised ? status.desynchronised + " desynchronised – " : "") + name;
  say(at("title"), name);
  say(at("version"), "samepath " + status.version);
  if (status.ticks !== lastTicks) { lastTicks = status.ticks; lastMove = Date.now(); }
  rates.push(status.frames_per_s);
  if (rates.length > REMEMBERED) rates.shift();
  at("main").hidden = false;
  showVerdict(status);
  showFacts(status);
  fill(at("nodes"), status.nodes.map(node => nodeCells(node, status.mode === "lockstep")), NODE_LABELS);
  fill(at("commands"), [...status.commands.last].reverse().map(commandCells));
  const lines = [...status.problems].reverse(), list = at("problems");
  if (list.dataset.key !== lines.join("\n")) {
    list.dataset.key = lines.join("\n");
    list.replaceChildren(...lines.map(line => make("li", "", line)));
  }
  showSensors(status.sensors);
  at("no-nodes").hidden = status.nodes.length > 0;
  at("no-problems").hidden = lines.length > 0;
  at("no-sensors").hidden = status.sensors.length > 0;
  at("no-commands").hidden = status.commands.last.length > 0;
  at("commands-table").hidden = !status.commands.last.length;
}

function heard() {
  lastAnswer = new Date();
  document.body.classList.remove("stale");
  at("silence").hidden = true;
}
function silent(why) {
  document.body.classList.add("stale");
  at("silence").hidden = false;
  const gone = lastAnswer && "No answer since " + clock(lastAnswer) + " (" + Math.round((Date.now() - lastAnswer) / 1000) + " s).";
  say(at("silence"), gone ? gone + " The main server is gone or cannot be reached; below is how it stood at tick " + whole(known.frame) + "."
    : "No answer" + why + ".");
  document.title = "No answer – " + called(known);
}

async function poll() {
  let status = null, why = " from the main server";
  try {
    const answer = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.ok) status = await answer.json();
    else why = ": " + (await answer.text()).trim().slice(0, 200);
  } catch { /* said below */ }
  setTimeout(poll, POLL_MS);
  if (!status) { silent(why); return; }
  known = status;
  heard();
  show(status);
}
poll();
