// The viewer: one timeline, up to four cells side by side under one camera, and everything else around them.
import * as THREE from "three";
import { MapControls } from "three/addons/controls/MapControls.js";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { colourOf } from "./colours.js";
import { loadBlock, readIndex } from "./data.js";
import { LiveWorld } from "./live.js";
import { CellScene } from "./scene.js";
import { Timeline, indexOf, length } from "./timeline.js";

const CELLS_MOST = 4;
const ROWS_LISTED = 40;
const FAR_M = 0.01;
const MAGNIFICATIONS = [1, 10, 100, 1000];
const find = name => document.getElementById(name);
const index = readIndex();
const grounds = new Map(), loaded = new Map();
const state = {
  cells: [], index: 0, playing: false, speed: 1, magnify: 1, flat: true, follow: null, colour: "outcome", hidden: new Set(), paths: true,
  labels: true, theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
};
let renderer, flatCamera, solidCamera, flatControls, solidControls, timeline, dirty = true, frames = 0, lastFollow = null, clock = 0;

// An element with text and children; names from traces only ever get in as text.
function make(tag, { text, on, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, ""); else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  for (const [event, heard] of Object.entries(on ?? {})) made.addEventListener(event, heard);
  made.append(...children);
  return made;
}

const first = () => state.cells[0]?.cell;
const tickNow = () => { const ticks = first()?.arrays.ticks; return ticks ? ticks[Math.min(state.index, ticks.length - 1)] : 0; };
const stale = () => { dirty = true; };

function say(words) {
  find("trouble").textContent = words;
  find("trouble").hidden = !words;
}

async function cellScene(number) {
  if (!loaded.has(number)) {
    const about = index.cells[number];
    const cell = await loadBlock(`cell-${number}`);
    if (about.ground !== null && !grounds.has(about.ground)) grounds.set(about.ground, await loadBlock(`ground-${about.ground}`));
    const made = new CellScene(cell, about.ground === null ? null : grounds.get(about.ground), renderer.capabilities.maxTextureSize);
    made.number = number;
    loaded.set(number, made);
  }
  return loaded.get(number);
}

async function showCells(numbers, keepView = false) {
  say("");
  find("busy").hidden = false;
  try {
    const scenes = [];
    for (const number of numbers.slice(0, CELLS_MOST)) scenes.push(await cellScene(number));
    // What is not shown is given back: a card holds a few cells, a study has hundreds.
    for (const [number, scene] of loaded) {
      if (!scenes.includes(scene)) { scene.dispose(); loaded.delete(number); }
    }
    state.cells = scenes;
    state.hidden = new Set();
    state.index = Math.min(state.index, timelineLength() - 1);
    if (state.follow !== null && state.follow >= first().actors.length) state.follow = null;
    timeline.show(scenes.map(scene => scene.cell), state.index);
    for (const scene of scenes) scene.setTheme(state.theme);
    recolour();
    fillPanel();
    if (!keepView) lookAtAll();
    show();
  } catch (error) {
    say(error.message);
  } finally {
    find("busy").hidden = true;
  }
}

const timelineLength = () => Math.max(1, ...state.cells.map(scene => scene.ticks));

function recolour() {
  for (const scene of state.cells) {
    const { cell } = scene, byActor = state.colour === "actor";
    const number = row => (state.colour === "ending" ? cell.outcomes[row]?.ending ?? 0 : row);
    const count = state.colour === "ending" ? cell.endings.length : byActor ? cell.actors.length : cell.outcomes.length;
    const alpha = scene.rows <= 3 ? 0.85 : scene.rows <= 50 ? 0.6 : 0.35;
    scene.setColours(row => colourOf(number(row), count, state.theme), byActor, row => scene !== state.cells[0] || !state.hidden.has(row), alpha);
  }
  stale();
}

// Everything that depends on the tick, and the address that leads back here.
function show() {
  const cell = first();
  if (!cell) return;
  find("flat").setAttribute("aria-pressed", state.flat);
  find("solid").setAttribute("aria-pressed", !state.flat);
  if (index.live) { stale(); return; }
  const tick = tickNow(), last = cell.arrays.ticks[cell.arrays.ticks.length - 1], apart = cell.arrays.spread_m[Math.min(state.index, cell.arrays.ticks.length - 1)];
  const seconds = (tick * cell.step_s).toFixed(2);
  find("now").textContent = `tick ${tick} of ${last}, ${seconds} s`;
  const far = cell.outcomes.length === 1 ? "all repeats are the same to the bit" : apart > 0 ? `${length(apart)} apart at most` : "all at the same places";
  find("apart").textContent = far;
  const slider = find("timeline");
  slider.setAttribute("aria-valuemin", cell.arrays.ticks[0]);
  slider.setAttribute("aria-valuemax", last);
  slider.setAttribute("aria-valuenow", tick);
  slider.setAttribute("aria-valuetext", `tick ${tick}, ${seconds} seconds, ${far}`);
  find("magnified").hidden = state.magnify === 1;
  find("magnified").textContent = `differences in place ×${state.magnify}`;
  find("play").textContent = state.playing ? "Pause" : "Play";
  find("play").setAttribute("aria-pressed", state.playing);
  for (const button of document.querySelectorAll("[data-magnify]")) button.setAttribute("aria-pressed", Number(button.dataset.magnify) === state.magnify);
  timeline.show(null, state.index);
  const address = new URLSearchParams({ cell: state.cells.map(scene => scene.number).join(","), tick });
  if (!state.flat) address.set("view", "3d");
  if (state.magnify !== 1) address.set("magnify", state.magnify);
  if (state.follow !== null) address.set("follow", cell.actors[state.follow].id);
  if (state.colour !== "outcome") address.set("colour", state.colour);
  history.replaceState(null, "", `#${address}`);
  document.body.dataset.tick = tick;
  stale();
}

function go(to) { state.index = Math.max(0, Math.min(timelineLength() - 1, to)); show(); }
function step(by) { state.playing = false; go(state.index + by); }
function play(on = !state.playing) {
  if (on && state.index >= timelineLength() - 1) state.index = 0;
  state.playing = on;
  clock = performance.now();
  show();
}
function goToParting() {
  const cell = first();
  if (!cell || cell.parting_tick === null) return;
  state.playing = false;
  go(indexOf(cell.arrays.ticks, cell.parting_tick));
  const outcome = cell.outcomes.find(one => one.parting_tick === cell.parting_tick);
  const actor = cell.actors.findIndex(one => one.id === outcome.parting_actor), place = actor < 0 ? null : state.cells[0].place(actor, state.index);
  if (place) lookAt(place, 15);
}
// Bits differ long before anybody sees it: this is where a person would.
function goToFar() {
  const cell = first(), at = cell ? cell.arrays.spread_m.findIndex(metres => metres >= FAR_M) : -1;
  if (at < 0) return;
  state.playing = false;
  go(at);
}
function nextMark(way) {
  const cell = first(), now = tickNow();
  const ticks = [...new Set([...cell.marks.map(mark => mark.tick), ...(cell.parting_tick === null ? [] : [cell.parting_tick])])].sort((a, b) => a - b);
  const found = way > 0 ? ticks.find(tick => tick > now) : ticks.reverse().find(tick => tick < now);
  if (found !== undefined) { state.playing = false; go(indexOf(cell.arrays.ticks, found)); }
}
function magnify(by) { state.magnify = by; show(); }
function follow(actor) { state.follow = actor; lastFollow = null; find("follow").value = actor === null ? "" : String(actor); show(); }
function setFlat(flat) {
  if (state.flat === flat) return;
  const from = controls().target.clone();
  state.flat = flat;
  if (flat) { flatCamera.position.set(from.x, from.y, 500); flatControls.target.copy(from); }
  else {
    const reach = Math.max(20, viewHeight() * 0.9);
    solidCamera.position.set(from.x - reach * 0.5, from.y - reach * 0.6, reach * 0.5);
    solidControls.target.copy(from);
  }
  useControls();
  show();
}
function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  for (const scene of state.cells) scene.setTheme(theme);
  recolour();
  if (state.cells.length) { if (!index.live) timeline.draw(); fillPanel(); }
}

const camera = () => (state.flat ? flatCamera : solidCamera);
const controls = () => (state.flat ? flatControls : solidControls);
const viewHeight = () => (flatCamera.top - flatCamera.bottom) / flatCamera.zoom;
function useControls() { flatControls.enabled = state.flat; solidControls.enabled = !state.flat; controls().update(); }

function lookAtAll() {
  const all = new THREE.Box3();
  for (const scene of state.cells) all.union(scene.bounds);
  const centre = all.getCenter(new THREE.Vector3()), size = all.getSize(new THREE.Vector3());
  const { width, height } = part(0);
  lookAt(centre, Math.max(size.y, size.x * (height / width), 12) * 1.08);
}
function lookAt(place, tall) {
  flatControls.target.set(place.x, place.y, 0);
  flatCamera.position.set(place.x, place.y, 500);
  flatCamera.zoom = 100 / tall;
  solidControls.target.copy(place);
  solidCamera.position.set(place.x - tall * 0.36, place.y - tall * 0.54, place.z + tall * 0.46);
  lastFollow = null;
  useControls();
  stale();
}

// Where the number-th cell is drawn, in CSS pixels from the upper left of the canvas.
function part(number) {
  const { width, height } = find("stage").getBoundingClientRect(), count = Math.max(1, state.cells.length);
  const columns = count === 1 ? 1 : width > height ? (count === 2 ? 2 : 2) : count > 2 ? 2 : 1, rows = Math.ceil(count / columns);
  const wide = width / columns, high = height / rows;
  return { x: (number % columns) * wide, y: Math.floor(number / columns) * high, width: wide, height: high };
}

function followNow() {
  const place = state.follow === null ? null : state.cells[0]?.place(state.follow, state.index);
  if (!place) { lastFollow = null; return; }
  if (lastFollow) {
    const moved = place.clone().sub(lastFollow);
    controls().target.add(moved);
    camera().position.add(moved);
  } else {
    const moved = place.clone().sub(controls().target);
    if (state.flat) moved.z = 0;
    controls().target.add(moved);
    camera().position.add(moved);
  }
  lastFollow = place;
  controls().update();
}

function draw() {
  const stage = find("stage").getBoundingClientRect(), ratio = Math.min(2, devicePixelRatio || 1);
  const size = renderer.getSize(new THREE.Vector2());
  if (size.x !== stage.width || size.y !== stage.height || renderer.getPixelRatio() !== ratio) {
    renderer.setPixelRatio(ratio);
    renderer.setSize(stage.width, stage.height, false);
  }
  followNow();
  renderer.setScissorTest(true);
  const labels = [];
  state.cells.forEach((scene, number) => {
    const at = part(number), aspect = at.width / at.height;
    flatCamera.left = -50 * aspect; flatCamera.right = 50 * aspect; flatCamera.top = 50; flatCamera.bottom = -50;
    flatCamera.updateProjectionMatrix();
    solidCamera.aspect = aspect;
    solidCamera.updateProjectionMatrix();
    const low = stage.height - at.y - at.height;
    renderer.setViewport(at.x, low, at.width, at.height);
    renderer.setScissor(at.x, low, at.width, at.height);
    scene.update({ index: state.index, magnify: state.magnify, flat: state.flat, paths: state.paths, viewport: new THREE.Vector2(at.width * ratio, at.height * ratio), ratio });
    renderer.render(scene.scene, camera());
    labels.push(...labelsOf(scene, number, at));
  });
  putLabels(labels);
  drawScale();
  frames += 1;
  document.body.dataset.frames = frames;
}

function labelsOf(scene, number, at) {
  const made = [];
  const put = (place, text, kind) => {
    if (!place) return;
    const seen = place.clone().project(camera());
    if (Math.abs(seen.x) > 1 || Math.abs(seen.y) > 1 || seen.z > 1) return;
    made.push({ x: at.x + ((seen.x + 1) / 2) * at.width, y: at.y + ((1 - seen.y) / 2) * at.height, text, kind });
  };
  if (state.labels && scene.actors <= 30) {
    scene.cell.actors.forEach((actor, row) => put(scene.place(row, state.index), `${actor.id} ${actor.shape.kind}`, "actor"));
  }
  const { cell } = scene;
  if (cell.parting_tick !== null) {
    const outcome = cell.outcomes.find(one => one.parting_tick === cell.parting_tick);
    const actor = cell.actors.findIndex(one => one.id === outcome.parting_actor);
    if (actor >= 0) put(scene.place(actor, indexOf(cell.arrays.ticks, cell.parting_tick)), "", "parting");
  }
  if (state.cells.length > 1) made.push({ x: at.x + 12, y: at.y + 12, text: cell.name, kind: "title" });
  return made;
}

function putLabels(labels) {
  const over = find("labels");
  while (over.children.length > labels.length) over.lastChild.remove();
  labels.forEach(({ x, y, text, kind }, number) => {
    const one = over.children[number] ?? over.appendChild(document.createElement("span"));
    if (one.textContent !== text) one.textContent = text;
    one.className = kind;
    one.style.transform = `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;
  });
}

// A bar of 1, 2 or 5 times a power of ten metres; only from above, where all is at one scale.
function drawScale() {
  const bar = find("scale");
  bar.hidden = !state.flat;
  if (!state.flat) return;
  const perMetre = part(0).height / viewHeight(), room = 120 / perMetre, power = 10 ** Math.floor(Math.log10(room));
  const metres = [5, 2, 1].map(factor => factor * power).find(one => one <= room);
  bar.style.width = `${metres * perMetre}px`;
  bar.textContent = length(metres).replace(/\.?0+ /, " ");
}

function frame(now) {
  requestAnimationFrame(frame);
  const cell = first();
  if (state.playing && cell) {
    // Ticks of the first cell set the pace. Nothing is drawn between two of them: nothing was logged there.
    const every = ((cell.arrays.ticks[1] ?? 1) - cell.arrays.ticks[0]) * cell.step_s * 1000 / state.speed, due = Math.floor((now - clock) / every);
    if (due > 0) {
      clock += due * every;
      state.index = Math.min(timelineLength() - 1, state.index + due);
      if (state.index >= timelineLength() - 1) state.playing = false;
      show();
    }
  }
  controls()?.update();
  if (dirty) { dirty = false; draw(); }
}

const plural = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function fillPanel() {
  const scene = state.cells[0], { cell } = scene;
  find("subtitle").textContent = [cell.name, cell.simulator, `${plural(cell.repeats, "repeat")}, ${plural(cell.outcomes.length, "outcome")}`].filter(Boolean).join(" \u2013 ");
  const notes = [];
  if (cell.every > 1) notes.push(`Every ${cell.every}th logged tick is shown.`);
  if (scene.rowStride > 1 && state.paths) notes.push(`Paths are drawn of every ${scene.rowStride}th outcome.`);
  if (!cell.lossless) notes.push("The log does not hold the simulator's own numbers: it is rounded or resampled.");
  find("notes").textContent = notes.join(" ");
  find("part").disabled = cell.parting_tick === null;
  find("far").disabled = !cell.arrays.spread_m.some(metres => metres >= FAR_M);

  const list = find("outcomes"), count = cell.outcomes.length;
  list.replaceChildren(...cell.outcomes.slice(0, ROWS_LISTED).map((outcome, row) => {
    const box = make("input", { type: "checkbox", checked: !state.hidden.has(row), on: { change: event => { event.target.checked ? state.hidden.delete(row) : state.hidden.add(row); recolour(); } } });
    const swatch = make("i", { class: "swatch" }), number = state.colour === "ending" ? outcome.ending : row;
    swatch.style.background = `rgb(${colourOf(number, state.colour === "ending" ? cell.endings.length : count, state.theme)})`;
    const who = outcome.repeats.length > 3 ? plural(outcome.repeats.length, "repeat") : `repeat ${outcome.repeats.join(", ")}`;
    const item = make("li", {}, make("label", {}, box, swatch, ` ${who}${row === 0 ? " (reference)" : ""}`));
    if (outcome.parting_tick !== null) {
      item.append(make("button", { type: "button", class: "small", text: `parts at ${outcome.parting_tick}`, on: { click: () => { state.playing = false; go(indexOf(cell.arrays.ticks, outcome.parting_tick)); } } }));
    }
    return item;
  }));
  find("more").textContent = count > ROWS_LISTED ? `and ${count - ROWS_LISTED} more, drawn with the others` : "";
  find("endings").replaceChildren(...cell.endings.slice(0, 12).map((words, number) => {
    const repeats = cell.outcomes.filter(one => one.ending === number).reduce((sum, one) => sum + one.repeats.length, 0);
    return make("li", { text: `${plural(repeats, "repeat")}: ${words}` });
  }));

  const chosen = find("follow");
  chosen.replaceChildren(make("option", { value: "", text: "nobody" }), ...cell.actors.map((actor, row) => make("option", { value: row, text: `${actor.id}: ${actor.type}` })));
  chosen.value = state.follow === null ? "" : String(state.follow);

  find("events").replaceChildren(...cell.marks.slice(0, 200).map(mark => make("li", {}, make("button", {
    type: "button", class: "small", text: `tick ${mark.tick}`, on: { click: () => { state.playing = false; go(indexOf(cell.arrays.ticks, mark.tick)); } },
  }), ` ${mark.words} (${mark.repeats} of ${cell.repeats})`)));

  const shown = state.cells.map(one => one.number), boxes = find("cells");
  boxes.replaceChildren(...index.cells.map((about, number) => {
    const box = make("input", { type: "checkbox", checked: shown.includes(number), on: { change: event => choose(number, event.target.checked) } });
    const far = about.outcomes === 1 ? "the same" : `${length(about.max_spread_m)} apart`;
    return make("li", {}, make("label", {}, box, ` ${about.name} `, make("small", { text: far })));
  }));
  find("cells-part").hidden = index.cells.length < 2;
}

function choose(number, on) {
  const shown = state.cells.map(scene => scene.number), next = on ? [...shown, number].slice(-CELLS_MOST) : shown.filter(one => one !== number);
  showCells(next.length ? next : [number], true);
}

const KEYS = {
  " ": () => play(), ArrowRight: event => step(event.shiftKey ? 10 : 1), ArrowLeft: event => step(event.shiftKey ? -10 : -1), Home: () => step(-Infinity), End: () => step(Infinity),
  p: goToParting, c: goToFar, "[": () => nextMark(-1), "]": () => nextMark(1), 2: () => setFlat(true), 3: () => setFlat(false),
  m: () => magnify(MAGNIFICATIONS[(MAGNIFICATIONS.indexOf(state.magnify) + 1) % MAGNIFICATIONS.length]),
  f: () => follow(state.follow === null ? 0 : state.follow + 1 < first().actors.length ? state.follow + 1 : null),
  a: lookAtAll, t: () => setTheme(state.theme === "dark" ? "light" : "dark"), "?": () => find("help").showModal(),
  "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
};
function zoom(by) {
  if (state.flat) { flatCamera.zoom *= by; } else { solidCamera.position.sub(solidControls.target).divideScalar(by).add(solidControls.target); }
  stale();
}

function listen() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("help").open || !first()) return;
    const inside = event.target.closest?.("input, select, button, summary");
    // A button keeps its space and Enter, a list its arrows and letters.
    if (inside && (inside.tagName === "SELECT" || event.key === " ")) return;
    if (index.live && !["2", "3", "f", "a", "t", "?", "+", "=", "-"].includes(event.key)) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(event); }
  });
  const click = (name, act) => find(name).addEventListener("click", act);
  click("play", () => play());
  click("start", () => step(-Infinity));
  click("back", () => step(-1));
  click("forth", () => step(1));
  click("end", () => step(Infinity));
  click("part", goToParting);
  click("far", goToFar);
  click("flat", () => setFlat(true));
  click("solid", () => setFlat(false));
  click("all", lookAtAll);
  click("theme", KEYS.t);
  click("helps", () => find("help").showModal());
  click("close", () => find("help").close());
  click("fold", () => { const folded = document.body.classList.toggle("folded"); find("fold").setAttribute("aria-expanded", !folded); stale(); });
  find("speed").addEventListener("change", event => { state.speed = Number(event.target.value); });
  find("follow").addEventListener("change", event => follow(event.target.value === "" ? null : Number(event.target.value)));
  find("colour").addEventListener("change", event => { state.colour = event.target.value; recolour(); fillPanel(); show(); });
  find("paths").addEventListener("change", event => { state.paths = event.target.checked; stale(); });
  find("names").addEventListener("change", event => { state.labels = event.target.checked; stale(); });
  for (const button of document.querySelectorAll("[data-magnify]")) button.addEventListener("click", () => magnify(Number(button.dataset.magnify)));
  new ResizeObserver(stale).observe(find("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => setTheme(event.matches ? "dark" : "light"));
}

function setUp() {
  const canvas = find("world");
  renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
  flatCamera = new THREE.OrthographicCamera(-50, 50, 50, -50, 1, 2000);
  flatCamera.position.set(0, 0, 500);
  solidCamera = new THREE.PerspectiveCamera(45, 1, 0.1, 5000);
  solidCamera.up.set(0, 0, 1);
  flatControls = new MapControls(flatCamera, canvas);
  Object.assign(flatControls, { enableRotate: false, screenSpacePanning: true, zoomToCursor: true, enableDamping: false });
  solidControls = new OrbitControls(solidCamera, canvas);
  Object.assign(solidControls, { maxPolarAngle: Math.PI * 0.495, enableDamping: false });
  for (const one of [flatControls, solidControls]) one.addEventListener("change", stale);
  useControls();
  timeline = new Timeline(find("timeline"), at => { state.playing = false; go(at); });
  canvas.addEventListener("webglcontextlost", event => { event.preventDefault(); say("The graphics card was taken away. Load the page again."); });
}

const whole = (text, least, most, otherwise) => { const number = Number(text); return text !== null && Number.isInteger(number) && number >= least && number <= most ? number : otherwise; };

async function begin() {
  document.documentElement.dataset.theme = state.theme;
  find("title").textContent = index.title;
  document.title = `${index.title} \u2013 samepath view`;
  find("version").textContent = `samepath ${index.version}`;
  try {
    setUp();
  } catch {
    say("This browser gives the page no WebGL 2, which it needs to draw. Try another browser, or switch on its graphics acceleration.");
    document.body.dataset.ready = "no";
    return;
  }
  if (index.live) { await beginLive(); return; }
  listen();
  const asked = new URLSearchParams(location.hash.slice(1)), last = index.cells.length - 1;
  const worst = index.cells.reduce((best, cell, number) => (cell.max_spread_m > index.cells[best].max_spread_m ? number : best), 0);
  const numbers = (asked.get("cell") ?? "").split(",").map(text => whole(text || null, 0, last, null)).filter(number => number !== null);
  if (asked.get("view") === "3d") state.flat = false;
  if (["outcome", "ending", "actor"].includes(asked.get("colour"))) find("colour").value = state.colour = asked.get("colour");
  const by = Number(asked.get("magnify"));
  if (MAGNIFICATIONS.includes(by)) state.magnify = by;
  await showCells(numbers.length ? [...new Set(numbers)] : [worst]);
  const cell = first();
  if (cell) {
    useControls();
    const tick = whole(asked.get("tick"), -1e9, 1e9, null);
    if (tick !== null) go(indexOf(cell.arrays.ticks, tick));
    const actor = cell.actors.findIndex(one => String(one.id) === asked.get("follow"));
    if (actor >= 0) follow(actor);
    if (asked.has("parting")) goToParting();
  }
  requestAnimationFrame(frame);
  document.body.dataset.ready = "yes";
}

// A running world: asked for again and again, as quickly as answers come but not more often than that.
const LIVE_MS = 66;
async function beginLive() {
  document.body.classList.add("live");
  listen();
  const about = index.cells[0];
  if (about.ground !== null) grounds.set(0, await loadBlock("ground-0"));
  const world = new LiveWorld(grounds.get(0) ?? null, renderer.capabilities.maxTextureSize);
  state.speed = 1;
  let episode = null;
  const ask = async () => {
    try {
      const answer = await fetch("live.json");
      const told = await answer.json();
      if (!answer.ok) throw new Error(told.trouble);
      if (episode !== null && told.episode !== episode) { location.reload(); return; }
      episode = told.episode;
      say("");
      const fresh = !state.cells.length, changed = world.take(told);
      state.index = world.last;
      if (changed) {
        const followed = state.follow === null ? null : state.cells[0]?.cell.actors[state.follow]?.id;
        state.cells = [world.scene];
        const still = world.scene.cell.actors.findIndex(actor => actor.id === followed);
        state.follow = still < 0 ? null : still;
        lastFollow = null;
        world.scene.setTheme(state.theme);
        recolour();
        fillPanel();
        if (fresh && told.actors.length) lookAtAll();
      }
      find("now").textContent = `frame ${told.frame}, ${told.time_s.toFixed(2)} s`;
      find("apart").textContent = `${told.ticks_per_s.toFixed(1)} ticks/s, ${plural(told.actors.length, "actor")}${told.left_out ? ` of ${told.actors.length + told.left_out}` : ""}`;
      find("subtitle").textContent = `${told.map} at ${told.address}, live`;
      document.body.dataset.tick = told.frame;
      document.body.dataset.actors = told.actors.length;
      stale();
    } catch (error) {
      say(`${error.message}. Trying again.`);
    }
    setTimeout(ask, LIVE_MS);
  };
  state.colour = find("colour").value = "actor";
  await ask();
  find("busy").hidden = true;
  requestAnimationFrame(frame);
  document.body.dataset.ready = "yes";
}

// For measurements: frames as fast as they can be drawn, each at another tick, each waited for. Used by `python -m bench view`.
window.samepathMeasure = count => {
  const pixel = new Uint8Array(4), gl = renderer.getContext(), taken = [];
  for (let number = 0; number < count; number++) {
    const begun = performance.now();
    state.index = (state.index + 1) % timelineLength();
    draw();
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    taken.push(performance.now() - begun);
  }
  return taken;
};

begin();
