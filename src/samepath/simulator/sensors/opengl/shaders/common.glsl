// What all shaders know. Structures are laid out as in records.py; coordinates are metres from the camera, axes the world's.
struct Face { vec3 normal; uint bits; vec3 colour; int mapping; };
struct Thing { vec4 ahead, right, up, was_ahead, was_right, was_up; ivec4 what; };
struct Draw { vec3 offset; int thing; vec3 was_offset; int unused; };
layout(std430, binding = 0) readonly buffer Faces { Face faces[]; };
layout(std430, binding = 1) readonly buffer Things { Thing things[]; };
layout(std430, binding = 2) readonly buffer Draws { Draw draws[]; };
layout(std430, binding = 3) readonly buffer Lamps { vec4 lamps[]; };
layout(std430, binding = 4) readonly buffer Walls { vec4 walls[]; };
layout(std140, binding = 0) uniform View {
    vec4 ahead, right, up, place;
    vec4 was_ahead, was_right, was_up;
    vec4 lamps;
    vec4 light_right, light_up, to_sun;
    vec4 near_map, far_map;
} view;
layout(std140, binding = 1) uniform Numbers { vec4 numbers[NUMBERS_4]; };

vec3 turned(vec4 ahead, vec4 right, vec4 up, vec3 own) {
    return own.x * ahead.xyz + own.y * right.xyz + own.z * up.xyz;
}

float number(int at) {
    return numbers[at >> 2][at & 3];
}

vec3 number3(int at) {
    return vec3(number(at), number(at + 1), number(at + 2));
}
