"""Everything that stands or moves in a street, made of triangles by code: no file, no licence, no download."""
