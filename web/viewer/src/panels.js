// What stands beside a running world: how its time passes, who is connected, what lights show, what clients' cameras see.
const LAMPS = [["red", "#e5372c"], ["yellow", "#f0b400"], ["green", "#1fb45a"], ["off", "#6b7178"]];
const SHOWN_MOST = 8;
const SENSOR_MS = 700;

export class WorldPanel {
  constructor(find, make, token) {
    Object.assign(this, { find, make, token, sensors: [], next: 0, urls: new Map(), pace: 1 });
    find("world-part").hidden = false;
    find("steering").hidden = !token;
    find("halt").addEventListener("click", () => this.steer({ pace: this.pace ? 0 : 1 }));
    find("onestep").addEventListener("click", () => this.steer({ pace: 0, steps: 1 }));
    for (const button of document.querySelectorAll("[data-pace]")) button.addEventListener("click", () => this.steer({ pace: button.dataset.pace }));
    this.lookRound();
  }

  show(told) {
    const { find, make } = this, by = told.synchronous;
    const mode = by === null ? "this server does not say" : by ? "a client ticks (synchronous)" : told.pace === 0 ? "stands" : told.pace === 1 ? "passes by itself" : `passes by itself, \u00d7${told.pace}`;
    find("mode").textContent = mode;
    this.pace = told.pace ?? 1;
    find("halt").textContent = this.pace ? "Pause" : "Go on";
    find("halt").setAttribute("aria-pressed", this.pace === 0);
    for (const button of document.querySelectorAll("#steering button")) button.disabled = by !== false;
    for (const button of document.querySelectorAll("[data-pace]")) button.setAttribute("aria-pressed", Number(button.dataset.pace) === this.pace);
    if (this.token && by) find("steered").textContent = "A client ticks this world, and it alone sets the pace.";
    else if (find("steered").textContent.startsWith("A client ticks")) find("steered").textContent = "";
    find("clients").textContent = told.clients === null ? "this server does not say" : told.clients.length ? told.clients.join(", ") : "none but this page";
    const counts = LAMPS.map(([name], number) => [name, told.lights.filter(light => light[4] === number).length]).filter(([, count]) => count);
    const words = counts.map(([name, count]) => `${count} ${name}`).join(", ") || "none";
    if (find("lamps").dataset.words !== words) {
      find("lamps").dataset.words = words;
      find("lamps").replaceChildren(...(counts.length ? counts.flatMap(([name, count]) => {
        const dot = make("i", { "aria-hidden": "true" });
        dot.style.background = LAMPS.find(([one]) => one === name)[1];
        return [dot, `${count} ${name} `];
      }) : ["none"]));
    }
    this.showSensors(told.sensors);
  }

  showSensors(sensors) {
    const { find, make } = this, key = sensors.map(one => `${one.id}${one.seen}`).join();
    if (key === this.key) return;
    this.key = key;
    const shown = sensors.filter(one => one.seen).slice(0, SHOWN_MOST);
    this.sensors = shown.map(one => one.id);
    find("sensors-part").hidden = !sensors.length;
    for (const [id, url] of this.urls) if (!this.sensors.includes(id)) { URL.revokeObjectURL(url); this.urls.delete(id); }
    const name = one => `${one.id}: ${one.type.replace("sensor.", "")}${one.parent ? ` on ${one.parent}` : ""}`;
    find("sensors").replaceChildren(
      ...shown.map(one => {
        const picture = make("img", { id: `sensor-${one.id}`, alt: `What ${name(one)} sees` });
        if (this.urls.has(one.id)) picture.src = this.urls.get(one.id);
        return make("li", {}, picture, make("small", { text: name(one) }));
      }),
      ...sensors.filter(one => !shown.includes(one)).slice(0, 40).map(one => make("li", {}, make("small", { text: name(one) }))),
    );
  }

  // One camera after the other, and none while nobody looks: pictures take the server's time.
  async lookRound() {
    const id = this.sensors.length && !document.hidden ? this.sensors[this.next++ % this.sensors.length] : null;
    if (id !== null) {
      try {
        const answer = await fetch(`sensor-${id}.png`), picture = document.getElementById(`sensor-${id}`);
        if (answer.ok && picture) {
          const url = URL.createObjectURL(await answer.blob()), before = this.urls.get(id);
          this.urls.set(id, url);
          picture.src = url;
          if (before) URL.revokeObjectURL(before);
        }
      } catch { /* the page says elsewhere that the server is gone */ }
    }
    setTimeout(() => this.lookRound(), SENSOR_MS / Math.max(1, Math.min(4, this.sensors.length)));
  }

  async steer(fields) {
    try {
      const answer = await fetch(`steer?${new URLSearchParams(fields)}`, { method: "POST", headers: { "X-Samepath-Token": this.token } });
      this.find("steered").textContent = answer.ok ? "" : (await answer.text()).trim();
      if (answer.ok) document.body.dataset.steered = JSON.stringify(fields);
    } catch (error) {
      this.find("steered").textContent = error.message;
    }
  }
}
