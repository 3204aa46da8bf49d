// Blocks of bytes: where they come from (the server, or the page itself), and typed arrays laid over them.
const MAGIC = "samepath view 2\n";
const KINDS = { f8: Float64Array, f4: Float32Array, u2: Uint16Array, u4: Uint32Array };

export function readIndex() {
  return JSON.parse(document.getElementById("index").textContent);
}

export async function loadBlock(name) {
  const held = document.getElementById(name);
  return unpack(held ? await unzip(held.textContent) : await ask(`${name}.bin`));
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim() || `${path}: ${answer.status}`);
  return answer.arrayBuffer();
}

async function unzip(text) {
  const packed = atob(text), bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

function unpack(buffer) {
  const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, MAGIC.length));
  if (magic !== MAGIC) throw new Error("this block was written by another version of samepath");
  const length = new DataView(buffer).getUint32(MAGIC.length, true), start = MAGIC.length + 4;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, start, length)));
  const arrays = {};
  for (const [name, { at, count, kind }] of Object.entries(head.arrays)) {
    arrays[name] = new KINDS[kind](buffer, start + length + at, count);
  }
  return { ...head, arrays };
}
