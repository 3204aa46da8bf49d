// A mesh as the sun sees it, in the nearer or the farther of a camera's two maps.
in vec3 place;
in uint draw;
uniform bool is_far;

void main() {
    Draw one = draws[draw];
    Thing thing = things[one.thing];
    vec3 at = turned(thing.ahead, thing.right, thing.up, place) + one.offset;
    vec4 area = is_far ? view.far_map : view.near_map;
    float reach_m = is_far ? view.light_up.w : view.light_right.w;
    gl_Position = vec4(
        (dot(view.light_right.xyz, at) - area.x) / reach_m,
        (area.y - dot(view.light_up.xyz, at)) / reach_m,
        (area.w - dot(view.to_sun.xyz, at)) / (area.w - area.z),
        1.0);
}
