// Babylon.js and Havok, found in a folder with node_modules, and the world of a run: ground, boxes, cars.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { Car } from "./car.js";

const GROUND_M = 2000;
const GRAVITY_MPS2 = 9.81;
// Babylon's own time between frames where there is no browser to ask for one.
const FRAME_MS = 16;

// Only what is needed: the whole of Babylon.js takes seconds to load.
const PARTS = [
  "Engines/nullEngine.js",
  "scene.js",
  "Cameras/freeCamera.js",
  "Maths/math.vector.js",
  "Misc/logger.js",
  "Meshes/transformNode.js",
  "Physics/joinedPhysicsEngineComponent.js",
  "Physics/v2/physicsEngineComponent.js",
  "Physics/v2/physicsBody.js",
  "Physics/v2/physicsShape.js",
  "Physics/v2/physicsMaterial.js",
  "Physics/v2/IPhysicsEnginePlugin.js",
  "Physics/v2/Plugins/havokPlugin.js",
];

// Load Babylon.js and Havok.
export async function load(modules) {
  const folder = join(modules, "node_modules", "@babylonjs");
  const found = {};
  for (const part of PARTS) {
    Object.assign(found, await import(pathToFileURL(join(folder, "core", part)).href));
  }
  // Babylon greets on stdout, which is ours.
  found.Logger.LogLevels = found.Logger.WarningLogLevel | found.Logger.ErrorLogLevel;
  const havok = join(folder, "havok", "lib", "esm");
  const { default: start } = await import(pathToFileURL(join(havok, "HavokPhysics_es.js")).href);
  const physics = await start({ wasmBinary: readFileSync(join(havok, "HavokPhysics.wasm")) });
  return { ...found, physics };
}

export class World {
  constructor(babylon, run) {
    const { NullEngine, NullEngineOptions, Scene, FreeCamera, Vector3, HavokPlugin } = babylon;
    this.stepS = 1 / run.steps_per_s;
    this.scale = run.time_scale;
    const options = new NullEngineOptions();
    options.deterministicLockstep = run.mode === "lockstep";
    options.timeStep = this.stepS;
    this.engine = new NullEngine(options);
    this.scene = new Scene(this.engine);
    // A scene without a camera is not rendered, not even into nothing.
    this.camera = new FreeCamera("camera", Vector3.Zero(), this.scene);
    // Synchronous: a step is the plugin's own, whatever the clock says. Otherwise, as by default, it is what the engine says.
    this.plugin = new HavokPlugin(run.mode !== "synchronous", babylon.physics);
    this.scene.enablePhysics(new Vector3(0, -GRAVITY_MPS2, 0), this.plugin);
    this.scene.getPhysicsEngine().setTimeStep(this.stepS);
    if (this.scale !== 1) {
      this.quicken();
    }
    this.numbers = new Map();
    this.ground = this.addBox(babylon, [GROUND_M, 2, GROUND_M], [0, -1, 0], 0, 0);
    for (const box of run.boxes) {
      const [length, width, height] = box.size_m;
      this.addBox(babylon, [width, height, length], [box.place.y_m, height / 2, box.place.x_m], box.place.yaw_deg, 0.5);
    }
    this.cars = run.actors.map((actor) => new Car(babylon, this.scene, this.plugin, actor));
    for (const car of this.cars) {
      this.numbers.set(car.body, car.number);
    }
  }

  addBox(babylon, size, at, yawDeg, friction) {
    const { Vector3, Quaternion, TransformNode, PhysicsBody, PhysicsMotionType, PhysicsShapeBox } = babylon;
    const node = new TransformNode("box", this.scene);
    node.position.set(...at);
    node.rotationQuaternion = Quaternion.RotationAxis(Vector3.Up(), (yawDeg * Math.PI) / 180);
    const shape = new PhysicsShapeBox(Vector3.Zero(), Quaternion.Identity(), new Vector3(...size), this.scene);
    // Of two that touch, the one that grips less counts: on the ground, which does not, only tyres hold a car.
    shape.material = { friction, restitution: 0, frictionCombine: babylon.PhysicsMaterialCombineMode.MINIMUM };
    const body = new PhysicsBody(node, PhysicsMotionType.STATIC, false, this.scene);
    body.shape = shape;
    return body;
  }

  // So many times as many frames in a second of the wall clock, each for as much simulated time as ever.
  quicken() {
    const { engine, scale } = this;
    const deltaMs = engine.getDeltaTime.bind(engine);
    engine.getDeltaTime = () => deltaMs() * scale;
    engine.customAnimationFrameRequester = { requestAnimationFrame: (frame) => setTimeout(frame, FRAME_MS / scale) };
  }

  // How long the physics step of this frame is by default: as Scene.animate and PhysicsEngine work it out.
  deltaS() {
    const { MinDeltaTime, MaxDeltaTime } = this.scene.constructor;
    const ms = Math.max(MinDeltaTime, Math.min(this.engine.getDeltaTime(), MaxDeltaTime));
    return Math.min(ms / 1000, 0.1);
  }

  // Steps before the run, of fixed length in every mode.
  settle(steps) {
    const bodies = this.scene.getPhysicsEngine().getBodies();
    for (let count = 0; count < steps; count += 1) {
      this.act(this.stepS);
      this.plugin.executeStep(this.stepS, bodies);
    }
  }

  act(stepS) {
    for (const car of this.cars) {
      car.act(stepS);
    }
  }
}
