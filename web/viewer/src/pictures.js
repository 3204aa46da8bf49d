// Pictures of a camera: drawn by the server when the page asks, or kept in the page. One is asked for at a time, and the next
// only when the last has come: whoever plays a run sees as many as can be drawn.
const WORDS = { behind: "behind", ahead: "ahead from", above: "above" };

export class Pictures {
  // `find` gives elements, `make` makes them; `about` says of what a picture is to be: { fields, words, actors, kept, tick }.
  constructor(find, make, mounts, about) {
    Object.assign(this, { find, make, about, busy: false, wanted: false, url: null });
    const mount = find("mount");
    mount.replaceChildren(...(mounts.length ? [make("option", { value: "view", text: "where the page looks from" })] : []), ...mounts.map(name => make("option", { value: name, text: `${WORDS[name] ?? name} the followed actor` })));
    if (mounts.length) mount.value = mounts[0];
    find("shoot").addEventListener("click", () => this.ask());
    find("picture-close").addEventListener("click", () => { find("figure").hidden = true; find("shooting").checked = false; });
    find("shooting").addEventListener("change", () => this.changed());
    for (const name of ["mount", "picture-of"]) find(name).addEventListener("change", () => { if (!find("figure").hidden) this.ask(); });
  }

  get isOn() { return this.find("shooting").checked; }

  // Something has changed that pictures show.
  changed() { if (this.isOn) this.ask(); }

  async ask() {
    if (this.busy) { this.wanted = true; return; }
    this.busy = true;
    this.find("shoot").disabled = true;
    try {
      do {
        this.wanted = false;
        const { fields, words } = this.about(this.find("mount").value);
        const told = setTimeout(() => this.say("Drawing. The first picture on a machine takes up to a minute: what draws is compiled.", true), 1500);
        const answer = await fetch(`picture.jpg?${new URLSearchParams(fields)}`);
        clearTimeout(told);
        if (!answer.ok) throw new Error((await answer.text()).trim());
        this.put(URL.createObjectURL(await answer.blob()), words);
      } while (this.wanted);
    } catch (error) {
      this.say(error.message, true);
      this.find("shooting").checked = false;
    } finally {
      this.busy = false;
      this.find("shoot").disabled = false;
    }
  }

  say(words, show) {
    this.find("picture-words").textContent = words;
    if (show) this.find("figure").hidden = false;
  }

  put(url, words) {
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = url.startsWith("blob:") ? url : null;
    const picture = this.find("picture");
    picture.src = url;
    picture.alt = words;
    this.say(words, true);
    document.body.dataset.pictures = Number(document.body.dataset.pictures ?? 0) + 1;
  }

  // Those that the page holds, each with a button that leads to its tick.
  list(kept, go) {
    this.find("kept-pictures").replaceChildren(...kept.map(one => this.make("li", {}, this.make("button", {
      type: "button", class: "small", text: `tick ${one.tick}`, on: { click: () => { go(one.tick); this.put(`data:image/jpeg;base64,${one.jpeg}`, `repeat ${one.repeat} at tick ${one.tick}, ${one.words}`); } },
    }), ` repeat ${one.repeat}, ${one.words}`)));
  }
}

// Where the page's own camera is, in CARLA's frame; both cameras have 45 degrees upright.
export function cameraFields(camera, target, origin, flat, viewHeight) {
  const fixed = number => number.toFixed(3);
  if (flat) {
    const height = viewHeight / 2 / Math.tan(Math.PI / 8);
    return { x: fixed(target.x + origin[0]), y: fixed(origin[1] - target.y), z: fixed(Math.min(height, 2000)), pitch: -90, yaw: -90 };
  }
  const way = target.clone().sub(camera.position).normalize(), degrees = 180 / Math.PI;
  return {
    x: fixed(camera.position.x + origin[0]), y: fixed(origin[1] - camera.position.y), z: fixed(camera.position.z + origin[2]),
    pitch: fixed(Math.asin(Math.max(-1, Math.min(1, way.z))) * degrees), yaw: fixed(Math.atan2(-way.y, way.x) * degrees),
  };
}
