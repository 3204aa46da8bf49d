// A car: Havok has no vehicles, so it is a box that slides on the ground without friction, held and pushed by its tyres.
//
// An axle feels how fast the ground passes below it. Across its wheels, and along them where brakes are on, it takes that
// speed away; along them the engine pushes. What it can do in a step is limited by the friction of its share of the weight.
// It acts at the height of the middle of the mass: without springs there is nothing to lean on.

const GRAVITY_MPS2 = 9.81;
const SLOWEST_MPS = 1.0;
const BODY_FRICTION = 0.5;
const BOUNCE = 0.1;
// An axle that is lifted farther than that, or a car that leans over farther, has no tyres on the ground.
const LIFTED_M = 0.1;
const UPRIGHT = 0.5;
const ALWAYS_ACTIVE = 1;

export class Car {
  // How many numbers write() writes.
  static VALUES = 16;

  constructor(babylon, scene, plugin, actor) {
    const { Vector3, Quaternion, TransformNode, PhysicsBody, PhysicsMotionType, PhysicsShapeBox } = babylon;
    const size = actor.body;
    const wheels = actor.wheels;
    this.number = actor.id;
    this.massKg = size.mass_kg;
    this.middleM = actor.centre_of_mass_m;
    this.axleM = wheels.wheel_base_m / 2;
    this.maxSteerRad = (wheels.max_steer_deg * Math.PI) / 180;
    this.powerW = wheels.power_w;
    const weightN = size.mass_kg * GRAVITY_MPS2;
    this.pushN = wheels.friction * weightN * wheels.driven_share;
    this.brakeN = Math.min(wheels.brake_n, wheels.friction * weightN);
    this.rollN = wheels.rolling_resistance * weightN;
    this.holdN = (wheels.friction * weightN) / 2;
    this.drivenFront = { front: 1.0, rear: 0.0 }[wheels.driven] ?? 0.5;
    this.command = [0.0, 0.0, 1.0];

    // Babylon's frame is left-handed as ours, with other names: its z is our x, its x our y, its y our z.
    this.node = new TransformNode(`car ${actor.id}`, scene);
    this.node.position.set(actor.start.y_m, this.middleM, actor.start.x_m);
    this.node.rotationQuaternion = Quaternion.RotationAxis(Vector3.Up(), (actor.start.yaw_deg * Math.PI) / 180);
    const extents = new Vector3(size.width_m, size.height_m, size.length_m);
    const above = new Vector3(0, size.height_m / 2 - this.middleM, 0);
    const shape = new PhysicsShapeBox(above, Quaternion.Identity(), extents, scene);
    shape.material = { friction: BODY_FRICTION, restitution: BOUNCE };
    this.body = new PhysicsBody(this.node, PhysicsMotionType.DYNAMIC, false, scene);
    this.body.shape = shape;
    // Of a full box, and for each kilogram: Havok multiplies by the mass.
    const [x2, y2, z2] = [extents.x, extents.y, extents.z].map((length) => (length * length) / 12);
    this.body.setMassProperties({
      mass: size.mass_kg,
      centerOfMass: Vector3.Zero(),
      inertia: new Vector3(y2 + z2, x2 + z2, x2 + y2),
      inertiaOrientation: Quaternion.Identity(),
    });
    this.body.setLinearDamping(0);
    this.body.setAngularDamping(0);
    this.body.setCollisionCallbackEnabled(true);
    plugin.setActivationControl(this.body, ALWAYS_ACTIVE);

    this.velocity = new Vector3();
    this.spin = new Vector3();
    this.forward = new Vector3();
    this.up = new Vector3();
    this.impulse = new Vector3();
    this.at = new Vector3();
  }

  // Read where it is now. From the node itself: its world matrix is brought up to date once a frame, not once a step.
  look() {
    const { x, y, z, w } = this.node.rotationQuaternion;
    this.forward.set(2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y));
    this.up.set(2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x));
    this.body.getLinearVelocityToRef(this.velocity);
    this.body.getAngularVelocityToRef(this.spin);
  }

  // What its driver sees, in our frame.
  seen() {
    this.look();
    const { position } = this.node;
    return {
      x: position.z,
      y: position.x,
      aheadX: this.forward.z,
      aheadY: this.forward.x,
      vx: this.velocity.z,
      vy: this.velocity.x,
    };
  }

  // What the tyres do in a step of so long; called before each.
  act(stepS) {
    this.look();
    if (this.up.y < UPRIGHT) {
      return;
    }
    const [throttle, steer, brake] = this.command;
    const size = Math.sqrt(this.forward.x * this.forward.x + this.forward.z * this.forward.z);
    const aheadX = this.forward.x / size;
    const aheadZ = this.forward.z / size;
    const speed = this.velocity.x * aheadX + this.velocity.z * aheadZ;
    const driveN = throttle * Math.min(this.powerW / Math.max(Math.abs(speed), SLOWEST_MPS), this.pushN);
    const resistN = (brake * this.brakeN + this.rollN) / 2;
    const angle = steer * this.maxSteerRad;
    const sine = Math.sin(angle);
    const cosine = Math.cos(angle);
    const [steeredX, steeredZ] = [aheadX * cosine + aheadZ * sine, aheadZ * cosine - aheadX * sine];
    this.axle(this.axleM, steeredX, steeredZ, driveN * this.drivenFront, resistN, stepS);
    this.axle(-this.axleM, aheadX, aheadZ, driveN * (1 - this.drivenFront), resistN, stepS);
  }

  // One axle, so far ahead of the middle of the mass, its wheels along (alongX, alongZ).
  axle(aheadM, alongX, alongZ, driveN, resistN, stepS) {
    const { forward, up, velocity, spin, at, massKg } = this;
    const armX = forward.x * aheadM;
    const armY = forward.y * aheadM;
    const armZ = forward.z * aheadM;
    at.set(this.node.position.x + armX, this.node.position.y + armY, this.node.position.z + armZ);
    if (at.y - up.y * this.middleM > LIFTED_M) {
      return;
    }
    const passingX = velocity.x + spin.y * armZ - spin.z * armY;
    const passingZ = velocity.z + spin.x * armY - spin.y * armX;
    const along = passingX * alongX + passingZ * alongZ;
    const across = passingX * alongZ - passingZ * alongX;
    const most = resistN * stepS;
    let push = driveN * stepS - Math.min(Math.max((along * massKg) / 2, -most), most);
    let hold = (-across * massKg) / 2;
    const wanted = Math.sqrt(push * push + hold * hold);
    const limit = this.holdN * stepS;
    if (wanted > limit) {
      push *= limit / wanted;
      hold *= limit / wanted;
    }
    // As an impulse, not as a force: Babylon multiplies forces by its fixed step, however long the step is.
    this.impulse.set(push * alongX + hold * alongZ, 0, push * alongZ - hold * alongX);
    this.body.applyImpulse(this.impulse, at);
  }

  // Write its state in the order of our axes: place, quaternion (x, y, z, w), velocity, spin, command.
  write(out, start) {
    this.look();
    const { position, rotationQuaternion: turn } = this.node;
    const { velocity, spin, command } = this;
    const place = [position.z, position.x, position.y, turn.z, turn.x, turn.y, turn.w];
    out.set([...place, velocity.z, velocity.x, velocity.y, spin.z, spin.x, spin.y, ...command], start);
  }
}
