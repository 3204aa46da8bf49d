// One pixel from several of a finer picture.
in vec2 corner;
uniform sampler2D fine;
uniform int samples;
layout(location = 0) out vec4 colour_out;

void main() {
    ivec2 first = ivec2(gl_FragCoord.xy) * samples;
    vec4 total = vec4(0.0);
    for (int row = 0; row < samples; row++)
        for (int column = 0; column < samples; column++)
            total += texelFetch(fine, first + ivec2(column, row), 0);
    colour_out = vec4((total / float(samples * samples)).rgb, 1.0);
}
