// One triangle over the whole picture, as far away as anything can be.
out vec2 corner;

void main() {
    corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0, gl_VertexID == 2 ? 3.0 : -1.0);
    gl_Position = vec4(corner, 0.0, 1.0);
}
