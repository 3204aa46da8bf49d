// One pixel of a face.
centroid in vec3 from_camera;
#ifdef FLOW_AT
centroid in vec3 was_seen;
#endif
flat in vec3 normal;
flat in vec3 own;
flat in uint bits;
flat in ivec2 id_and_wall;

void main() {
    float far = 1.0 / gl_FragCoord.w;
#ifdef COLOUR_AT
    colour_out = screen(painted(Surface(own, bits, id_and_wall.y, normal), from_camera, far));
#endif
#ifdef DEPTH_AT
    depth_out = min(far, FAR_M);
#endif
#ifdef LABEL_AT
    label_out = bits & 255u;
#endif
#ifdef INSTANCE_AT
    instance_out = uint(id_and_wall.x) & 65535u;
#endif
#ifdef NORMAL_AT
    normal_out = ivec4(roundEven(127.0 * normal), 0);
#endif
#ifdef FLOW_AT
    vec2 now = vec2(dot(view.right.xyz, from_camera), dot(view.up.xyz, from_camera)) / far;
    flow_out = flow(now, was_seen / far);
#endif
}
