// Surfaces in levels on the screen: ground, leaves, walls with windows, fog. The formulas are those of raster/painters.py.
struct Surface { vec3 own; uint bits; int wall; vec3 normal; };

vec3 lit_face(Surface face, int material, vec3 at, vec3 place) {
    bool flat_ground = material >= ROAD;
    float facing = max(dot(face.normal, number3(TO_SUN)), 0.0), up = 0.5 + 0.5 * face.normal.z;
    float sun = facing > 0.0 ? sunlit(at, face.normal) : 1.0;
    vec3 above = number3(ABOVE), below = number3(BELOW), shine = number3(SUN), low = number3(LOW), high = number3(HIGH);
    vec3 ambient = below + (above - below) * up;
    if (flat_ground) ambient *= mix(SHADOW_SKY, 1.0, sun);
    float lamp = !flat_ground && view.lamps.y > 0.0 ? lamp_light(place, face.normal) : 0.0;
    vec3 light = ambient + shine * facing * mix(SHADOW_SUN, 1.0, sun) + lamp * vec3(1.0, 0.86, 0.66);
    vec3 value = face.own * light;
    vec3 mirrored = (low + (high - low) * max(face.normal.z, 0.0)) * up;
    if (flat_ground) value *= 1.0 - number(WET) * (material == ROAD ? 0.42 : 0.3);
    if (material == BODY) value += 0.05 * mirrored;
    else if (material == GLASS) value = 0.35 * value + 0.42 * mirrored;
    else if (material == FOLIAGE) value += 0.22 * face.own * shine;
    if ((face.bits & BURNS) != 0u) value = 0.35 * value + 1.15 * face.own;
    else if ((face.bits & OUT) != 0u) value *= 0.10;
    return tone(value);
}

vec3 ground(int material, vec3 colour, vec3 at, vec3 place, float near) {
    bool grass = material == GRASS;
    float fine = max(near - 0.03, 0.0) / (near + 0.03);
    float part = 1.0 + (grass ? 0.0011 : 0.00045) * (grain(2, place.xy * 1.7) - 128.0);
    part += (grass ? 0.0011 : 0.00055) * fine * (grain(0, place.xy * 22.0) - 128.0);
    vec3 found = colour * part;
    if (material == PAVING) {
        vec2 slab = fract(place.xy * 1.6);
        if (min(slab.x, slab.y) < 0.05) found *= 1.0 - 0.10 * near / (near + 0.05);
    }
    if (number(NIGHT) > 0.0 && view.lamps.y > 0.0)
        found *= 1.0 + vec3(1.0, 0.92, 0.72) * (sqrt(1.0 + lamp_pool(place.xy) / number(DARK)) - 1.0);
    float wet = number(WET);
    if (wet > 0.0) {
        float away = 1.0 + min(normalize(at).z, 0.0);
        away *= away;
        float pool = clamp((0.9 * number(PUDDLES) - grain(2, place.xy * 2.3) / 255.0) * 6.0, 0.0, 1.0);
        float share = min((0.03 + 0.62 * away * away) * wet + pool * (0.12 + 0.55 * away), 0.9);
        found = mix(found, sky_at(vec3(at.xy, abs(at.z))), grass ? 0.25 * share : share);
    }
    return found;
}

vec3 leaves(vec3 colour, vec3 place, float near) {
    float leaf = grain(1, vec2(place.x + place.z, place.y - place.z) * 14.0) - 128.0;
    return colour * (1.0 + 0.0022 * leaf * (near / (near + 0.03)));
}

vec3 wall_with_windows(int wall, vec3 colour, vec3 place) {
    vec2 at = vec2(dot(walls[2 * wall], vec4(place, 1.0)), dot(walls[2 * wall + 1], vec4(place, 1.0))) + 1024.0;
    ivec2 cell = ivec2(at);
    vec2 inside_cell = at - vec2(cell);
    float low = 0.28, high = 0.80, side = 0.24;
    if (cell.y <= 1024) { low = 0.16; high = 0.82; side = 0.14; }
    float inside = min(min(inside_cell.x - side, 1.0 - side - inside_cell.x), min(inside_cell.y - low, high - inside_cell.y));
    if (inside > 0.045) {
        float luck = grain(0, vec2((cell.x * 37 + wall * 11) & 255, (cell.y * 59 + 17) & 255));
        float part = 0.19 + 0.00066 * luck + 0.14 * inside_cell.y;
        vec3 pane = sky_at(vec3(0.0, 0.94, 0.34)) * part + vec3(7.0, 10.0, 14.0);
        float dark = number(NIGHT);
        if (dark > 0.0 && luck < 96.0) pane = mix(pane, vec3(235.0, 190.0, 120.0), dark * (0.6 + 0.0015 * luck));
        return pane;
    }
    float stain = 1.0 + 0.0004 * (grain(2, vec2(place.x + place.y, place.z) * 2.0) - 128.0);
    if (inside > 0.0) stain = 1.16;
    else if (inside_cell.y < 0.035) stain *= 0.90;
    return colour * stain;
}

vec3 fogged(vec3 levels, vec3 at, float far) {
    float above = max(2.0 * view.place.z + at.z, 0.0);
    float thick = 0.25 * number(FOG_PER_M) * max(far - number(FOG_FROM_M), 0.0) / (1.0 + 0.5 * number(FALLOFF) * above);
    float clear = 1.0 / (1.0 + thick);
    clear *= clear;
    return mix(tone(number3(FOG)), levels, clear * clear);
}

vec3 painted(Surface face, vec3 at, float far) {
    int material = int((face.bits >> 8) & 255u);
    vec3 place = at + view.place.xyz;
    vec3 colour = lit_face(face, material, at, place);
    float near = max(1.0 / far, 1e-4);
    if (material >= ROAD) colour = ground(material, colour, at, place, near);
    else if (material == FOLIAGE) colour = leaves(colour, place, near);
    else if (material == FACADE && face.wall >= 0) colour = wall_with_windows(face.wall, colour, place);
    return fogged(colour, at, far);
}
