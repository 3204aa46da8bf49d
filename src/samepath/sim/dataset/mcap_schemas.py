"""JSON schemas of the messages in an MCAP file: those of Foxglove by their names and fields, and two of ours."""

from typing import Any, Final

Plain = dict[str, Any]
_NUMBER: Final[Plain] = {"type": "number"}
_WHOLE: Final[Plain] = {"type": "integer"}
_TEXT: Final[Plain] = {"type": "string"}
_TRUTH: Final[Plain] = {"type": "boolean"}
_BYTES: Final[Plain] = {"type": "string", "contentEncoding": "base64"}


def _object(**fields: Plain) -> Plain:
    return {"type": "object", "properties": fields}


def _list(of: Plain) -> Plain:
    return {"type": "array", "items": of}


_TIME: Final = _object(sec=_WHOLE, nsec=_WHOLE)
_POINT_2: Final = _object(x=_NUMBER, y=_NUMBER)
_VECTOR_3: Final = _object(x=_NUMBER, y=_NUMBER, z=_NUMBER)
_QUATERNION: Final = _object(x=_NUMBER, y=_NUMBER, z=_NUMBER, w=_NUMBER)
_POSE: Final = _object(position=_VECTOR_3, orientation=_QUATERNION)
_COLOUR: Final = _object(r=_NUMBER, g=_NUMBER, b=_NUMBER, a=_NUMBER)
_HEAD: Final = {"timestamp": _TIME, "frame_id": _TEXT}
_ENTITY: Final = _object(
    **_HEAD,
    id=_TEXT,
    lifetime=_TIME,
    frame_locked=_TRUTH,
    metadata=_list(_object(key=_TEXT, value=_TEXT)),
    cubes=_list(_object(pose=_POSE, size=_VECTOR_3, color=_COLOUR)),
    **{kind: _list(_object()) for kind in ("arrows", "spheres", "cylinders", "lines", "triangles", "texts", "models")},
)
_OUTLINE: Final = _object(
    timestamp=_TIME,
    type=_WHOLE,
    points=_list(_POINT_2),
    outline_color=_COLOUR,
    outline_colors=_list(_COLOUR),
    fill_color=_COLOUR,
    thickness=_NUMBER,
)
_WORDS: Final = _object(
    timestamp=_TIME, position=_POINT_2, text=_TEXT, font_size=_NUMBER, text_color=_COLOUR, background_color=_COLOUR
)
_TRANSFORM: Final = _object(
    timestamp=_TIME, parent_frame_id=_TEXT, child_frame_id=_TEXT, translation=_VECTOR_3, rotation=_QUATERNION
)
SCHEMAS: Final[dict[str, Plain]] = {
    "foxglove.CameraCalibration": _object(
        **_HEAD,
        width=_WHOLE,
        height=_WHOLE,
        distortion_model=_TEXT,
        **{name: _list(_NUMBER) for name in ("D", "K", "R", "P")},
    ),
    "foxglove.CompressedImage": _object(**_HEAD, data=_BYTES, format=_TEXT),
    "foxglove.FrameTransforms": _object(transforms=_list(_TRANSFORM)),
    "foxglove.ImageAnnotations": _object(circles=_list(_object()), points=_list(_OUTLINE), texts=_list(_WORDS)),
    "foxglove.LocationFix": _object(
        **_HEAD,
        latitude=_NUMBER,
        longitude=_NUMBER,
        altitude=_NUMBER,
        position_covariance=_list(_NUMBER),
        position_covariance_type=_WHOLE,
    ),
    "foxglove.PointCloud": _object(
        **_HEAD,
        pose=_POSE,
        point_stride=_WHOLE,
        fields=_list(_object(name=_TEXT, offset=_WHOLE, type=_WHOLE)),
        data=_BYTES,
    ),
    "foxglove.SceneUpdate": _object(deletions=_list(_object(timestamp=_TIME, type=_WHOLE, id=_TEXT)), entities=_list(_ENTITY)),
    # An array as numpy has it, for what no viewer draws.
    "samepath.Array": _object(**_HEAD, dtype=_TEXT, shape=_list(_WHOLE), data=_BYTES),
    # labels.json of the folder, as the documentation of datasets describes it.
    "samepath.Labels": _object(tick=_WHOLE, time_s=_NUMBER, ego=_object(), sensors=_object(), objects=_list(_object())),
}
