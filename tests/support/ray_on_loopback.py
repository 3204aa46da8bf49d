"""A Ray cluster whose nodes all listen on loopback only. Prints its address, obeys «lose NAME» and «add NAME», ends with stdin.

A process of its own: Ray warns, and what runs tests takes a warning for an error.
"""

import os
import sys
from pathlib import Path

from ray.cluster_utils import Cluster


def main(folder, names):
    # Ray notes the newest cluster in a folder that all clusters share and that is not there on a machine where Ray never ran.
    os.environ["RAY_TMPDIR"] = folder
    (Path(folder) / "ray").mkdir(exist_ok=True)

    def node(name):
        place = {"node_ip_address": "127.0.0.1", "labels": {"samepath-host": name}}
        return {**place, "num_cpus": 1, "object_store_memory": 80 << 20}

    quiet = {"include_dashboard": False, "include_log_monitor": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args={**node(names[0]), **quiet})
    nodes = {name: cluster.add_node(**node(name)) for name in names[1:]}
    print(cluster.address, flush=True)
    for line in sys.stdin:
        order, name = line.split()
        if order == "lose":
            cluster.remove_node(nodes.pop(name), allow_graceful=False)
        else:
            nodes[name] = cluster.add_node(**node(name))
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
