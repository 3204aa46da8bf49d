// Drives a car along its track: pedals by PID on speed, steering by pure pursuit of a point ahead. A track is a list of
// [x_m, y_m, speed_mps] in our frame; the numbers of the law come with the script.

const WINDOW_M = 2.0;
const STANDING_MPS = 0.1;
const ROUNDING_S = 1e-6;

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

export class Driver {
  constructor(actor) {
    this.track = actor.track;
    this.law = actor.driving;
    this.startS = actor.start_s;
    this.wheelBaseM = actor.wheels.wheel_base_m;
    this.maxSteerRad = (actor.wheels.max_steer_deg * Math.PI) / 180;
    this.arcs = [0.0];
    for (let number = 1; number < this.track.length; number += 1) {
      const x = this.track[number][0] - this.track[number - 1][0];
      const y = this.track[number][1] - this.track[number - 1][1];
      this.arcs.push(this.arcs[number - 1] + Math.sqrt(x * x + y * y));
    }
    this.index = 0;
    this.arrived = false;
    this.stopped = false;
    this.integral = 0.0;
    this.speedBefore = null;
  }

  // Return throttle, steer and brake for the next period. What is seen: place, direction and velocity on the ground.
  step(seen, timeS, periodS) {
    if (timeS < this.startS - ROUNDING_S) {
      return [0.0, 0.0, 1.0];
    }
    const size = Math.sqrt(seen.aheadX * seen.aheadX + seen.aheadY * seen.aheadY);
    const aheadX = seen.aheadX / size;
    const aheadY = seen.aheadY / size;
    const speed = seen.vx * aheadX + seen.vy * aheadY;
    this.advance(seen.x, seen.y);
    const [x, y] = this.pointAhead(this.law.look_ahead_m + this.law.look_ahead_s * Math.max(speed, 0.0));
    const rearM = this.wheelBaseM / 2;
    const steer = this.pursue(x - (seen.x - rearM * aheadX), y - (seen.y - rearM * aheadY), aheadX, aheadY);
    if (this.arrived) {
      this.stopped ||= Math.abs(speed) < STANDING_MPS;
      this.integral = 0.0;
      this.speedBefore = speed;
      return [0.0, steer, 1.0];
    }
    const output = this.pedals(Math.max(this.track[this.index][2], this.law.creep_mps), speed, periodS);
    return [Math.max(output, 0.0), steer, Math.max(-output, 0.0)];
  }

  // Move on to the nearest waypoint, at most so far ahead; never back.
  advance(xM, yM) {
    let best = this.index;
    let bestSquare = Infinity;
    for (let at = this.index; at < this.track.length && this.arcs[at] <= this.arcs[this.index] + WINDOW_M; at += 1) {
      const square = this.squareTo(at, xM, yM);
      if (square < bestSquare) {
        best = at;
        bestSquare = square;
      }
    }
    this.index = best;
    const last = this.track.length - 1;
    const near = this.law.arrival_m;
    const atEnd = this.squareTo(last, xM, yM) <= near * near && this.arcs[last] - this.arcs[best] <= 2 * near;
    this.arrived ||= best === last || atEnd;
  }

  squareTo(number, xM, yM) {
    const x = this.track[number][0] - xM;
    const y = this.track[number][1] - yM;
    return x * x + y * y;
  }

  // Return the point so far along the track, beyond its end on a straight line.
  pointAhead(reachM) {
    const arc = this.arcs[this.index] + reachM;
    const last = this.track.length - 1;
    let number = this.index + 1;
    while (number < last && this.arcs[number] <= arc) {
      number += 1;
    }
    number = Math.min(number, last);
    const a = this.track[number - 1];
    const b = this.track[number];
    const share = (arc - this.arcs[number - 1]) / (this.arcs[number] - this.arcs[number - 1]);
    return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share];
  }

  pursue(toX, toY, aheadX, aheadY) {
    const right = toY * aheadX - toX * aheadY;
    if (toX * aheadX + toY * aheadY < 0.0) {
      return right < 0.0 ? -1.0 : 1.0;
    }
    return clamp(Math.atan2(2.0 * this.wheelBaseM * right, toX * toX + toY * toY) / this.maxSteerRad, -1.0, 1.0);
  }

  // The integral stands still while the output is at its end.
  pedals(wantedMps, speed, periodS) {
    const error = wantedMps - speed;
    const change = this.speedBefore === null ? 0.0 : (speed - this.speedBefore) / periodS;
    this.speedBefore = speed;
    const direct = this.law.proportional * error - this.law.derivative * change;
    const limit = this.law.integral_limit;
    const grown = clamp(this.integral + this.law.integral * error * periodS, -limit, limit);
    let output = direct + grown;
    if ((output > 1.0 && error > 0.0) || (output < -1.0 && error < 0.0)) {
      output = direct + this.integral;
    } else {
      this.integral = grown;
    }
    return clamp(output, -1.0, 1.0);
  }
}
