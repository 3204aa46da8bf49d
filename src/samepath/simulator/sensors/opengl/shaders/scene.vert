// A mesh to the screen: depth runs from 1 at the near plane to 0 at infinity, rows run downwards.
in vec3 place;
in uint face;
in uint draw;
centroid out vec3 from_camera;
#ifdef FLOW_AT
centroid out vec3 was_seen;
#endif
flat out vec3 normal;
flat out vec3 own;
flat out uint bits;
flat out ivec2 id_and_wall;

void main() {
    Draw one = draws[draw];
    Thing thing = things[one.thing];
    Face its = faces[face];
    vec3 at = turned(thing.ahead, thing.right, thing.up, place) + one.offset;
    float focal = view.ahead.w, width = view.right.w, height = view.up.w, near_m = view.place.w;
    gl_Position = vec4(
        dot(view.right.xyz, at) * 2.0 * focal / width,
        -dot(view.up.xyz, at) * 2.0 * focal / height,
        near_m,
        dot(view.ahead.xyz, at));
    from_camera = at;
    normal = turned(thing.ahead, thing.right, thing.up, its.normal);
    uint material = (its.bits >> 8) & 255u, lamps_of_face = its.bits >> 16;
    own = int(material) == BODY ? its.colour * vec3(thing.ahead.w, thing.right.w, thing.up.w) : its.colour;
    bits = (thing.what.y != 0 ? uint(thing.what.y) : its.bits & 255u) | (material << 8);
    if ((lamps_of_face & uint(thing.what.z)) != 0u) bits |= BURNS;
    else if ((lamps_of_face & SIGNAL) != 0u) bits |= OUT;
    id_and_wall = ivec2(thing.what.x, its.mapping >= 0 ? its.mapping + thing.what.w : -1);
#ifdef FLOW_AT
    vec3 was = turned(thing.was_ahead, thing.was_right, thing.was_up, place) + one.was_offset;
    was_seen = vec3(dot(view.was_ahead.xyz, was), dot(view.was_right.xyz, was), dot(view.was_up.xyz, was));
#endif
}
