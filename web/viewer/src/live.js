// A world that is running: its states are asked for a few times a second and drawn by the same scene as a trace. The last ones
// are kept, for the ways behind the actors; nothing is kept beyond that.
import { CellScene } from "./scene.js";

const KEPT = 120;
const ABSENT_16 = 0x7bff;

export class LiveWorld {
  constructor(ground, texelsMost) {
    this.ground = ground;
    this.texelsMost = texelsMost;
    this.history = [];
    this.scene = null;
    this.frame = -1;
  }

  // Takes a state; true: who is there has changed, and there is a new scene.
  take(state) {
    if (state.frame === this.frame) return false;
    if (state.frame < this.frame) this.history = [];
    this.frame = state.frame;
    this.history.push(new Map(state.actors.map(actor => [actor.id, actor])));
    if (this.history.length > KEPT) this.history.shift();
    const ids = state.actors.map(actor => actor.id).join();
    const changed = !this.scene || ids !== this.ids;
    if (changed) this.build(state, ids);
    this.fill();
    if (changed) this.scene.bounds = this.scene.measure();
    return changed;
  }

  build(state, ids) {
    this.scene?.dispose();
    this.ids = ids;
    const actors = state.actors.map(({ id, type, shape }) => ({ id, type, shape })), count = Math.max(1, actors.length);
    const centre = state.actors[0];
    const cell = {
      name: state.map, simulator: state.address, repeats: 1, actors, endings: [], marks: [], monitors: [], every: 1, lossless: true, parting_tick: null,
      outcomes: [{ repeats: [0], ending: 0, parting_tick: null }], step_s: 0.05,
      // Near whoever is there: 32 bits hold a millimetre within some kilometres.
      origin_m: this.scene ? this.scene.origin : centre ? [Math.round(centre.x), Math.round(centre.y), 0] : [0, 0, 0],
      arrays: {
        ticks: Float64Array.from({ length: KEPT }, (_, index) => index), spread_m: new Float32Array(KEPT),
        reference: new Float32Array(KEPT * count * 4), offsets: new Uint16Array(KEPT * count * 4).fill(ABSENT_16),
      },
    };
    this.scene = new CellScene(cell, this.ground, this.texelsMost);
    this.scene.number = 0;
  }

  fill() {
    const { cell, shared } = this.scene, [east, south] = cell.origin_m, { reference, offsets } = cell.arrays, first = KEPT - this.history.length;
    offsets.fill(ABSENT_16);
    this.history.forEach((there, age) => {
      const tick = first + age;
      cell.actors.forEach(({ id }, row) => {
        const actor = there.get(id);
        if (!actor) return;
        reference.set([actor.x - east, actor.y - south, actor.z, actor.yaw], (tick * cell.actors.length + row) * 4);
        const at = (tick * cell.actors.length + row) * 4;
        offsets.fill(0, at, at + 4);
      });
    });
    for (const [texture, data] of [[shared.uReference.value, reference], [shared.uOffsets.value, offsets]]) {
      texture.image.data.set(data);
      texture.needsUpdate = true;
    }
  }

  get last() { return KEPT - 1; }
}
