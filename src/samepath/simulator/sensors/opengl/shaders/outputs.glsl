// What a picture holds; channels that are not asked for have no place.
#ifdef COLOUR_AT
layout(location = COLOUR_AT) out vec4 colour_out;
#endif
#ifdef DEPTH_AT
layout(location = DEPTH_AT) out float depth_out;
#endif
#ifdef LABEL_AT
layout(location = LABEL_AT) out uint label_out;
#endif
#ifdef INSTANCE_AT
layout(location = INSTANCE_AT) out uint instance_out;
#endif
#ifdef NORMAL_AT
layout(location = NORMAL_AT) out ivec4 normal_out;
#endif
#ifdef FLOW_AT
layout(location = FLOW_AT) out vec2 flow_out;

// Motion on the screen in half widths and half heights, from slopes to the right and upwards now and before.
vec2 flow(vec2 now, vec3 was) {
    vec2 before = was.yz / max(was.x, 1e-3);
    vec2 moved = (now - before) * view.ahead.w / vec2(0.5 * view.right.w, 0.5 * view.up.w);
    return clamp(moved, -2.0, 2.0);
}
#endif

#ifdef COLOUR_AT
vec4 screen(vec3 levels) {
    return vec4(clamp(levels, 0.0, 255.0).bgr / 255.0, 1.0);
}
#endif
