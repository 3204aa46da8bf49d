// The viewer: one timeline, up to four cells side by side under one camera, and everything else around them.
import * as THREE from "three";
import { MapControls } from "three/addons/controls/MapControls.js";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { colourOf } from "./colours.js";
import { loadBlock, readIndex } from "./data.js";
import { StillLayer, isSoftware } from "./layer.js";
import { LiveWorld } from "./live.js";
import { WorldPanel } from "./panels.js";
import { Pictures, cameraFields } from "./pictures.js";
import { CellScene, showLights } from "./scene.js";
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
  labels: true, fly: false, monitor: 0, chosen: false, theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
};
let renderer, flatCamera, solidCamera, flatControls, solidControls, timeline, dirty = true, frames = 0, lastFollow = null, clock = 0;
// Where the processor draws: what stays is kept as a picture, and while things move, pixels are larger if frames take too long.
let software = false, layer = null, coarse = 1, version = 0, pictures = null;
const SLOW_MS = 70, COARSEST = 2;
const pressed = new Set();

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
    const made = new CellScene(cell, about.ground === null ? null : grounds.get(about.ground), renderer.capabilities.maxTextureSize, software);
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
    const verdicts = state.colour === "verdict" ? cell.monitors[state.monitor]?.verdicts ?? [] : [];
    const number = row => (state.colour === "ending" ? cell.outcomes[row]?.ending ?? 0 : row);
    const count = state.colour === "ending" ? cell.endings.length : byActor ? cell.actors.length : cell.outcomes.length;
    const colour = row => (state.colour === "verdict" ? verdictColour(verdicts[row] ?? null) : colourOf(number(row), count, state.theme));
    const alpha = scene.rows <= 3 ? 0.85 : scene.rows <= 50 ? 0.6 : 0.35;
    scene.setColours(colour, byActor, row => scene !== state.cells[0] || !state.hidden.has(row), alpha);
  }
  version += 1;
  stale();
}
const VERDICTS = { light: { true: [0, 121, 90], false: [179, 38, 30], null: [110, 110, 110] }, dark: { true: [76, 195, 138], false: [255, 107, 96], null: [170, 170, 170] } };
const verdictColour = verdict => VERDICTS[state.theme][String(verdict)];

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
  pictures?.changed();
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
  const failing = cell.monitors.map((_, number) => cell.arrays[`low${number}`].findIndex(margin => margin < 0)).filter(at => at >= 0).map(at => cell.arrays.ticks[at]);
  const ticks = [...new Set([...cell.marks.map(mark => mark.tick), ...failing, ...(cell.parting_tick === null ? [] : [cell.parting_tick])])].sort((a, b) => a - b);
  const found = way > 0 ? ticks.find(tick => tick > now) : ticks.reverse().find(tick => tick < now);
  if (found !== undefined) { state.playing = false; go(indexOf(cell.arrays.ticks, found)); }
}
function magnify(by) { state.magnify = by; show(); }
// By hand: from then on a live page leaves the view to the user.
function followByHand(actor) { state.chosen = true; follow(actor); }
function showAll() { followByHand(null); lookAtAll(); }
function follow(actor) { state.follow = actor; lastFollow = null; find("follow").value = actor === null ? "" : String(actor); show(); }
function setFlat(flat) {
  if (state.flat === flat) return;
  const from = controls().target.clone();
  state.flat = flat;
  if (flat) setFly(false);
  if (flat) { flatCamera.position.set(from.x, from.y, 500); flatControls.target.copy(from); }
  else {
    const reach = Math.max(20, viewHeight() * 0.9);
    solidCamera.position.set(from.x - reach * 0.5, from.y - reach * 0.6, reach * 0.5);
    solidControls.target.copy(from);
  }
  useControls();
  show();
}
// In flight what the mouse turns about is just ahead: dragging then looks round.
function setFly(on) {
  if (state.fly === on) return;
  if (on && state.flat) setFlat(false);
  state.fly = on;
  pressed.clear();
  const way = solidCamera.getWorldDirection(new THREE.Vector3());
  solidControls.maxPolarAngle = on ? Math.PI * 0.98 : Math.PI * 0.495;
  solidControls.rotateSpeed = on ? -0.4 : 1;
  solidControls.target.copy(solidCamera.position).addScaledVector(way, on ? 0.5 : Math.max(5, solidCamera.position.z));
  document.body.classList.toggle("flying", on);
  if (on) { state.follow = null; state.chosen = true; find("follow").value = ""; }
  useControls();
  show();
}
const FLIGHT = { w: [1, 0, 0], s: [-1, 0, 0], d: [0, 1, 0], a: [0, -1, 0], e: [0, 0, 1], q: [0, 0, -1] };
function flyOn(seconds) {
  if (!state.fly || !pressed.size) return;
  const way = solidCamera.getWorldDirection(new THREE.Vector3()), right = new THREE.Vector3().crossVectors(way, solidCamera.up).normalize();
  const moved = new THREE.Vector3(), speed = (pressed.has("shift") ? 60 : 15) * Math.min(0.25, seconds);
  for (const key of pressed) {
    const [along, across, above] = FLIGHT[key] ?? [0, 0, 0];
    moved.addScaledVector(way, along).addScaledVector(right, across).addScaledVector(solidCamera.up, above);
  }
  if (!moved.lengthSq()) return;
  moved.normalize().multiplyScalar(speed);
  solidCamera.position.add(moved);
  solidControls.target.add(moved);
  pictures?.changed();
  stale();
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

const TALL_LEAST_M = 12;
function lookAtAll(least = TALL_LEAST_M) {
  const all = new THREE.Box3();
  for (const scene of state.cells) all.union(scene.bounds);
  const centre = all.getCenter(new THREE.Vector3()), size = all.getSize(new THREE.Vector3());
  const { width, height } = part(0);
  lookAt(centre, Math.max(size.y, size.x * (height / width), least) * 1.08);
}
function lookAt(place, tall) {
  flatControls.target.set(place.x, place.y, 0);
  flatCamera.position.set(place.x, place.y, 500);
  flatCamera.zoom = 100 / tall;
  solidControls.target.copy(place);
  // From aslant what is shown is wider than from above: where there is little room beside it, from farther away.
  const { width, height } = part(0), back = width < height ? tall * 1.4 : tall;
  solidCamera.position.set(place.x - back * 0.36, place.y - back * 0.54, place.z + back * 0.46);
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
  const stage = find("stage").getBoundingClientRect(), ratio = Math.min(2, devicePixelRatio || 1) / coarse;
  const size = renderer.getSize(new THREE.Vector2());
  if (size.x !== stage.width || size.y !== stage.height || renderer.getPixelRatio() !== ratio) {
    renderer.setPixelRatio(ratio);
    renderer.setSize(stage.width, stage.height, false);
  }
  followNow();
  renderer.setScissorTest(true);
  const labels = [];
  if (software && state.flat && state.cells.length) drawLayered(stage, ratio);
  else state.cells.forEach((scene, number) => drawCell(scene, number, stage, ratio, "all"));
  state.cells.forEach((scene, number) => { const at = part(number); aim(at); labels.push(...labelsOf(scene, number, at)); });
  putLabels(labels);
  drawScale();
  frames += 1;
  document.body.dataset.frames = frames;
}

function aim(at) {
  const aspect = at.width / at.height;
  flatCamera.left = -50 * aspect; flatCamera.right = 50 * aspect; flatCamera.top = 50; flatCamera.bottom = -50;
  flatCamera.updateProjectionMatrix();
  solidCamera.aspect = aspect;
  solidCamera.updateProjectionMatrix();
}

function drawCell(scene, number, stage, ratio, what) {
  const at = part(number);
  aim(at);
  const low = stage.height - at.y - at.height;
  renderer.setViewport(at.x, low, at.width, at.height);
  renderer.setScissor(at.x, low, at.width, at.height);
  scene.update({ index: state.index, magnify: state.magnify, flat: state.flat, paths: state.paths, viewport: new THREE.Vector2(at.width * ratio, at.height * ratio), ratio, part: what });
  renderer.render(scene.scene, camera());
}

// From above: the ground, and of many their paths, are drawn when something about them has changed; else their picture is put back.
function drawLayered(stage, ratio) {
  const { x, y } = flatCamera.position, crowd = state.cells.some(scene => scene.crowded);
  const key = [stage.width, stage.height, ratio, x, y, flatCamera.zoom, state.theme, state.paths, crowd ? `${version} ${state.magnify}` : "", ...state.cells.map(scene => scene.scene.id)].join(" ");
  if (layer.key === key) {
    renderer.setViewport(0, 0, stage.width, stage.height);
    renderer.setScissor(0, 0, stage.width, stage.height);
    layer.draw();
  } else {
    state.cells.forEach((scene, number) => drawCell(scene, number, stage, ratio, "still"));
    renderer.setScissor(0, 0, stage.width, stage.height);
    layer.keep(key);
  }
  renderer.autoClear = false;
  renderer.clearDepth();
  state.cells.forEach((scene, number) => drawCell(scene, number, stage, ratio, "moving"));
  renderer.autoClear = true;
}

// Where the processor draws: frames that take too long while something moves are drawn with larger pixels. When all rests, once
// more with smaller ones, which the browser then puts together: edges are smooth, and nobody waits for it.
let restTimer = 0;
function adapt(taken) {
  if (software && taken > SLOW_MS && coarse < COARSEST) coarse = Math.min(COARSEST, Math.max(1, coarse) * 1.4);
}
function restAfter() {
  if (!software) return;
  clearTimeout(restTimer);
  restTimer = setTimeout(() => {
    const finest = index.live || state.playing || state.cells.some(scene => scene.crowded) ? 1 : 0.5;
    if (!state.playing && coarse !== finest) { coarse = finest; draw(); }
  }, 300);
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
  bar.textContent = length(metres).replace(/\.0+ /, " ");
}

let lastFrame = 0, lastDrawn = false;
function frame(now) {
  requestAnimationFrame(frame);
  const cell = first();
  if (lastDrawn && (state.playing || pressed.size)) adapt(now - lastFrame);
  flyOn((now - lastFrame) / 1000);
  lastFrame = now;
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
  lastDrawn = dirty;
  if (dirty) {
    dirty = false;
    coarse = Math.max(1, coarse);
    draw();
    restAfter();
  }
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

  fillMonitors(cell);
  fillCamera(scene);
  const shown = state.cells.map(one => one.number), boxes = find("cells");
  boxes.replaceChildren(...index.cells.map((about, number) => {
    const box = make("input", { type: "checkbox", checked: shown.includes(number), on: { change: event => choose(number, event.target.checked) } });
    const far = about.outcomes === 1 ? "the same" : `${length(about.max_spread_m)} apart`;
    return make("li", {}, make("label", {}, box, ` ${about.name} `, make("small", { text: far })));
  }));
  find("cells-part").hidden = index.cells.length < 2;
}

function fillMonitors(cell) {
  const some = cell.monitors.length > 0;
  find("monitors-part").hidden = !some;
  find("by-verdict").hidden = find("by-verdict").disabled = !some;
  if (!some && state.colour === "verdict") { find("colour").value = state.colour = "outcome"; recolour(); }
  if (state.monitor >= cell.monitors.length) state.monitor = 0;
  find("monitors").replaceChildren(...cell.monitors.map((monitor, number) => {
    const all = monitor.passes + monitor.fails, is = monitor.why_not || !all ? "" : monitor.fails === 0 ? "holds" : monitor.passes === 0 ? "fails" : "flips";
    const margin = monitor.worst_margin === null ? "" : `, smallest margin ${Number(monitor.worst_margin.toPrecision(3))} ${monitor.unit}`;
    const words = monitor.why_not ? `not judged: ${monitor.why_not}` : all ? `passes in ${monitor.passes} of ${all}${margin}` : "no repeat has a moment to judge";
    const item = make("li", { class: is }, make("strong", { text: monitor.name }), make("br"), make("small", { text: words }), make("br"));
    if (monitor.worst_tick !== null) item.append(make("button", { type: "button", class: "small", text: `tick ${monitor.worst_tick}`, on: { click: () => { state.playing = false; go(indexOf(cell.arrays.ticks, monitor.worst_tick)); } } }));
    if (all) item.append(make("button", { type: "button", class: "small", text: "colour by it", on: { click: () => { state.monitor = number; find("colour").value = state.colour = "verdict"; recolour(); fillPanel(); show(); } } }));
    return item;
  }));
  find("monitors-more").textContent = cell.monitors_left_out ? `and ${cell.monitors_left_out} more, not shown` : "";
}

function fillCamera(scene) {
  const { cell } = scene, kept = index.pictures?.[scene.number] ?? [], can = index.mounts?.length > 0 && index.cells[scene.number]?.ground !== null;
  find("camera-part").hidden = !can && !kept.length;
  for (const name of ["mount", "picture-of", "shoot", "shooting"]) find(name).closest(".row").hidden = !can;
  pictures.list(kept, tick => { state.playing = false; go(indexOf(cell.arrays.ticks, tick)); });
  const of = find("picture-of"), before = of.value;
  of.replaceChildren(...cell.outcomes.slice(0, ROWS_LISTED).map((outcome, row) => make("option", { value: outcome.repeats[0], text: `repeat ${outcome.repeats[0]}${row === 0 ? " (reference)" : ""}` })));
  if ([...of.options].some(one => one.value === before)) of.value = before;
}

// What a picture is to show: fields of a query, and the same in words.
function pictureFields(mount) {
  const scene = state.cells[0], { cell } = scene, repeat = find("picture-of").value, tick = tickNow();
  const of = index.live ? {} : { cell: scene.number, repeat, tick }, words = index.live ? "now" : `repeat ${repeat} at tick ${tick}`;
  if (mount === "view") return { fields: { ...of, ...cameraFields(camera(), controls().target, scene.origin, state.flat, viewHeight()) }, words: `${words}, from where the page looks` };
  const actor = cell.actors[state.follow ?? 0];
  if (!actor) throw new Error("there is nobody to look from");
  return { fields: { ...of, from: mount, actor: actor.id }, words: `${words}, ${mount === "ahead" ? "ahead from" : mount} actor ${actor.id}` };
}

function choose(number, on) {
  const shown = state.cells.map(scene => scene.number), next = on ? [...shown, number].slice(-CELLS_MOST) : shown.filter(one => one !== number);
  showCells(next.length ? next : [number], true);
}

const KEYS = {
  " ": () => play(), ArrowRight: event => step(event.shiftKey ? 10 : 1), ArrowLeft: event => step(event.shiftKey ? -10 : -1), Home: () => step(-Infinity), End: () => step(Infinity),
  p: goToParting, c: goToFar, "[": () => nextMark(-1), "]": () => nextMark(1), 2: () => setFlat(true), 3: () => setFlat(false),
  m: () => magnify(MAGNIFICATIONS[(MAGNIFICATIONS.indexOf(state.magnify) + 1) % MAGNIFICATIONS.length]),
  f: () => followByHand(state.follow === null ? 0 : state.follow + 1 < first().actors.length ? state.follow + 1 : null),
  i: () => { if (!find("camera-part").hidden && index.mounts?.length) pictures.ask(); }, v: () => setFly(!state.fly),
  a: showAll, t: () => setTheme(state.theme === "dark" ? "light" : "dark"), "?": () => find("help").showModal(),
  "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8),
};
function zoom(by) {
  state.chosen = true;
  if (state.flat) { flatCamera.zoom *= by; } else { solidCamera.position.sub(solidControls.target).divideScalar(by).add(solidControls.target); }
  stale();
}

function listen() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("help").open || !first()) return;
    const inside = event.target.closest?.("input, select, button, summary");
    // A button keeps its space and Enter, a list its arrows and letters.
    if (inside && (inside.tagName === "SELECT" || event.key === " ")) return;
    if (index.live && !["2", "3", "f", "a", "t", "?", "+", "=", "-", "i", "v"].includes(event.key.toLowerCase()) && !state.fly) return;
    const key = event.key.toLowerCase();
    if (state.fly && (FLIGHT[key] || key === "shift")) { event.preventDefault(); pressed.add(key); stale(); return; }
    if (index.live && state.fly && !KEYS[key]) return;
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { event.preventDefault(); act(event); }
  });
  document.addEventListener("keyup", event => pressed.delete(event.key.toLowerCase()));
  addEventListener("blur", () => pressed.clear());
  addEventListener("beforeprint", () => freeze(true));
  addEventListener("afterprint", () => freeze(false));
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
  click("all", showAll);
  click("theme", KEYS.t);
  click("helps", () => find("help").showModal());
  click("close", () => find("help").close());
  click("fold", () => { const folded = document.body.classList.toggle("folded"); find("fold").setAttribute("aria-expanded", !folded); stale(); });
  find("speed").addEventListener("change", event => { state.speed = Number(event.target.value); });
  find("follow").addEventListener("change", event => followByHand(event.target.value === "" ? null : Number(event.target.value)));
  find("colour").addEventListener("change", event => { state.colour = event.target.value; recolour(); fillPanel(); show(); });
  find("paths").addEventListener("change", event => { state.paths = event.target.checked; stale(); });
  find("names").addEventListener("change", event => { state.labels = event.target.checked; stale(); });
  for (const button of document.querySelectorAll("[data-magnify]")) button.addEventListener("click", () => magnify(Number(button.dataset.magnify)));
  new ResizeObserver(stale).observe(find("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", event => setTheme(event.matches ? "dark" : "light"));
}

// On paper the pictures keep the shape in which they were drawn: stretched to a sheet, cars would be as tall as trees, and names
// would stand beside somebody else.
const PAPER_PX = 690;
function freeze(on) {
  for (const drawn of [find("stage"), find("timeline")]) {
    const { width, height } = drawn.getBoundingClientRect();
    Object.assign(drawn.style, on ? { width: `${width}px`, height: `${height}px`, zoom: Math.min(1, PAPER_PX / width) } : { width: "", height: "", zoom: "" });
  }
}

function setUp() {
  const canvas = find("world");
  software = isSoftware();
  renderer = new THREE.WebGLRenderer({ canvas, antialias: !software });
  layer = new StillLayer(renderer);
  flatCamera = new THREE.OrthographicCamera(-50, 50, 50, -50, 1, 2000);
  flatCamera.position.set(0, 0, 500);
  solidCamera = new THREE.PerspectiveCamera(45, 1, 0.1, 5000);
  solidCamera.up.set(0, 0, 1);
  flatControls = new MapControls(flatCamera, canvas);
  Object.assign(flatControls, { enableRotate: false, screenSpacePanning: true, zoomToCursor: true, enableDamping: false });
  solidControls = new OrbitControls(solidCamera, canvas);
  Object.assign(solidControls, { maxPolarAngle: Math.PI * 0.495, enableDamping: false });
  for (const one of [flatControls, solidControls]) {
    one.addEventListener("change", stale);
    one.addEventListener("start", () => { state.chosen = true; });
  }
  useControls();
  pictures = new Pictures(find, make, index.mounts ?? [], pictureFields);
  for (const one of [flatControls, solidControls]) one.addEventListener("change", () => { if (find("mount").value === "view") pictures.changed(); });
  timeline = new Timeline(find("timeline"), at => { state.playing = false; go(at); });
  canvas.addEventListener("webglcontextlost", event => { event.preventDefault(); say("The graphics card was taken away. Load the page again."); });
  // three.js uploads everything again; the kept layer belonged to the lost context.
  canvas.addEventListener("webglcontextrestored", () => {
    layer.key = layer.texture = null;
    if (find("trouble").textContent.startsWith("The graphics card")) say("");
    stale();
  });
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
  if (["outcome", "ending", "actor", "verdict"].includes(asked.get("colour"))) find("colour").value = state.colour = asked.get("colour");
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
// So much is seen around one car: the junction ahead, and not only its roof.
const LIVE_TALL_M = 60;
const LEADING = /^(hero|ego|ego_vehicle)$/i;
// Whom a world is about, until somebody says otherwise: the vehicle that its script calls hero or ego, whoever is followed
// already, or the only vehicle; else nobody (-1).
function leader(actors, followed) {
  const named = actors.findIndex(actor => LEADING.test(actor.role) && actor.type.startsWith("vehicle."));
  if (named >= 0 || followed !== null) return named >= 0 ? named : followed;
  const vehicles = actors.flatMap((actor, row) => (actor.type.startsWith("vehicle.") ? [row] : []));
  return vehicles.length === 1 ? vehicles[0] : -1;
}
async function beginLive() {
  document.body.classList.add("live");
  listen();
  const about = index.cells[0];
  if (about.ground !== null) grounds.set(0, await loadBlock("ground-0"));
  const world = new LiveWorld(grounds.get(0) ?? null, renderer.capabilities.maxTextureSize);
  state.speed = 1;
  const panel = new WorldPanel(find, make, index.steer ? takeToken() : "");
  let episode = null, looked = false, led = null;
  const ask = async () => {
    if (document.hidden) { setTimeout(ask, 500); return; }
    try {
      const answer = await fetch("live.json");
      const told = await answer.json();
      if (!answer.ok) throw new Error(told.trouble);
      if (episode !== null && told.episode !== episode) { location.reload(); return; }
      episode = told.episode;
      say("");
      const changed = world.take(told);
      state.index = world.last;
      if (changed) {
        const followed = state.follow === null ? null : state.cells[0]?.cell.actors[state.follow]?.id;
        state.cells = [world.scene];
        const still = world.scene.cell.actors.findIndex(actor => actor.id === followed);
        state.follow = still < 0 ? null : still;
        lastFollow = null;
        const lead = state.chosen ? -1 : leader(told.actors, state.follow);
        if (lead >= 0) state.follow = lead;
        world.scene.setTheme(state.theme);
        recolour();
        fillPanel();
        // A world may be empty when the page is opened, and whom it is about may come after the traffic: the view goes there,
        // until somebody has moved it.
        if (lead >= 0 && told.actors[lead].id !== led) { led = told.actors[lead].id; lookAt(world.scene.place(lead, world.last), LIVE_TALL_M); }
        else if (!looked && led === null && told.actors.length) lookAtAll(LIVE_TALL_M);
        looked ||= told.actors.length > 0;
      }
      showLights(world.scene, told.lights);
      panel.show(told);
      pictures.changed();
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

// The token came behind the address's #, which browsers send nowhere. It is kept for when the page is loaded again, and taken out
// of the address, so that it is not sent along with that.
function takeToken() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (asked) sessionStorage.setItem("token", asked);
    return asked ?? sessionStorage.getItem("token") ?? "";
  } catch {
    return asked ?? "";
  } finally {
    if (asked) history.replaceState(null, "", "#");
  }
}

// For measurements: frames as fast as they can be drawn, each at another tick, each waited for. Used by `python -m bench view`.
window.samepathMeasure = count => {
  coarse = Math.max(1, coarse);
  const pixel = new Uint8Array(4), gl = renderer.getContext(), taken = [];
  for (let number = 0; number < count; number++) {
    const begun = performance.now();
    state.index = (state.index + 1) % timelineLength();
    draw();
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
    taken.push(performance.now() - begun);
    adapt(performance.now() - begun);
  }
  return taken;
};

begin();
