// One run: node main.js RUN.json MODULES. Reads what is to be driven, drives it, and writes what happened to stdout, a line
// each: S states of one tick or frame or more, C contact, F frames, E end. Numbers are bytes in base64: none loses a digit.

import { readFileSync, writeSync } from "node:fs";

import { Car } from "./car.js";
import { Driver } from "./driver.js";
import { load, World } from "./world.js";

// Exit codes.
const BAD_RUN = 3;
const NOT_LOADED = 4;
const BROKEN = 5;
const STDOUT = 1;
const STDERR = 2;
const SCENERY = -1;
const ROUNDING = 1e-9;
const MOST_NUMBERS = 8192;

class Run {
  constructor(run, babylon) {
    this.run = run;
    this.world = new World(babylon, run);
    this.drivers = run.actors.map((actor) => new Driver(actor));
    this.stretched = run.mode === "defaults";
    // Physics steps since the run began, and how much time they were.
    this.steps = 0;
    this.timeS = 0.0;
    this.stepS = 1 / run.steps_per_s;
    this.tickS = run.steps_per_tick * this.stepS;
    this.ended = "";
    this.endTick = 0;
    this.collidedTick = Infinity;
    this.frames = 0;
    this.stepsBefore = 0;
    this.mostSteps = 0;
    // States that are not yet written, one after the other, and how many there is room for: lines must not be too long.
    this.size = 2 + Car.VALUES * run.actors.length;
    this.room = Math.max(1, Math.min(run.states_at_once, Math.floor(MOST_NUMBERS / this.size)));
    this.states = new Float64Array(this.room * this.size);
    this.waiting = 0;
    // What pairs felt in the last step, and those who have touched before.
    this.felt = new Map();
    this.met = new Set();
  }

  // Hang everything where a game of Babylon's would have it.
  prepare() {
    const { scene, plugin } = this.world;
    plugin.onCollisionObservable.add((event) => this.touched(event));
    this.world.settle(this.run.settle_steps);
    this.tellTouches();
    // Tyres are part of the physics in every mode, so that they act in every step; what varies is where controllers are called.
    if (this.run.controller === "frame") {
      scene.onBeforeRenderObservable.add(() => this.decide(this.frameS()));
    } else if (this.run.mode === "lockstep") {
      scene.onBeforeStepObservable.add(() => this.decide(this.stepS));
    } else {
      scene.onBeforePhysicsObservable.add(() => this.decide(this.nextStepS()));
    }
    scene.onBeforePhysicsObservable.add(() => this.world.act(this.nextStepS()));
    scene.onAfterPhysicsObservable.add(() => this.stepped());
  }

  nextStepS() {
    return this.stretched ? this.world.deltaS() : this.stepS;
  }

  frameS() {
    return this.run.mode === "synchronous" ? this.stepS : this.world.engine.getDeltaTime() / 1000;
  }

  synchronous() {
    const { engine, scene } = this.world;
    while (!this.ended) {
      engine.beginFrame();
      scene.render();
      engine.endFrame();
    }
    this.close();
  }

  loop() {
    const { engine, scene } = this.world;
    if (this.stretched) {
      this.write();
    }
    engine.runRenderLoop(() => {
      scene.render();
      this.frames += 1;
      this.mostSteps = Math.max(this.mostSteps, this.steps - this.stepsBefore);
      this.stepsBefore = this.steps;
      if (this.ended) {
        engine.stopRenderLoop();
        this.close();
      }
    });
  }

  decide(periodS) {
    if (this.ended || !(periodS > 0)) {
      return;
    }
    this.world.cars.forEach((car, index) => {
      car.command = this.drivers[index].step(car.seen(), this.timeS, periodS);
    });
  }

  // A physics step is done.
  stepped() {
    if (this.ended) {
      return;
    }
    this.steps += 1;
    this.timeS = this.stretched ? this.timeS + this.world.deltaS() : this.steps * this.stepS;
    this.tellTouches();
    if (this.stretched || this.steps % this.run.steps_per_tick === 0) {
      this.write();
      this.endIfOver(Math.floor(this.timeS / this.tickS + ROUNDING));
    }
  }

  // So many are written at once: where nobody waits for the wall clock, waking the reader for each would take too long.
  write() {
    const start = this.waiting * this.size;
    this.states[start] = this.steps;
    this.states[start + 1] = this.timeS;
    this.world.cars.forEach((car, index) => car.write(this.states, start + 2 + index * Car.VALUES));
    this.waiting += 1;
    if (this.waiting >= this.room) {
      this.flush();
    }
  }

  flush() {
    if (this.waiting > 0) {
      say(`S ${Buffer.from(this.states.buffer, 0, this.waiting * this.size * 8).toString("base64")}`);
      this.waiting = 0;
    }
  }

  // The tick that has just been reached; frames of the engine's own length may pass more than one.
  endIfOver(tick) {
    const { run } = this;
    if (run.last_tick > 0 && tick >= run.last_tick) {
      this.finish("duration", run.last_tick);
    } else if (tick >= run.ticks) {
      this.finish("over", run.ticks);
    } else if (tick < 1) {
      return;
    } else if (run.end === "last-waypoint" && this.drivers.every((driver) => driver.stopped)) {
      this.finish("arrived", tick);
    } else if (run.end === "first-collision" && tick >= this.collidedTick) {
      this.finish("collision", tick);
    }
  }

  finish(reason, tick) {
    this.ended = reason;
    this.endTick = tick;
  }

  close() {
    this.flush();
    say(`F ${this.frames} ${this.mostSteps}`);
    say(`E ${this.ended} ${this.endTick}`);
    process.exit(0);
  }

  // Havok tells of every point where two touch, after the step; what is felt is the sum over the points of a pair.
  touched({ collider, collidedAgainst, impulse, normal }) {
    const { numbers, ground } = this.world;
    if (this.ended || collider === ground || collidedAgainst === ground || !(impulse > 0)) {
      return;
    }
    const [one, other] = [numbers.get(collider) ?? SCENERY, numbers.get(collidedAgainst) ?? SCENERY];
    // The normal points from the first to the second, who is pushed along it; told is what the lower number felt.
    const swapped = one === SCENERY || (other !== SCENERY && other < one);
    const pair = swapped ? [other, one] : [one, other];
    const size = swapped ? impulse : -impulse;
    const felt = this.felt.get(pair.join(" ")) ?? [...pair, 0, 0, 0];
    [normal.z, normal.x, normal.y].forEach((part, axis) => {
      felt[2 + axis] += size * part;
    });
    this.felt.set(pair.join(" "), felt);
  }

  // Tell who touched in the last step for the first time.
  tellTouches() {
    for (const [pair, felt] of this.felt) {
      if (!this.met.has(pair) && this.steps > 0) {
        this.collidedTick = Math.min(this.collidedTick, Math.ceil(this.timeS / this.tickS - ROUNDING));
        this.flush();
        say(`C ${Buffer.from(new Float64Array([this.steps, this.timeS, ...felt]).buffer).toString("base64")}`);
      }
      this.met.add(pair);
    }
    this.felt.clear();
  }
}

// All of it, now: a pipe that is full for a moment is waited for.
function say(line) {
  const data = Buffer.from(`${line}\n`);
  for (let done = 0; done < data.length; ) {
    try {
      done += writeSync(STDOUT, data, done);
    } catch (error) {
      if (error.code !== "EAGAIN") {
        throw error;
      }
    }
  }
}

function fail(words, code) {
  writeSync(STDERR, `samepath: ${words}\n`);
  process.exit(code);
}

process.on("uncaughtException", (error) => fail(error?.stack ?? error, BROKEN));
let run = null;
let babylon = null;
try {
  run = JSON.parse(readFileSync(process.argv[2], "utf8"));
} catch (error) {
  fail(`the run cannot be read: ${error.message}`, BAD_RUN);
}
try {
  babylon = await load(process.argv[3]);
} catch (error) {
  fail(`Babylon.js cannot be loaded: ${error.message}`, NOT_LOADED);
}
const play = new Run(run, babylon);
play.prepare();
say("samepath 1");
if (run.mode === "synchronous") {
  play.synchronous();
} else {
  play.loop();
}
