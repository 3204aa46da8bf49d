// One pixel of sky.
in vec2 corner;

void main() {
    vec2 slope = 0.5 * corner * vec2(view.right.w, -view.up.w) / view.ahead.w;
    vec3 towards = view.ahead.xyz + slope.x * view.right.xyz + slope.y * view.up.xyz;
#ifdef COLOUR_AT
    colour_out = screen(sky_at(towards));
#endif
#ifdef DEPTH_AT
    depth_out = FAR_M;
#endif
#ifdef LABEL_AT
    label_out = uint(SKY_LABEL);
#endif
#ifdef INSTANCE_AT
    instance_out = 0u;
#endif
#ifdef NORMAL_AT
    normal_out = ivec4(0);
#endif
#ifdef FLOW_AT
    vec3 was = vec3(dot(view.was_ahead.xyz, towards), dot(view.was_right.xyz, towards), dot(view.was_up.xyz, towards));
    flow_out = flow(slope, was);
#endif
}
