// One cell in three dimensions. Poses lie in textures and are fetched by the vertex shader: to show another tick is to change
// one number, however many repeats there are. CARLA's frame is left-handed (y to the right): here y is turned round, once, in
// `toWorld` and in the shader's `pose`.
import * as THREE from "three";
import { mergeGeometries } from "three/addons/utils/BufferGeometryUtils.js";

// As in the Python part: this heading says that the actor is not there.
const ABSENT = 60000;
// What a card without much to spare still draws many times a second, and what a processor in its place does.
const DETAIL = { card: { segments: 60_000, strips: 1000, solids: 1500 }, processor: { segments: 20_000, strips: 400, solids: 300 } };

export const toWorld = (x, y, z) => new THREE.Vector3(x, -y, z);

const FETCH = /* glsl */ `
precision highp int;
precision highp sampler2D;
uniform sampler2D uReference, uOffsets, uColours, uSizes;
uniform int uTicks, uActors, uTick, uRows;
uniform float uMagnify;
vec4 fetch(sampler2D from, int at) { return texelFetch(from, ivec2(at & (1 << WIDTH_BITS) - 1, at >> WIDTH_BITS), 0); }
vec4 pose(int row, int actor, int tick, out bool there) {
  vec4 reference = fetch(uReference, tick * uActors + actor);
  vec4 offset = fetch(uOffsets, (tick * uRows + row) * uActors + actor);
  there = offset.w < ${ABSENT}.0;
  vec3 place = reference.xyz + uMagnify * (there ? offset.xyz : vec3(0.0));
  return vec4(place.x, -place.y, place.z, -radians(reference.w + offset.w));
}`;

const BODY_VERTEX = /* glsl */ `${FETCH}
uniform int uKindActors[KIND_ACTORS];
uniform int uCount, uColourBy, uCorners;
uniform float uBias;
#ifndef CROWD
in float shade;
#endif
out vec3 vColour, vPlace;
out float vAlpha;
void main() {
#ifdef CROWD
  // Many, and solid: from the front to the back, so that what is covered costs nothing.
  int body = gl_VertexID / uCorners, row = body / uCount;
#else
  // Backwards, so that the reference is drawn last and seen where all are at one place.
  int body = gl_VertexID / uCorners, row = uRows - 1 - body / uCount;
#endif
  int actor = uKindActors[body % uCount];
  bool there;
  vec4 at = pose(row, actor, uTick, there);
  vec4 colour = fetch(uColours, uColourBy == 0 ? row : actor);
  vec4 shown = fetch(uColours, row), size = fetch(uSizes, actor);
  if (!there || shown.a == 0.0) { gl_Position = vec4(2.0, 2.0, 2.0, 1.0); return; }
  float c = cos(at.w), s = sin(at.w);
  mat2 turn = mat2(c, s, -s, c);
  vec3 local = position * size.xyz;
  vec3 turned = vec3(turn * local.xy, local.z - size.w) + at.xyz;
#ifdef CROWD
  vColour = colour.rgb;
#else
  vec3 up = normalize(vec3(turn * normal.xy, normal.z));
  vColour = colour.rgb * shade * (0.55 + 0.45 * max(0.0, dot(up, normalize(vec3(0.35, 0.5, 0.8)))));
#endif
  vPlace = turned;
  vAlpha = shown.a;
  gl_Position = projectionMatrix * viewMatrix * vec4(turned, 1.0);
#ifdef CROWD
  // Where all are at one place the reference is on top.
  gl_Position.z += uBias * gl_Position.w * float(row) / float(uRows);
#endif
}`;

const BODY_FRAGMENT = /* glsl */ `
precision highp float;
in vec3 vColour, vPlace;
in float vAlpha;
out vec4 result;
void main() {
#ifdef CROWD
  // Corners are shared by faces, which saves most of the work: a face's own direction is that of its neighbouring pixels.
  vec3 up = normalize(cross(dFdx(vPlace), dFdy(vPlace)));
  result = vec4(vColour * (0.55 + 0.45 * abs(dot(up, normalize(vec3(0.35, 0.5, 0.8))))), 1.0);
#else
  result = vec4(vColour, vAlpha);
#endif
}`;

// A path is a ribbon of a fixed width in pixels; where there are too many, a line.
const PATH_VERTEX = /* glsl */ `${FETCH}
uniform int uStride, uColourBy, uRibbon, uRowStride, uPast, uPoints;
uniform vec2 uViewport;
uniform float uWidth;
out vec4 vColour;
out float vThere;
void main() {
  int sides = 1 + uRibbon, strip = gl_VertexID / (uPoints * sides), point = gl_VertexID / sides % uPoints;
  int row = max(0, uRows - 1 - (strip / uActors) * uRowStride), actor = strip % uActors;
  int tick = min(point * uStride, uTicks - 1);
  float corner = gl_VertexID % sides == 0 ? -1.0 : 1.0;
  bool there, before, after;
  vec4 at = pose(row, actor, tick, there);
  vec4 a = pose(row, actor, max(tick - uStride, 0), before), b = pose(row, actor, min(tick + uStride, uTicks - 1), after);
  // Who is not there has no place: its point is its neighbour's, and between the two there is nothing to draw.
  if (!there) at = before ? a : after ? b : at;
  vec4 clip = projectionMatrix * viewMatrix * vec4(at.xy, at.z - fetch(uSizes, actor).w + 0.06, 1.0);
  if (uRibbon == 1) {
    vec4 from = projectionMatrix * viewMatrix * vec4(before ? a.xyz : at.xyz, 1.0);
    vec4 to = projectionMatrix * viewMatrix * vec4(after ? b.xyz : at.xyz, 1.0);
    vec2 along = (to.xy / max(to.w, 1e-6) - from.xy / max(from.w, 1e-6)) * uViewport;
    vec2 across = length(along) > 1e-6 ? normalize(vec2(-along.y, along.x)) : vec2(0.0);
    clip.xy += corner * uWidth * across / uViewport * clip.w;
  }
  vec4 shown = fetch(uColours, row);
  vThere = there && shown.a > 0.0 ? 1.0 : 0.0;
  vColour = vec4(fetch(uColours, uColourBy == 0 ? row : actor).rgb, tick <= uPast ? 0.95 : 0.4);
  gl_Position = clip;
}`;

const PATH_FRAGMENT = /* glsl */ `
precision highp float;
uniform float uFade;
in vec4 vColour;
in float vThere;
out vec4 result;
void main() {
  if (vThere < 0.999) discard;
  result = vec4(vColour.rgb, vColour.a * uFade);
}`;

const GROUND = {
  light: {
    "road": 0xb9bdc2, "sidewalk": 0xdedbd3, "kerb": 0xc9c5bb, "lane-marking": 0xffffff, "crosswalk": 0xf7f5ee, "building": 0xcfc3b4,
    "vegetation": 0x9dbb93, "pole": 0x8b9096, "barrier": 0xa9a49a, "sign": 0xa8b3bf, "traffic-light": 0x70757c,
    "sheet": 0xecebe6, "grid": 0xcfcdc6,
  },
  dark: {
    "road": 0x3a4048, "sidewalk": 0x535a62, "kerb": 0x474d55, "lane-marking": 0x9aa2ab, "crosswalk": 0x8c939b, "building": 0x5f5a54,
    "vegetation": 0x3f5a44, "pole": 0x6d747c, "barrier": 0x6a665f, "sign": 0x5f6c79, "traffic-light": 0x8a9098,
    "sheet": 0x20262c, "grid": 0x343b43,
  },
};
const FLAT = ["road", "sidewalk", "kerb", "lane-marking", "crosswalk"];

// Of one width, a power of two: the shader then finds a place without dividing.
const widthBits = most => (most >= 4096 ? 12 : 11);
function texture(data, channels, kind, type, most) {
  const texels = data.length / channels, width = 1 << widthBits(most), height = Math.max(1, Math.ceil(texels / width));
  if (height > most) throw new Error("this graphics card cannot hold so many poses: choose fewer repeats");
  let whole = data;
  if (width * height !== texels) {
    whole = new data.constructor(width * height * channels);
    whole.set(data);
  }
  const made = new THREE.DataTexture(whole, width, height, kind, type);
  made.needsUpdate = true;
  return made;
}

const shaded = (geometry, shade) => {
  const values = new Float32Array(geometry.getAttribute("position").count).fill(shade);
  geometry.setAttribute("shade", new THREE.BufferAttribute(values, 1));
  geometry.deleteAttribute("uv");
  return geometry.toNonIndexed();
};
const box = (length, width, height, x, z, shade) =>
  shaded(new THREE.BoxGeometry(length, width, height).translate(x, 0, z), shade);

// Bodies of length, width and height 1 that stand on 0, facing +x.
const SOLIDS = {
  car: () => mergeGeometries([box(1, 1, 0.5, 0, 0.33, 1), box(0.5, 0.84, 0.38, -0.06, 0.77, 0.62), box(0.04, 0.8, 0.12, 0.49, 0.42, 1.5)]),
  van: () => mergeGeometries([box(0.78, 1, 0.9, -0.11, 0.55, 1), box(0.2, 0.96, 0.6, 0.39, 0.4, 0.7)]),
  bike: () => mergeGeometries([box(1, 0.16, 0.42, 0, 0.21, 0.8), box(0.3, 0.7, 0.5, -0.05, 0.65, 1)]),
  walker: () => mergeGeometries([
    shaded(new THREE.CylinderGeometry(0.36, 0.46, 0.8, 10).rotateX(Math.PI / 2).translate(0, 0, 0.4), 1),
    shaded(new THREE.SphereGeometry(0.5, 10, 6).scale(0.56, 0.56, 0.18).translate(0.05, 0, 0.9), 0.8),
  ]),
  prop: () => box(1, 1, 1, 0, 0.5, 1),
};

// A body so many times over, in one piece. Cards would take instances; where a processor draws, each of them is a call of its own.
function repeated(geometry, count) {
  const made = new THREE.BufferGeometry(), corners = geometry.getAttribute("position").count;
  for (const [name, { array, itemSize }] of Object.entries(geometry.attributes)) {
    const all = new Float32Array(array.length * count);
    for (let number = 0; number < count; number++) all.set(array, number * array.length);
    made.setAttribute(name, new THREE.BufferAttribute(all, itemSize));
  }
  const index = geometry.getIndex()?.array;
  if (index) {
    const all = new Uint32Array(index.length * count);
    for (let number = 0, at = 0; number < count; number++) for (const corner of index) all[at++] = corner + number * corners;
    made.setIndex(new THREE.BufferAttribute(all, 1));
  }
  return made;
}

// Of very many, plain boxes; and from above only outlines: a pentagon with its nose ahead.
function outline() {
  const made = new THREE.BufferGeometry();
  const [nose, shoulder] = [0.5, 0.3];
  const points = [[nose, 0], [shoulder, 0.5], [-0.5, 0.5], [-0.5, -0.5], [shoulder, -0.5]];
  made.setAttribute("position", new THREE.Float32BufferAttribute(points.flatMap(point => [...point, 1]), 3));
  made.setIndex([0, 1, 2, 0, 2, 3, 0, 3, 4]);
  return made;
}
function block() {
  const made = new THREE.BufferGeometry(), places = [];
  for (let corner = 0; corner < 8; corner++) places.push(corner & 1 ? 0.5 : -0.5, corner & 2 ? 0.5 : -0.5, corner & 4 ? 1 : 0);
  made.setAttribute("position", new THREE.Float32BufferAttribute(places, 3));
  made.setIndex([4, 5, 7, 4, 7, 6, 0, 1, 5, 0, 5, 4, 1, 3, 7, 1, 7, 5, 3, 2, 6, 3, 6, 7, 2, 0, 4, 2, 4, 6]);
  return made;
}

export class CellScene {
  constructor(cell, ground, texelsMost, software = false) {
    this.cell = cell;
    this.detail = software ? DETAIL.processor : DETAIL.card;
    this.widthBits = widthBits(texelsMost);
    this.scene = new THREE.Scene();
    const { reference, offsets } = cell.arrays;
    this.actors = cell.actors.length;
    this.rows = cell.outcomes.length;
    this.ticks = cell.arrays.ticks.length;
    this.origin = cell.origin_m;
    const sizes = new Float32Array(this.actors * 4);
    cell.actors.forEach(({ shape }, index) => sizes.set([shape.length_m, shape.width_m, shape.height_m, shape.below_m], index * 4));
    this.colours = new Uint8Array(Math.max(this.rows, this.actors) * 4);
    this.shared = {
      uReference: { value: texture(reference, 4, THREE.RGBAFormat, THREE.FloatType, texelsMost) },
      uOffsets: { value: texture(offsets, 4, THREE.RGBAFormat, THREE.HalfFloatType, texelsMost) },
      uColours: { value: texture(this.colours, 4, THREE.RGBAFormat, THREE.UnsignedByteType, texelsMost) },
      uSizes: { value: texture(sizes, 4, THREE.RGBAFormat, THREE.FloatType, texelsMost) },
      uTicks: { value: this.ticks }, uActors: { value: this.actors }, uTick: { value: 0 }, uMagnify: { value: 1 },
      uColourBy: { value: 0 }, uRows: { value: this.rows },
    };
    this.bodies = this.makeBodies();
    this.paths = this.makePaths();
    this.ground = this.makeGround(ground);
    this.extras = [];  // what a running world has besides: lights
    this.background = null;
    this.scene.add(...this.bodies, this.paths, ...this.ground);
    this.bounds = this.measure();
  }

  makeBodies() {
    const kinds = new Map();
    this.cell.actors.forEach(({ shape }, index) => kinds.set(shape.kind, [...(kinds.get(shape.kind) ?? []), index]));
    this.crowded = this.rows * this.actors > this.detail.solids;
    const made = [];
    for (const [kind, every] of kinds) {
      // A shader's array has a length of its own; actors of a kind come in groups that every card takes.
      for (let start = 0; start < every.length; start += 64) {
        const actors = every.slice(start, start + 64);
        for (const flat of this.crowded ? [true, false] : [false]) {
          const one = (flat ? outline : this.crowded ? block : SOLIDS[kind] ?? SOLIDS.prop)(), geometry = repeated(one, this.rows * actors.length);
          const material = new THREE.ShaderMaterial({
            glslVersion: THREE.GLSL3, vertexShader: BODY_VERTEX.replace("KIND_ACTORS", actors.length), fragmentShader: BODY_FRAGMENT,
            uniforms: {
              ...this.shared, uKindActors: { value: Int32Array.from(actors) }, uCount: { value: actors.length }, uCorners: { value: one.getAttribute("position").count },
              // About half a metre from above, and a few centimetres where a camera stands some 50 m away.
              uBias: { value: flat ? 5e-4 : 2e-6 },
            },
            defines: { WIDTH_BITS: this.widthBits, ...(this.crowded ? { CROWD: 1 } : {}) }, transparent: !this.crowded,
            // Of two at one depth the first stays: that of the reference is drawn before the others'.
            depthFunc: this.crowded ? THREE.LessDepth : THREE.LessEqualDepth, side: flat ? THREE.DoubleSide : THREE.FrontSide,
          });
          const mesh = new THREE.Mesh(geometry, material);
          mesh.frustumCulled = false;
          mesh.renderOrder = 3;
          mesh.userData.flat = flat;
          made.push(mesh);
        }
      }
    }
    return made;
  }

  makePaths() {
    // Of more outcomes than fit, every so many-th: the page says so.
    this.rowStride = Math.max(1, Math.ceil((this.rows * this.actors) / this.detail.strips));
    this.pathRows = Math.ceil(this.rows / this.rowStride);
    const strips = this.pathRows * this.actors;
    const points = Math.max(2, Math.min(this.ticks, Math.floor(this.detail.segments / strips)));
    const stride = Math.max(1, Math.ceil((this.ticks - 1) / (points - 1)));
    const used = Math.max(2, Math.ceil((this.ticks - 1) / stride) + 1);
    const ribbon = strips <= 300;
    const geometry = new THREE.BufferGeometry(), sides = ribbon ? 2 : 1;
    // The shader knows a point by its number; there is nothing else to say of it.
    geometry.setAttribute("position", new THREE.BufferAttribute(new Uint8Array(used * sides * strips), 1));
    const links = ribbon ? [0, 1, 2, 1, 3, 2] : [0, 1], index = new Uint32Array(links.length * (used - 1) * strips);
    for (let strip = 0, at = 0; strip < strips; strip++) {
      for (let point = 0; point + 1 < used; point++) for (const link of links) index[at++] = (strip * used + point) * sides + link;
    }
    geometry.setIndex(new THREE.BufferAttribute(index, 1));
    geometry.boundingSphere = new THREE.Sphere();  // the library would look for it in places that are none
    const material = new THREE.ShaderMaterial({
      glslVersion: THREE.GLSL3, vertexShader: PATH_VERTEX, fragmentShader: PATH_FRAGMENT, transparent: true, depthWrite: false,
      side: THREE.DoubleSide, defines: { WIDTH_BITS: this.widthBits },
      uniforms: {
        ...this.shared, uStride: { value: stride }, uRibbon: { value: ribbon ? 1 : 0 }, uViewport: { value: new THREE.Vector2(1, 1) },
        uWidth: { value: 2.2 }, uPast: { value: -1 }, uPoints: { value: used }, uFade: { value: strips > 400 ? 0.35 : 1 }, uRowStride: { value: this.rowStride },
      },
    });
    const made = ribbon ? new THREE.Mesh(geometry, material) : new THREE.LineSegments(geometry, material);
    made.frustumCulled = false;
    made.renderOrder = 2;
    return made;
  }

  makeGround(ground) {
    const made = [];
    if (ground) {
      ground.labels.forEach((label, number) => {
        const from = ground.arrays[`vertices${number}`], vertices = new Float32Array(from.length);
        for (let at = 0; at < from.length; at += 3) {
          vertices[at] = from[at] - this.origin[0];
          vertices[at + 1] = -(from[at + 1] - this.origin[1]);
          vertices[at + 2] = from[at + 2] - this.origin[2];
        }
        const geometry = new THREE.BufferGeometry();
        geometry.setAttribute("position", new THREE.BufferAttribute(vertices, 3));
        geometry.setIndex(new THREE.BufferAttribute(ground.arrays[`triangles${number}`], 1));
        geometry.computeVertexNormals();
        const layer = FLAT.indexOf(label);
        const material = new THREE.MeshLambertMaterial({
          side: THREE.DoubleSide, polygonOffset: layer >= 0, polygonOffsetFactor: -layer, polygonOffsetUnits: -layer * 4, flatShading: layer < 0,
        });
        const mesh = new THREE.Mesh(geometry, material);
        mesh.userData.label = label;
        mesh.renderOrder = 1;
        made.push(mesh);
      });
    }
    const sheet = new THREE.Mesh(new THREE.PlaneGeometry(4000, 4000).translate(0, 0, -0.08), new THREE.MeshBasicMaterial());
    sheet.userData.label = "sheet";
    const grid = new THREE.GridHelper(2000, 200, 0xffffff, 0xffffff);
    grid.rotateX(Math.PI / 2);
    grid.position.z = -0.07;
    grid.userData.label = "grid";
    made.push(sheet, grid, new THREE.HemisphereLight(0xffffff, 0x8a8f96, 2.2));
    const sun = new THREE.DirectionalLight(0xffffff, 1.4);
    sun.position.set(40, 60, 100);
    made.push(sun);
    return made;
  }

  setTheme(theme) {
    for (const thing of this.ground) {
      if (thing.material) thing.material.color.set(GROUND[theme][thing.userData.label] ?? 0x999999);
    }
    this.background = new THREE.Color(GROUND[theme].sheet);
  }

  // `rgb` gives a colour for a row; who is not in `shown` is not drawn. By actor: rows keep their visibility.
  setColours(rgb, byActor, shown, alpha) {
    const count = Math.max(this.rows, this.actors);
    for (let row = 0; row < count; row++) {
      const [red, green, blue] = rgb(row);
      this.colours.set([red, green, blue, row >= this.rows || shown(row) ? Math.round(255 * (row === 0 ? 1 : alpha)) : 0], row * 4);
    }
    const held = this.shared.uColours.value;
    held.image.data.set(this.colours);
    held.needsUpdate = true;
    this.shared.uColourBy.value = byActor ? 1 : 0;
  }

  // `part`: what is to be drawn, "all", what stays as it is from tick to tick ("still"), or the rest ("moving").
  update({ index, magnify, flat, paths, viewport, ratio, part }) {
    this.shared.uTick.value = Math.min(index, this.ticks - 1);
    this.shared.uMagnify.value = magnify;
    for (const body of this.bodies) body.visible = part !== "still" && (!this.crowded || body.userData.flat === flat);
    for (const thing of this.ground) thing.visible = part !== "moving" || Boolean(thing.isLight);
    for (const thing of this.extras) thing.visible = part !== "still";
    // Of very many, what is still to come is not told from what has been: so paths stay as they are, and are drawn once.
    this.paths.material.uniforms.uPast.value = this.crowded ? -1 : this.shared.uTick.value;
    this.paths.visible = paths && (part === "all" || (part === "still") === this.crowded);
    this.scene.background = part === "moving" ? null : this.background;
    this.paths.material.uniforms.uViewport.value.copy(viewport);
    this.paths.material.uniforms.uWidth.value = 1.5 * ratio;
  }

  // Where an actor of the reference is, in the scene's frame; null where it is not there.
  place(actor, index) {
    const tick = Math.min(index, this.ticks - 1);
    // 0x7bff is 65504 as a number of 16 bits.
    if (this.cell.arrays.offsets[(tick * this.rows * this.actors + actor) * 4 + 3] === 0x7bff) return null;
    const at = (tick * this.actors + actor) * 4, from = this.cell.arrays.reference;
    return toWorld(from[at], from[at + 1], from[at + 2]);
  }

  measure() {
    const box = new THREE.Box3();
    for (let actor = 0; actor < this.actors; actor++) {
      for (let tick = 0; tick < this.ticks; tick += Math.max(1, Math.floor(this.ticks / 500))) {
        const place = this.place(actor, tick);
        if (place) box.expandByPoint(place);
      }
    }
    return box.isEmpty() ? new THREE.Box3(new THREE.Vector3(-10, -10, 0), new THREE.Vector3(10, 10, 1)) : box.expandByScalar(6);
  }

  dispose() {
    this.scene.traverse(thing => { thing.geometry?.dispose(); thing.material?.dispose(); });
    for (const held of Object.values(this.shared)) held.value?.dispose?.();
  }
}

const LIGHTS = [0xe5372c, 0xf0b400, 0x1fb45a, 0x6b7178, 0x9aa0a6];

// Traffic lights of a running world: a lamp over the foot of each, in the colour that it shows. `lights`: [id, x, y, z, shows].
export function showLights(scene, lights) {
  let mesh = scene.extras[0];
  if (!mesh || mesh.count !== lights.length) {
    if (mesh) { scene.scene.remove(mesh); mesh.geometry.dispose(); mesh.material.dispose(); mesh.dispose(); }
    scene.extras = [];
    if (!lights.length) return;
    mesh = new THREE.InstancedMesh(new THREE.SphereGeometry(0.7, 12, 8), new THREE.MeshBasicMaterial(), lights.length);
    mesh.frustumCulled = false;
    mesh.renderOrder = 4;
    scene.extras = [mesh];
    scene.scene.add(mesh);
  }
  const [east, south] = scene.origin, matrix = new THREE.Matrix4(), colour = new THREE.Color();
  lights.forEach(([, x, y, z, shows], number) => {
    mesh.setMatrixAt(number, matrix.makeTranslation(x - east, -(y - south), z + 3.5));
    mesh.setColorAt(number, colour.set(LIGHTS[shows] ?? LIGHTS[4]));
  });
  mesh.instanceMatrix.needsUpdate = true;
  mesh.instanceColor.needsUpdate = true;
}
