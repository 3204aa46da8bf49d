"""Prints digests of all cameras in all weathers; run in processes of its own. Argument: how many threads."""

import json
import sys

from samepath.simulator.sensors.raster.software import SoftwareRenderer
from tests.support.camera_scenes import WEATHERS, cameras, digest, street_scene


def digests(threads):
    renderer = SoftwareRenderer(threads)
    # Twice, the second time over the arrays of the first: what was there before must not matter.
    found = {}
    for name in WEATHERS:
        scene, views = street_scene(name), [*cameras(), *cameras(width=64, height=48, samples=2, vignette=0.5)]
        frames = renderer.render(scene, views)
        found[name] = digest(frames)
        assert digest(renderer.render(scene, views, frames)) == found[name]
    renderer.close()
    return found


if __name__ == "__main__":
    print(json.dumps(digests(int(sys.argv[1]))))
