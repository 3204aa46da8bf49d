// What stays as it is from tick to tick, kept as a picture: where a processor draws in a card's place, the ground and thousands
// of paths cost far more than the actors, and while a run is played they do not change.
import * as THREE from "three";

const VERTEX = /* glsl */ `void main() { gl_Position = vec4(position.xy, 0.0, 1.0); }`;
const FRAGMENT = /* glsl */ `
precision highp float;
uniform sampler2D uKept;
out vec4 result;
void main() { result = texelFetch(uKept, ivec2(gl_FragCoord.xy), 0); }`;

// Is it the processor that draws? Then edges are not smoothed either: that alone takes half of the time.
export function isSoftware() {
  const gl = document.createElement("canvas").getContext("webgl2");
  if (!gl) return false;
  const told = gl.getExtension("WEBGL_debug_renderer_info");
  const name = String(gl.getParameter(told ? told.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

export class StillLayer {
  constructor(renderer) {
    this.renderer = renderer;
    this.key = null;
    this.texture = null;
    this.camera = new THREE.Camera();
    this.material = new THREE.ShaderMaterial({
      glslVersion: THREE.GLSL3, vertexShader: VERTEX, fragmentShader: FRAGMENT, uniforms: { uKept: { value: null } }, depthTest: false, depthWrite: false,
    });
    const sheet = new THREE.BufferGeometry();
    sheet.setAttribute("position", new THREE.Float32BufferAttribute([-1, -1, 0, 3, -1, 0, -1, 3, 0], 3));
    const mesh = new THREE.Mesh(sheet, this.material);
    mesh.frustumCulled = false;
    this.scene = new THREE.Scene();
    this.scene.add(mesh);
  }

  // Keeps what has just been drawn, under a key that says all that it depends on.
  keep(key) {
    const size = this.renderer.getDrawingBufferSize(new THREE.Vector2());
    if (!this.texture || this.texture.image.width !== size.x || this.texture.image.height !== size.y) {
      this.texture?.dispose();
      this.texture = new THREE.FramebufferTexture(size.x, size.y);
      this.texture.minFilter = this.texture.magFilter = THREE.NearestFilter;
      this.material.uniforms.uKept.value = this.texture;
    }
    this.renderer.copyFramebufferToTexture(this.texture);
    this.key = key;
  }

  draw() { this.renderer.render(this.scene, this.camera); }
}
