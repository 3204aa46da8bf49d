"""What lies in deploy/ fits the program: arguments are accepted, ports, versions and sizes agree, nothing secret is there."""

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from samepath import __version__
from samepath.cli.app import app, load_verb
from samepath.simulator.maps import available_maps

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERAY = DEPLOY / "kuberay"


def documents(name):
    return list(yaml.safe_load_all((KUBERAY / name).read_text("utf-8")))


(CLUSTER,) = documents("raycluster.yaml")
HEAD = CLUSTER["spec"]["headGroupSpec"]
(WORKERS,) = CLUSTER["spec"]["workerGroupSpecs"]
(MAIN,) = HEAD["template"]["spec"]["containers"]
(NODE,) = WORKERS["template"]["spec"]["containers"]
SERVICES = {service["metadata"]["name"]: service["spec"] for service in documents("services.yaml")}
POLICIES = {policy["metadata"]["name"]: policy["spec"] for policy in documents("networkpolicies.yaml")}
CONTAINERFILE = (DEPLOY / "Containerfile").read_text("utf-8")


def parsed(words):
    """What the command line makes of these words; it refuses those that it does not know."""
    command = typer.main.get_command(app)
    words = list(words)
    context = command.make_context("samepath", [words.pop(0)])
    for name in ("cluster",):
        command = load_verb(name)
        context = command.make_context(name, [words[0]], parent=context)
    verb = words.pop(0)
    return command.get_command(context, verb).make_context(verb, words, parent=context).params


def main_options():
    return parsed(
        ["cluster", "start", "--ray", "auto", *(argument.replace("$(POD_IP)", "10.1.2.3") for argument in MAIN["args"])]
    )


def ports_of(container):
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def test_the_main_server_takes_every_argument_and_listens_where_the_manifest_says():
    options, defaults = main_options(), parsed(["cluster", "start"])
    ports = ports_of(MAIN)
    assert options["port"] == ports["carla"] == ports["carla-streams"] - 1
    assert (options["link_port"], options["page_port"]) == (ports["link"], ports["page"])
    for name in ("port", "link_port", "page_port"):
        assert options[name] == defaults[name]
    assert options["ray"] == "auto"
    assert options["link_host"] == options["page_host"] == "10.1.2.3"
    assert {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}} in MAIN["env"]


def test_there_is_one_node_per_worker_and_its_ports_are_its_own():
    options = main_options()
    assert options["nodes"] == WORKERS["replicas"] == WORKERS["minReplicas"] == WORKERS["maxReplicas"]
    assert str(options["threads"]) == WORKERS["rayStartParams"]["num-cpus"] == NODE["resources"]["limits"]["cpu"]
    assert HEAD["rayStartParams"]["num-cpus"] == "0"
    ports = ports_of(NODE)
    assert options["node_port"] == ports["carla"] == ports["carla-streams"] - 1
    assert NODE["readinessProbe"]["tcpSocket"]["port"] == "carla"


def test_the_map_is_one_of_ours():
    assert main_options()["map_name"] in available_maps()


def test_services_lead_to_ports_and_pods_that_exist():
    for name, container, group in (("samepath-main", MAIN, HEAD), ("samepath-nodes", NODE, WORKERS)):
        spec = SERVICES[name]
        labels = {**group["template"]["metadata"]["labels"], "ray.io/cluster": CLUSTER["metadata"]["name"]}
        assert spec["selector"].items() <= labels.items()
        for port in spec["ports"]:
            assert ports_of(container)[port["targetPort"]] == port["port"]


def test_what_is_not_named_is_closed_and_what_is_named_is_narrow():
    closed = POLICIES["samepath-closed"]
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    own = {"podSelector": {"matchLabels": {"ray.io/cluster": CLUSTER["metadata"]["name"]}}}
    assert closed["ingress"] == [{"from": [own]}]
    assert closed["egress"][0] == {"to": [own]}
    assert {port["port"] for port in closed["egress"][1]["ports"]} == {53}
    opened = {
        name: [port["port"] for port in spec["ingress"][0]["ports"]] for name, spec in POLICIES.items() if spec is not closed
    }
    carla = [ports_of(MAIN)["carla"], ports_of(MAIN)["carla-streams"]]
    assert opened == {"samepath-clients": carla, "samepath-watchers": [ports_of(MAIN)["page"]]}
    for spec in POLICIES.values():
        for rule in spec["ingress"]:
            assert rule["from"]  # an empty one would let everybody in


def test_versions_agree():
    (image,) = yaml.safe_load((KUBERAY / "kustomization.yaml").read_text("utf-8"))["images"]
    assert image == {"name": MAIN["image"], "newTag": __version__} == {"name": NODE["image"], "newTag": __version__}
    for text in (CONTAINERFILE, (DEPLOY / "README.md").read_text("utf-8")):
        assert set(re.findall(r"samepath:([0-9][\w.]*)", text)) == {__version__}
    # The image has the version of its lock: KubeRay wants the cluster's equal to it.
    ray = CLUSTER["spec"]["rayVersion"]
    for lock in (ROOT / "locks").glob("python*.txt"):
        assert f"\nray=={ray} \\\n" in lock.read_text("utf-8"), lock.name
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (least,) = [requirement.removeprefix("ray>=") for requirement in extras["cluster"] if requirement.startswith("ray>=")]
    assert [int(part) for part in ray.split(".")] >= [int(part) for part in least.split(".")]


def test_no_secret_is_in_any_file_and_ray_asks_for_its_token():
    assert CLUSTER["spec"]["authOptions"]["mode"] == "token"
    for path in DEPLOY.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            assert not re.search(r"kind: Secret|stringData|PRIVATE KEY", text), path
            assert not re.search(r"[0-9a-fA-F]{32}|[A-Za-z0-9+=]{40,}", text), path
    for container in (MAIN, NODE):
        for variable in container.get("env", []):
            assert "value" not in variable or not re.search("TOKEN|KEY|SECRET|PASS", variable["name"])


@pytest.mark.parametrize(("container", "group"), [(MAIN, HEAD), (NODE, WORKERS)], ids=["main", "node"])
def test_pods_have_limits_and_no_rights_that_they_do_not_need(container, group):
    spec = group["template"]["spec"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    (user,) = re.findall(r"^USER (\d+)$", CONTAINERFILE, re.MULTILINE)
    assert spec["securityContext"]["runAsUser"] == int(user) != 0
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/home/samepath", "/tmp"}
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert container["readinessProbe"]
    assert container["livenessProbe"]


def test_the_image_is_built_from_files_that_exist_and_starts_what_exists():
    for sources in re.findall(r"^COPY (?!--from)(?:--\S+ )?(.+) \S+$", CONTAINERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
    installed = re.search(r"COPY --chmod=0555 deploy/main.sh /usr/local/bin/(\S+)", CONTAINERFILE)
    assert [installed[1]] == MAIN["command"]
    entry, rest = (
        shlex.split(" ".join(re.findall(r'"([^"]*)"', line)))
        for line in re.findall(r"^(?:ENTRYPOINT|CMD) .*$", CONTAINERFILE, re.MULTILINE)
    )
    assert entry == ["samepath"]
    assert parsed(rest)["nodes"] == 2


def test_every_command_of_the_page_exists():
    text = (DEPLOY / "README.md").read_text("utf-8")
    spoken = [
        command.replace("NODE", "node-1").replace(" N", " 3") for command in re.findall(r"`(?:samepath )(cluster [^`]*)`", text)
    ]
    console = re.findall(r"(?:-- samepath|samepath:[\w.]+) (cluster [^#\n]*)", text)
    assert len(spoken) >= 3
    assert len(console) == 2
    for command in [*spoken, *console]:
        parsed(shlex.split(command))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_it_with_the_image_of_this_version():
    done = subprocess.run(["kubectl", "kustomize", str(KUBERAY)], capture_output=True, text=True, check=True)
    built = {(found["kind"], found["metadata"]["name"]): found for found in yaml.safe_load_all(done.stdout)}
    assert len(built) == 1 + 1 + len(SERVICES) + len(POLICIES)
    spec = built["RayCluster", "samepath"]["spec"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        assert group["template"]["spec"]["containers"][0]["image"] == f"samepath:{__version__}"


# The oldest and the newest Kubernetes whose schemas the validator has; between them fields come, and seldom go.
@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_every_object_and_pod_is_what_kubernetes_knows_strictly(version):
    """By the API's own schemas, unknown fields refused; of the RayCluster, which is KubeRay's, the pods that come of it."""
    validate = pytest.importorskip("kubernetes_validate").validate
    names = [path.name for path in sorted(KUBERAY.glob("*.yaml")) if path.name not in {"kustomization.yaml", "images.yaml"}]
    objects = [found for name in names for found in documents(name)]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": group["template"]["metadata"], "spec": group["template"]["spec"]}
        for group in (HEAD, WORKERS)
    ]
    plain = [found for found in objects if found["kind"] != "RayCluster"]
    assert {found["kind"] for found in plain} == {"Namespace", "Service", "NetworkPolicy"}
    for found in (*plain, *pods):
        validate(found, version, strict=True)
    with pytest.raises(Exception, match="readinessProb"):
        validate({**pods[0], "spec": {"containers": [{"name": "main", "readinessProb": {}}]}}, version, strict=True)
