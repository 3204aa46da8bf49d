"""The software rasteriser, and the specification of its pictures.

Every back end that promises the same bytes follows these rules. The code of this folder is the reference. What is listed here
decides bytes; what is called *speed only* may be left out or done in another way. The places in the code say the same again,
rule by rule.

**Arithmetic.** Each operation is one of IEEE 754 (+, -, *, /, square root, comparison, conversion), rounded to nearest in the
width of its operands: float32 where both are float32, otherwise float64. Products are never fused with sums, sums are taken in
the order written, nothing is reassociated, subnormal numbers are not flushed. A division by zero gives an infinity. No other
function of a math library is used: sRGB's curve is made of square roots, powers are products. ``min(a, b)`` is ``b if b < a
else a`` and ``max(a, b)`` is ``b if b > a else a``, which decides what happens to NaN and to zeros of either sign. Floats
become whole numbers by cutting off; before that they are brought into the range of the whole number, because what happens
outside of it differs between machines.

**Order of drawing** (:func:`.draw.cull`). A camera draws the instances whose bounding sphere meets its field of view, by how
far the sphere's middle lies ahead of it (float64), then by the instance's number. That key is unique, so any way of sorting
will do. Within an instance faces come in the order of the mesh, within a face that was cut at the near plane the parts of the
fan. The level of detail depends on the size in pixels and is part of the picture.

**Projection** (:func:`.draw._project`). The matrix from an instance's frame to the camera's is worked out in float64 and
rounded to float32; vertices are transformed once, in float32. Faces turned away are left out by the plane of the face, in the
mesh's own frame and in float32. Faces that reach behind the near plane are cut there in float64, each cut from its end in front
to its end behind: two faces that share the edge get the same bits.

**Which pixels belong to a triangle** (:func:`.draw.spans_of`, :func:`.draw.span`). Those whose middle lies inside. A middle on
an edge belongs to the triangle to its right or below, so neighbours never share a pixel and never leave one out. Where an edge
meets a row is worked out in float64 from its upper to its lower end, whichever of its two triangles asks.

**Depth** (:func:`.draw.fill`). 1/z is linear on the screen. It is taken as a float64 plane through the corners at the first
pixel of a row's span, rounded to float32, and counted on from there as ``near + step * k`` in float32; ``k`` is the distance
from the span's first pixel inside the picture. It is not summed step by step: every pixel can be worked out alone.

**Who is seen.** The face with the greatest 1/z. Equal 1/z: the one that is drawn first stays (the test is ``>``, not ``>=``).
Without an order of drawing: greatest 1/z, then least (rank of the instance, face). Buffers start at 1/z = 0, the sky.

**Shadows** (:func:`.software._shadows`, :func:`.draw.darken`). Casters are laid flat on the ground along the sun's rays and
drawn after everything else. They mark pixels, they write no depth; marking twice is marking once, so their order does not
matter.

**Colour** (:mod:`.shading`, :mod:`.pixels`). A face's colour is worked out once per tick in float64 and rounded to float32; it
does not depend on the camera. What a pixel makes of it depends on its face, its 1/z and its place in the picture alone. Then
come fog, rounding to bytes, averaging of samples, rain and darker corners, in this order.

**Speed only**: filling row by row and painting in runs of equal faces (loops that a CPU likes), the look at what hides a box
(:func:`.draw.is_hidden`), keeping lit faces from tick to tick, dealing cameras out to threads. Threads share no memory they
write to, so their number changes nothing.

The instruction set is pinned as well (:mod:`.compiled`), so that no compiler chooses other rounding on another processor.
"""
