"""What the faces are that rays have met: label, actor and slant."""

from typing import Any

import numpy as np

from samepath.sim.sensors.raster.compiled import compiled_entry


@compiled_entry
def identify(met: Any, rays: Any, still: Any, moving: Any, faces: Any, labels: Any, axes: Any, found: Any) -> None:  # noqa: ANN401
    """Fill ``found``, label, actor and cosine, for every ray that has met a face.

    ``met`` holds codes. Below the length of ``still``, faces and the fixed instances that placed them, they name a fixed face;
    those of a moving instance begin at its start: ``moving`` are starts, ids and the first face of its mesh. ``faces`` are
    normals and labels; ``labels`` and ``axes`` (as the sensor sees them) those of fixed instances followed by moving ones.
    """
    row_cos, row_sin, column_cos, column_sin, first, last, number, _, _ = rays
    still_face, still_instance = still
    starts, ids, first_face = moving
    normals, face_labels = faces
    label, actor, cosine = found
    fixed = len(labels) - len(ids)
    for row in range(len(row_cos)):
        for column in range(first[row], last[row]):
            at = number[row] + column
            code = met[at]
            if code < 0:
                continue
            if code < len(still_face):
                face, owner = still_face[code], still_instance[code]
            else:
                mover = np.searchsorted(starts, code, side="right") - 1
                face, owner = first_face[mover] + (code - starts[mover]), fixed + mover
                actor[at] = ids[mover]
            label[at] = labels[owner] if labels[owner] != 0 else face_labels[face]
            x, y, z = np.float64(normals[face, 0]), np.float64(normals[face, 1]), np.float64(normals[face, 2])
            forward = x * axes[owner, 0, 0] + y * axes[owner, 1, 0] + z * axes[owner, 2, 0]
            right = x * axes[owner, 0, 1] + y * axes[owner, 1, 1] + z * axes[owner, 2, 1]
            up = x * axes[owner, 0, 2] + y * axes[owner, 1, 2] + z * axes[owner, 2, 2]
            ground = forward * column_cos[column] + right * column_sin[column]
            cosine[at] = -(ground * row_cos[row] + up * row_sin[row])
