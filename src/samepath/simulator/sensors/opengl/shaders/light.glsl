// Light on a surface, linear, and the way to levels on the screen (0..255). The formulas are those of raster/lighting.py.
uniform sampler2D sky;
uniform usampler2D noise;
#ifdef SHADOW_MAPS
uniform sampler2DShadow near_shadow;
uniform sampler2DShadow far_shadow;
#endif

vec3 tone(vec3 light) {
    vec3 over = max(light - KNEE, 0.0);
    vec3 y = min(max(light, 0.0), KNEE) + over / (1.0 + over / (1.0 - KNEE));
    vec3 half_power = sqrt(y), quarter = sqrt(half_power), eighth = sqrt(quarter);
    return 255.0 * clamp(CURVE_0 * half_power + CURVE_1 * quarter + CURVE_2 * eighth + CURVE_3 * y, 0.0, 1.0);
}

vec3 sky_at(vec3 towards) {
    float size = length(towards);
    float gain = 0.5 * SKY_SIZE / SKY_REACH / (size + max(towards.z, -0.1 * size));
    vec2 at = clamp(towards.xy * gain + 0.5 * SKY_SIZE, 0.0, SKY_SIZE - 0.01);
    return 255.0 * texture(sky, (at + 0.5) / (SKY_SIZE + 1.0)).bgr;
}

// Noise of one cell, 0..255; layers are those of raster/texture.py.
float grain(int layer, vec2 cell) {
    ivec2 at = ivec2(floor(cell)) & 255;
    return float(texelFetch(noise, ivec2(at.x, 256 * layer + at.y), 0).r);
}

#ifdef SHADOW_MAPS
float lit_in(sampler2DShadow map, vec4 area, float reach_m, vec3 place) {
    float texel = 1.0 / float(textureSize(map, 0).x);
    float far = clamp((area.w - place.z) / (area.w - area.z), 0.0, 1.0);
    vec2 at = 0.5 + 0.5 * vec2(place.x - area.x, area.y - place.y) / reach_m;
    float lit = 0.0;
    for (int k = 0; k < 4; k++) {
        vec2 aside = (vec2(k & 1, k >> 1) - 0.5) * 1.5 * texel;
        lit += texture(map, vec3(at + aside, far));
    }
    return 0.25 * lit;
}
#endif

// The part of the sun that reaches a place, from the map that shows it in the finer grain.
float sunlit(vec3 at, vec3 normal) {
#ifdef SHADOW_MAPS
    if (number(SHADOWS) <= 0.0) return 1.0;
    float near_reach = view.light_right.w, far_reach = view.light_up.w;
    vec3 place = vec3(dot(view.light_right.xyz, at), dot(view.light_up.xyz, at), dot(view.to_sun.xyz, at));
    vec3 lift = vec3(dot(view.light_right.xyz, normal), dot(view.light_up.xyz, normal), dot(view.to_sun.xyz, normal));
    float texels = float(textureSize(near_shadow, 0).x);
    vec2 off = abs(place.xy - view.near_map.xy) / near_reach;
    if (max(off.x, off.y) < 0.98) return lit_in(near_shadow, view.near_map, near_reach, place + lift * (4.0 * near_reach / texels));
    off = abs(place.xy - view.far_map.xy) / far_reach;
    float edge = max(off.x, off.y);
    if (edge >= 0.98) return 1.0;
    float lit = lit_in(far_shadow, view.far_map, far_reach, place + lift * (4.0 * far_reach / texels));
    return mix(lit, 1.0, smoothstep(0.85, 0.98, edge));
#else
    return 1.0;
#endif
}

// The light of lamps on what stands upright.
float lamp_light(vec3 at, vec3 normal) {
    float total = 0.0;
    int first = int(view.lamps.x), last = first + int(view.lamps.y);
    for (int k = first; k < last; k++) {
        vec4 head = lamps[2 * k], tail = lamps[2 * k + 1];
        vec3 off = at - head.xyz;
        vec3 beam = vec3(head.w, tail.xy);
        float square = dot(off, off), reach = tail.z, far = sqrt(square) + 1e-6;
        float facing = -dot(off, normal) / far;
        if (square >= reach * reach || facing <= 0.0) continue;
        float cone = beam.x != 0.0 || beam.y != 0.0 ? clamp((dot(off, beam) / far - 0.75) * 6.0, 0.0, 1.0) : 1.0;
        float fade = 1.0 - square / (reach * reach);
        total += tail.w * facing * cone * fade * fade / (1.0 + 0.02 * square);
    }
    return total;
}

// The light of lamps on the ground.
float lamp_pool(vec2 at) {
    float total = 0.0;
    int first = int(view.lamps.x), last = first + int(view.lamps.y);
    for (int k = first; k < last; k++) {
        vec4 head = lamps[2 * k], tail = lamps[2 * k + 1];
        vec2 off = at - head.xy, beam = vec2(head.w, tail.x);
        float square = dot(off, off) / (tail.z * tail.z);
        if (square >= 1.0) continue;
        float fade = 1.0 - square, light = fade * fade;
        if (beam.x != 0.0 || beam.y != 0.0) {
            float ahead = dot(off, beam), part = (off.y * beam.x - off.x * beam.y) / (0.9 + 0.27 * ahead);
            if (ahead <= 0.0 || part * part >= 1.0) continue;
            float across = 1.0 - part * part;
            light *= across * across * min(0.25 * ahead, 1.0) * (1.0 - 0.6 * square);
        }
        total += tail.w * light;
    }
    return total;
}
