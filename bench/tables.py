"""Figures in the docs, written by this module from ``bench/results/``: ``python -m bench tables``.

A page holds the place of a table between two comments, ``<!-- bench NAME: begin -->`` and ``<!-- bench NAME: end -->``. A test
makes every table anew and compares: a figure that nobody measured cannot stand in a page, and a result that was made anew
cannot be forgotten there. Each table says of which commit, day and machine its figures are.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.gpu import AIMS
from bench.tools import RESULTS, ROOT, verdict

DOCS: Final = ROOT / "docs"
_PLACE: Final = re.compile(r"<!-- bench (?P<name>[\w-]+): begin -->\n(?P<table>.*?)<!-- bench (?P=name): end -->", re.DOTALL)
Rows = list[tuple[str, ...]]


def main(_: list[str] | None = None) -> bool:
    """Write every table anew."""
    for page in pages():
        text = page.read_text("utf-8")
        made = _PLACE.sub(lambda found: _block(found["name"], table(found["name"])), text)
        if made != text:
            page.write_text(made, "utf-8")
            print(f"{page.relative_to(ROOT)}: written")
    return True


def pages() -> list[Path]:
    """The pages that have a place for a table."""
    candidates = [*sorted(DOCS.rglob("*.md")), RESULTS / "README.md"]
    return [page for page in candidates if _PLACE.search(page.read_text("utf-8"))]


def places(page: Path) -> dict[str, str]:
    """The tables of a page as they stand there, by name."""
    return {found["name"]: found["table"] for found in _PLACE.finditer(page.read_text("utf-8"))}


def table(name: str) -> str:
    """Make a table."""
    if name not in TABLES:
        raise SystemExit(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
    return TABLES[name]()


def _block(name: str, text: str) -> str:
    return f"<!-- bench {name}: begin -->\n{text}<!-- bench {name}: end -->"


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def _figures(name: str) -> Any:  # noqa: ANN401 - whatever a benchmark keeps
    return _result(name)["figures"]


def _made(*names: str) -> str:
    """Of which commit, day and machine results are."""
    lines = []
    for name in names:
        found = _result(name)
        where, cpu = found["provenance"], found["provenance"]["cpu"]
        lines.append(
            f"`{name}` of {where['date_utc'][:10]}, commit {found['code']['commit'][:9]}, "
            f"{cpu['model']} with {cpu['cores_usable']} cores, Python {where['python']['version']}"
        )
    return "; ".join(lines)


def _markdown(head: tuple[str, ...], rows: Rows, made: str) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n({made})\n"


def _number(value: float) -> str:
    """Three figures, thousands apart."""
    if value >= 1000:
        digits = len(str(int(value))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def instrument() -> str:
    """What the instrument costs."""
    spread, store = _figures("spread"), _figures("store")
    noisy, same, streamed = spread["1 mm of noise"], spread["identical"], spread["streamed_peak_bytes"]
    logs = list(store.values())
    rows: Rows = [
        (
            "exact spread against `numpy.var`, 1000 x 10 actors x 2000 ticks x 3 axes, noisy",
            f"{noisy['time_ratio']:.1f} times its time",
        ),
        (
            "the same, identical repeats",
            f"{same['time_ratio']:.1f} times its time; `numpy.var` reports a sigma of {same['numpy_max_sigma_m']:.0e} m there, "
            f"samepath {same['max_sigma_m']:g}",
        ),
        (
            "peak memory, of the array's size",
            f"{noisy['peak_memory_ratio']:.2f} times (`numpy.var` {noisy['numpy_peak_memory_ratio']:.1f} times); streamed "
            + ", ".join(f"{size / 1e6:.0f} MB beside the block at {count} repeats" for count, size in streamed.items()),
        ),
        (
            "1000 repeats of 20 s, logged every 0.1 s, 3 actors, 15 channels",
            f"{logs[0]['bytes'] / 1e6:.1f} MB if identical, {logs[1]['bytes'] / 1e6:.0f} MB if every number differs, "
            f"{logs[0]['files']} files",
        ),
        ("digest, spool and compact these", f"{logs[0]['write_s']:.1f} s and {logs[1]['write_s']:.1f} s"),
        ("read their positions back", f"{logs[0]['read_positions_s']:.2f} s and {logs[1]['read_positions_s']:.2f} s"),
        (
            "read 1000 x 10 x 2000 x 3 positions back, and measure them",
            f"{logs[2]['read_positions_s']:.1f} s, {logs[2]['read_and_measure_s']:.1f} s",
        ),
    ]
    return _markdown(("", ""), rows, _made("spread", "store"))


def world() -> str:
    """What a tick of the world and a repeat cost."""
    sim, engines = _figures("sim"), _figures("engines")
    ticks = " / ".join(f"{time_us / 1000:.2g}" for time_us in sim["tick"].values())
    others = " / ".join(f"{time_us / 1000:.2g}" for time_us in engines.values())
    rows: Rows = [
        (
            f"one tick of 0.05 s in 5 substeps, digest included: {' / '.join(sim['tick'])} vehicles and 20 walkers",
            f"{ticks} ms",
        ),
        (
            "1000 repeats of Test 2, 50 to a process, on two cores, traces written",
            f"{_number(sim['test2_real_time_factor_two_cores'])} times real time (aim 500)",
        ),
        (
            "the same run with digests, events and traces against a loop without",
            f"{sim['cost_of_determinism']:.2f} times its time",
        ),
        (f"40 vehicles, physics only: {' / '.join(engines)}", f"{others} ms a tick"),
    ]
    return _markdown(("", ""), rows, _made("sim", "engines"))


def isolation() -> str:
    """What a repeat takes, from asking to having it."""
    found = _figures("isolation")
    runs = list(dict.fromkeys(name.rpartition(" ")[0] for name in found))
    ways = list(dict.fromkeys(name.rpartition(" ")[2] for name in found))
    rows: Rows = [(run, *(_number(1000 * found[f"{run} {way}"]["best_s"]) for way in ways)) for run in runs]
    return _markdown(("best of its repeats, ms", *ways), rows, _made("isolation"))


def overhead() -> str:
    """What an adapter adds to a step of its engine."""
    rows: Rows = [
        (
            engine,
            f"{cost['direct_us']:.3g}",
            f"{cost['adapter_us']:.3g}",
            f"{100 * cost['overhead_ratio']:+.0f} % "
            f"({100 * cost['overhead_ratio_between'][0]:+.0f} to {100 * cost['overhead_ratio_between'][1]:+.0f})",
        )
        for engine, cost in _figures("engine_overhead").items()
    ]
    head = ("`table1-test2`", "a step of the engine alone, µs", "with our adapter, µs", "more")
    return _markdown(head, rows, _made("engine_overhead"))


def server() -> str:
    """What `samepath serve` answers."""
    found = _figures("server")
    if "maps" not in found:  # of before both maps were measured: they are of ``oval``
        counts, rates = list(found["ticks_per_s"]), [_number(rate) for rate in found["ticks_per_s"].values()]
        former: Rows = [
            ("round trips", _number(found["round_trips_per_s"])),
            (f"ticks of 0.05 s in 5 substeps with {' / '.join(counts)} vehicles", " / ".join(rates)),
            ("300 controls in one batch, and a tick", _number(found["batch_300_and_tick_per_s"])),
        ]
        return _markdown(("per second", ""), former, _made("server"))
    maps = found["maps"]
    rows: Rows = [("ticks of 0.05 s in 5 substeps, no vehicles", *(_number(of_map["0"]) for of_map in maps.values()))]
    for what, words in (
        ("parked", "ticks, {} vehicles parked"),
        ("driving", "ticks, {} vehicles driving in circles"),
        ("traffic manager", "ticks, {} vehicles under the client's traffic manager"),
        ("camera", "pictures of {} by a car that drives, each waited for"),
    ):
        keys = list(next(iter(maps.values()))[what])
        found_rates = (" / ".join(_number(of_map[what][key]) for key in keys) for of_map in maps.values())
        rows.append((words.format(" / ".join(keys)), *found_rates))
    rows.append(("300 controls in one batch, and a tick", "", _number(found["batch_300_and_tick_per_s"])))
    rows.append(("round trips", "", _number(found["round_trips_per_s"])))
    return _markdown(("per second", *(f"`{name}`" for name in maps)), rows, _made("server"))


def cameras() -> str:
    """What the software renderer draws, beside others."""
    rows: Rows = [(name, *map(_number, rates)) for name, rates in _figures("cameras")["images_per_s"].items()]
    return _markdown(("images/s", "180 x 120", "360 x 240", "720 x 480", "1440 x 960"), rows, _made("cameras"))


def lidar() -> str:
    """What rays cost."""
    found = _figures("lidar")
    rows: Rows = [(name, f"{rate:.3g} million rays a second") for name, rate in found["ours_mrays_per_s"].items()]
    rows.append(("a radar of 75 rays", f"{found['radar_ms']:.2g} ms"))
    return _markdown((f"{found['rays']} rays", ""), rows, _made("lidar"))


def gpu() -> str:
    """What the renderer ``cuda`` draws on a card, beside what the way back from the card allows."""
    if not (RESULTS / "gpu.json").exists():
        return "(nothing has been measured yet)\n"
    found = _figures("gpu")
    keys = ("kernels", "overlapped", "tick", "pcie_limit")
    rows: Rows = [
        (
            f"{row['size'][0]} x {row['size'][1]}",
            str(row["cameras"]),
            *(_number(row[key]) if key in row else "-" for key in keys),
        )
        for row in found["images_per_s"]
    ]
    for other in found.get("images_per_s_of_others", ()):
        for (width, height), rate in zip(
            ((180, 120), (360, 240), (720, 480), (1440, 960)), other.get("images_per_s", ()), strict=False
        ):
            core = ", one core" if other["renderer"] == "software" else ""
            rows.append((f"{width} x {height}", f"40, `{other['renderer']}`{core}", "-", "-", _number(rate), "-"))
    head = ("images/s", "cameras", "kernels alone", "copies overlapped", "lockstep tick", "what the bus allows")
    checks = ", ".join(
        f"{sum(tally[key] for tally in found[name].values())} {words}"
        for name, key, words in (
            ("pinned_pictures", "equal", "pinned pictures equal"),
            ("pinned_pictures", "repeats", "drawn"),
            ("fuzzed_cameras", "cameras", "fuzzed cameras"),
            ("fuzzed_cameras", "differing", "of them differing"),
        )
    )
    worlds = "; ".join(
        f"a camera in each of {row['worlds']} worlds: {_number(row['one_launch'])} images/s in one launch, "
        f"{_number(row['apart'])} one after the other"
        for row in found.get("worlds_images_per_s", ())
    )
    rays = found.get("lidar")
    together = rays and rays.get("cuda_mrays_per_s_together")
    scans = (
        f"LiDAR, a scan at a time: {_number(rays['cuda_mrays_per_s'])} Mray/s, "
        f"one core {_number(rays['software_mrays_per_s'])}, {rays['differing']} of {rays['scans']} scans differing"
        + (f"; {rays['scanners']} scanners a tick: {_number(together)} Mray/s" if together else "")
        if rays
        else ""
    )
    ticks = [row["tick"] for row in found["images_per_s"] if row["cameras"] == 40]
    aims = "aims for a lockstep tick of 40 cameras: " + ", ".join(
        f"{aim:,.0f} {verdict(met=rate >= aim)}" for aim, rate in zip(AIMS, ticks, strict=True)
    )
    more = "; ".join(part for part in (aims, f"bytes: {checks}", worlds, scans) if part)
    return _markdown(head, rows, f"{found['card']}; {_made('gpu')}; colour, depth and labels, `town`, 40 cars; {more}")


def cluster_on_16_cores() -> str:
    """How the cluster scales where there is a core for every process, and what a tick costs there."""
    found = _figures("cluster-16-cores")
    scaling = found["scaling"]
    rows: Rows = [
        (
            str(point["nodes"]),
            _number(point["images_per_s"]),
            f"{point['efficiency']:.2f}",
            f"{point['drawing_efficiency']:.2f}",
            next((_number(tick["overhead_ms"]) for tick in _small_ticks(found) if tick["nodes"] == point["nodes"]), ""),
        )
        for point in scaling["nodes"]
    ]
    head = (
        "nodes",
        f"images/s, {scaling['cameras']} cameras of {scaling['size']}, everything on as many cores",
        "efficiency against one node",
        "the same of processes that only draw",
        "a lockstep tick of 8 cameras of 180x120 beyond the slowest node's drawing, ms",
    )
    return _markdown(head, rows, _made("cluster-16-cores"))


def cluster_on_two_cores() -> str:
    """What the small machine of every day says: scaling, ticks, unequal nodes and blows."""
    found, unequal = _figures("cluster"), _figures("unequal")
    scaling, balance, kills = found["scaling"], found["balance"], found["kills"]
    two, blows = scaling["nodes"][1], {name: sorted(ticks) for name, ticks in kills["ticks"].items()}
    tiny = next(tick for tick in found["overhead"]["ticks"] if (tick["nodes"], tick["size"]) == (8, "16x16"))
    slow = [f"{handicap:g}" for handicap in balance["handicaps"]]
    rows: Rows = [
        (
            f"two nodes on two cores against one on one, {scaling['cameras']} cameras of {scaling['size']}",
            f"efficiency {two['efficiency']:.2f}; processes that only draw {two['drawing_efficiency']:.2f} (aim 0.9)",
        ),
        (
            "a lockstep tick of eight nodes, beyond the slowest node's drawing",
            f"{_number(tiny['overhead_ms'])} ms (aim 4)",
        ),
        (
            f"four nodes slowed down {', '.join(slow)} times: by measured cost against by turns",
            f"{balance['gain']:.2f} times as many images (aim {balance['aim']:g})",
        ),
        (
            "a node with a core of its own and two that share one: by measured cost against by turns",
            f"{unequal['gain']:.2f} times as many images (aim 1.2)",
        ),
        *(
            (
                f"from `{blow}` of a node to the last frame of that tick",
                f"{_number(ticks[len(ticks) // 2])} tick times in the median of {len(ticks)}, {_number(ticks[-1])} at worst"
                + (f" (aim {kills['aim_ticks']:g})" if blow == "kill -9" else ", which is the deadline"),
            )
            for blow, ticks in blows.items()
        ),
    ]
    return _markdown(("on two cores", ""), rows, _made("cluster", "unequal"))


def hosts() -> str:
    """How long a step takes over links of all kinds between hosts."""
    found = _figures("hosts")
    by_link: dict[str, dict[str, Any]] = {}
    for row in found["rows"]:
        by_link.setdefault(row["link"], {})[row["compress"]] = row
    names = {"wire": "as fast as the machine"}
    rows: Rows = [
        (
            names.get(link, link),
            *(f"{_number(ways[way]['step_ms_median'])} ms" for way in ("off", "auto")),
            *(_number(ways[way]["node_sent_bytes_per_tick"] / 1e6) for way in ("off", "auto")),
        )
        for link, ways in by_link.items()
    ]
    head = ("links of the nodes", "a step, `--compress off`", "`auto`", "MB sent by the nodes a tick, `off`", "`auto`")
    digests = len({row["digest"] for row in found["rows"]})
    same = "the same bytes in all rows" if digests == 1 else f"{digests} DIFFERENT digests"
    return _markdown(head, rows, f"{same}; {_made('hosts')}")


def _small_ticks(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [tick for tick in found["overhead"]["ticks"] if tick["size"] == "180x120"]


def soak() -> str:
    """What hours of coming and going do to a server's memory."""
    found = _figures("soak")
    rows: Rows = []
    for server_name in ("serve", "cluster"):
        soaked = found[server_name]
        for what, trend in soaked["trends"].items():
            if what.endswith(" memory_mib"):
                process = what.removesuffix(" memory_mib")
                memory = [sample["memory_mib"][process] for sample in soaked["samples"]]
                quarter = max(1, len(memory) // 4)
                first, last = (sorted(part)[len(part) // 2] for part in (memory[:quarter], memory[-quarter:]))
                rows.append(
                    (
                        f"{server_name}, {process}",
                        f"{first:.0f} MiB in the first quarter, {last:.0f} in the last",
                        "flat" if trend["is_flat"] else "**grows**",
                    )
                )
        visits = sum(soaked["visits"].values())
        rows.append(
            (server_name, f"{visits:,} visits, exit code {soaked['exit_code']}, {len(soaked['errors'])} errors in its log", "")
        )
    head = (f"{found['soak_s'] / 60:g} minutes, half for each", "memory", "second half")
    return _markdown(head, rows, _made("soak"))


def replays() -> str:
    """Recorded and played again."""
    found, rows = _figures("replays"), []
    for kind, words in (("variable", "runs, variable steps"), ("thread", "runs, controllers in threads")):
        runs = [run for run in found["runs"] if run["mode"] == kind]
        rows.append((f"{words}, {100.0 * found['load']:.0f} % load, collisions in all", *_same(runs, "inputs")))
    for way, words in (("sync", "sessions, synchronous"), ("async", "sessions, asynchronous")):
        rows.append((words, *_same([session for session in found["sessions"] if session["way"] == way], "frames")))
    return _markdown(("recorded", "how many", "replayed to the bit", "inputs or frames each", "file"), rows, _made("replays"))


def _same(recorded: list[dict[str, Any]], size: str) -> tuple[str, ...]:
    sizes, kilobytes = ([entry[key] for entry in recorded] for key in (size, "bytes"))
    return (
        str(len(recorded)),
        str(sum(entry["same"] for entry in recorded)),
        f"{min(sizes)} to {max(sizes)}",
        f"{min(kilobytes) // 1000} to {max(kilobytes) // 1000} kB",
    )


def stranger() -> str:
    """Minutes from a clone to what a newcomer wants to see."""
    found = _figures("stranger")
    rows: Rows = [(f"to {way}", f"{seconds / 60:.1f} minutes") for way, seconds in found["ways_s"].items()]
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in found["steps_s"].items())
    busy = f"on a machine that others kept busy: load average {found['load_average']:.0f} at the end; {_made('stranger')}"
    return _markdown(("from a clone", ""), [*rows, ("steps", steps)], busy)


def pythons() -> str:
    """The wheel in empty environments."""
    found = _figures("release")
    rows: Rows = []
    for python in found["pythons"]:
        if python.get("absent"):
            rows.append((python["python"], "was not at hand", "", ""))
            continue
        works = "yes" if python["works"] else "**no**"
        rows.append((python["full_version"], works, f"{python['install_s']:.0f} s", f"{python['demo_s']:.0f} s"))
    same = "equal bytes" if found["built"]["same"] else "**other bytes**"
    sizes = ", ".join(f"`{name}` {size / 1e6:.1f} MB" for name, size in found["built"]["bytes"].items())
    head = ("Python", "version, demo and analysis work", "pip install", "demo")
    return _markdown(head, rows, f"built twice: {same}, {sizes}; {_made('release')}")


def sizes() -> str:
    """What the base and each extra take on disk."""
    found = _figures("release")
    largest = ", ".join(f"{package['name']} {package['bytes'] / 1e6:.0f}" for package in found["base"][:6])
    total = sum(package["bytes"] for package in found["base"])
    rows: Rows = [("base", f"{total / 1e6:.0f}", f"{len(found['base'])} packages; the largest: {largest}")]
    for name, extra in sorted(found["extras"].items(), key=lambda pair: pair[1].get("bytes", 0)):
        if "failed" in extra:
            rows.append((f"`{name}`", "not installable there", ""))
            continue
        names = ", ".join(package["name"] for package in extra["packages"][:4])
        more = f" and {len(extra['packages']) - 4} more" if len(extra["packages"]) > 4 else ""
        rows.append((f"`{name}`", f"+ {extra['bytes'] / 1e6:.0f}", names + more))
    return _markdown(("extra", "MB on disk", "what it brings"), rows, _made("release"))


def licences() -> str:
    """What is installed under which licence, as packages declare it."""
    found = _figures("release")
    extras = {
        package["name"]: (package, name) for name, extra in found["extras"].items() for package in extra.get("packages", ())
    }
    known = {package["name"] for package in found["base"]}
    rows: Rows = [
        (package["name"], package["version"], package["licence"], "base") for package in sorted(found["base"], key=_by_name)
    ]
    others = sorted((pair for name, pair in extras.items() if name not in known), key=lambda pair: _by_name(pair[0]))
    rows += [(package["name"], package["version"], package["licence"], f"`{extra}`") for package, extra in others]
    return _markdown(("package", "version", "licence, as it declares it", "comes with"), rows, _made("release"))


def _by_name(package: Mapping[str, Any]) -> str:
    return str(package["name"]).lower()


def view() -> str:
    """How smoothly the viewer draws without a graphics card."""
    names = ("repeats", "actors", "ticks", "frames_per_s_2d", "frames_per_s_3d")
    rows = [tuple(str(row[name]) for name in names) for row in _figures("view")["sizes"]]
    head = ("outcomes", "actors", "ticks", "frames/s from above", "frames/s in three dimensions")
    return _markdown(head, rows, f"drawn by the processor, SwiftShader; {_made('view')}")


def towns() -> str:
    """Traffic in CARLA's towns."""
    found = _figures("towns")
    rows: Rows = [
        (
            name,
            str(drive["cars"]),
            f"{drive['cars_at_lights']}",
            f"{drive['lights_with_stops']} of {drive['lights']}",
            str(drive["collisions"]),
            str(len(drive["off_road"])),
            str(len(drive["overturned"])),
            str(len(drive["jammed"]) + len(drive["gone"])),
            f"{drive['driven_m'] / 1000:.1f} km",
        )
        for name, drive in found["maps"].items()
    ]
    head = ("map", "cars", "at a light", "lights with stop way-points", "seconds with a collision", "ever off the road")
    made = f"{found['seconds']:g} simulated seconds on each; {_made('towns')}"
    return _markdown((*head, "overturned", "jammed or taken out", "driven by each"), rows, made)


def compatibility() -> str:
    """Other people's programs against the server: what was run, of which version, with which command, and what came of it."""
    smoke, examples, scenic, gym = (_figures(name) for name in ("smoke", "examples", "scenic", "gym-carla"))
    files, clients = _figures("openscenario"), _figures("clients")
    simulated = Counter(found["result"] for found in scenic["examples"].values())
    played = Counter(found["result"] for found in files["files"].values())
    ran = sum(found["result"].startswith("ran") for found in examples["programs"].values())
    pauses = ", pauses of 5 s after loading are cut" if smoke["pauses_cut"] else ""
    rows: Rows = [
        (
            "CARLA's smoke tests",
            smoke["version"],
            "smoke",
            f"{smoke['passed']} of {len(smoke['tests'])} passed, on one server; other maps stand for CARLA's towns{pauses}",
        ),
        (
            "CARLA's examples and utilities",
            examples["version"],
            "examples",
            f"{ran} of {len(examples['programs'])} ran, {len(examples['not_run'])} were not run: [below](#carlas-examples)",
        ),
    ]
    for version, found in clients["clients"].items():
        name = f"{version}, Python {found['python']}; `--protocol {found['protocol']}`"
        rows.append(("CARLA's client", name, "clients", found["words"] if found["good"] else f"**failed**: {found['words']}"))
    rows += [
        (
            "Scenic's examples",
            scenic["version"],
            "scenic",
            f"of {simulated.total()} examples {simulated.total() - simulated['not run']} have a town that is at hand; of these "
            f"{simulated['simulated']} were sampled and simulated for {scenic['steps']} steps",
        ),
        ("gym-carla", gym["version"], "gym-carla", _gym(gym)),
        (
            "OpenSCENARIO files",
            files["version"],
            "openscenario",
            f"{played['played']} of {played.total()} played, {played['refused']} refused: [below](#openscenario-files)",
        ),
    ]
    told = [(who, version, f"`{' '.join(_command(name))}`", what) for who, version, name, what in rows]
    names = [name for _, _, name, _ in rows]
    return _markdown(("program", "version", "command", "result"), told, _made(*dict.fromkeys(names)))


def _gym(found: dict[str, Any]) -> str:
    alone, put_back = found["as it is"], found["put back"]
    told = f"stops by itself: `{alone['error']}`; with that attribute put back (see below) " if alone["error"] else ""
    return told + (
        f"`{put_back['error']}`"
        if put_back["error"]
        else "ran: " + "; ".join(one.partition(", {")[0] for one in put_back["episodes"])
    )


def _command(name: str) -> list[str]:
    command: list[str] = _result(name)["provenance"]["command"]
    return command


def examples() -> str:
    """CARLA's examples and utilities, one by one."""
    found = _figures("examples")
    # Without its folder: those with one are paths of ours in our docs.
    rows: Rows = [(f"`{name.partition('/')[2]}`", one["result"], one["did"] or "-") for name, one in found["programs"].items()]
    rows += [(f"`{name.partition('/')[2]}`", f"not run: {why}", "-") for name, why in found["not_run"].items()]
    return _markdown(("program", "result", "what it did"), rows, _made("examples"))


def openscenario() -> str:
    """OpenSCENARIO files, by whose they are."""
    rows: Rows = []
    for folder, name in (("scenario_runner", "ScenarioRunner's"), ("esmini", "esmini's examples (`resources`)")):
        files = {path: one for path, one in _figures("openscenario")["files"].items() if path.startswith(f"{folder}/")}
        counts = Counter(one["result"] for one in files.values())
        driven = Counter(one["driven"] for one in files.values() if "driven" in one)
        elements = Counter(_refused_element(one["why"]) for one in files.values() if one["result"] == "refused")
        told = ", ".join(f"{element} {count}" for element, count in elements.most_common())
        played = (str(counts["played"]), str(driven["the same bits twice"]), str(counts["refused"]), told)
        rows.append((name, str(len(files)), *played))
    return _markdown(("whose", "files", "played", "driven twice, the same bits", "refused", "at"), rows, _made("openscenario"))


def _refused_element(why: str) -> str:
    element = re.search(r"<(\w+)>", why)
    return f"`{element[1]}`" if element else "other"


def _how_same(told: str) -> str:
    """``2 scores; Not the same: 2 runs, ... The source is the script. First difference. ...``, in fewer words."""
    scores, parted, words = told.partition(" scores; ")
    if not parted:
        return told
    source = next((one for one in words.split(". ") if one.startswith("The source")), words)
    return f"{scores} scores. {source}." if scores != "1" else f"one score, but not the same calls. {source}."


def leaderboard() -> str:
    """Routes of the Leaderboard, and how often they were driven."""
    names = ["leaderboard-0.9.15", "leaderboard-0.9.16", "leaderboard-0.9.16-routes", "leaderboard-0.9.16-npc"]
    again = set(_figures(names[-1])["routes"])
    rows: Rows = []
    for name in names:
        found = _figures(name)
        for route, driven in found["routes"].items():
            if name in names[1:-1] and route in again:
                continue  # driven again since, with the same client
            same = f"{found['repeats']}: {_how_same(driven['same'])} ({driven['compared']})" if found["repeats"] > 1 else "1"
            where = (route, driven["town"], driven["scenario"], f"{found['carla']}, {found['python']}")
            if driven["result"] != "judged":
                rows.append((*where, driven["result"], "", "", same))
                continue
            told = driven["infractions"].replace("_", " ") + (
                "" if driven["status"] == "Completed" else f"; {driven['status']}"
            )
            rows.append((*where, driven["score"], driven["completed"], told, same))
    head = ("route", "town", "scenario", "carla, Python", "driving score", "route driven", "infractions", "runs")
    return _markdown(head, rows, _made(*names))


def pdm_lite() -> str:
    """Routes that the expert of carla_garage drove."""
    found = _figures("pdm-lite")
    rows: Rows = []
    for route, driven in found["routes"].items():
        same = f"{found['repeats']}: {_how_same(driven['same'])} ({driven['compared']})"
        told = driven["infractions"].replace("_", " ") or driven["result"]
        rows.append((route, driven["town"], driven["scenario"], driven["score"], driven["completed"], told, same))
    head = ("route", "town", "scenario", "driving score", "route driven", "infractions", "runs")
    return _markdown(head, rows, f"carla {found['carla']}, Python {found['python']}; {_made('pdm-lite')}")


def programs() -> str:
    """Other people's programs, three runs each."""
    found = _figures("programs")
    rows: Rows = []
    for name, told in found["programs"].items():
        verdict = _verdict_of_runs(told["same"]) or "-"
        rows.append((name, told["carla"], told["result"], told["proof"] or "-", verdict, told["motion"] or "-"))
    head = ("program", "carla", "result", "how far", f"{found['repeats']} runs", "positions")
    return _markdown(head, rows, _made("programs"))


def _verdict_of_runs(words: str) -> str:
    """The verdict of samepath twice in fewer words: no notes, no frames."""
    first = words.partition(" Note:")[0]
    if first.startswith("The same"):
        return first.rstrip(".")
    source, _, difference = first.partition("First difference. ")
    return f"{source.strip()} {difference.split('. ')[0]}".strip()


def tutorials() -> str:
    """The pages of CARLA's documentation, by what became of their blocks."""
    found = _figures("tutorials")
    rows: Rows = []
    for page, told in found["pages"].items():
        why = [line for line in told["why"] if not re.search(_OF_THE_PAGE, line)]
        own = len(told["why"]) - len(why)
        lines = "; ".join(f"{line.partition(': ')[0]}: `{line.partition(': ')[2][:120]}`" for line in why) or "-"
        rows.append((f"`{page}`", *(str(told[key]) for key in ("blocks", "ran", "endless")), str(own), lines))
    head = ("page", "blocks", "ran", "ran until Ctrl-C", "stop at names or syntax of the page", "other errors, by block")
    return _markdown(head, rows, _made("tutorials"))


# Errors that say nothing of a server: a name that the page never makes, a signature of the page's own, a file of the reader's.
_OF_THE_PAGE = r"^\d+: (?:NameError|SyntaxError|IndentationError|ArgumentError|FileNotFoundError|ModuleNotFoundError|TypeError)"


def scenario_runner_repeats() -> str:
    """One route of ScenarioRunner, many times."""
    found = _figures("scenario-runner-repeats")
    verdicts = ", ".join(f"{found['verdicts'].count(verdict)} x {verdict}" for verdict in sorted(set(found["verdicts"])))
    same = "the same to the bit" if found["same"] else found["words"]
    rows: Rows = [(found["route"], str(found["repeats"]), verdicts, f"{same} ({found['compared']})")]
    return _markdown(("route", "runs", "verdicts", "compared"), rows, _made("scenario-runner-repeats"))


def scenario_runner() -> str:
    """ScenarioRunner's own configurations."""
    rows: Rows = []
    for name, found in _figures("scenario-runner")["configurations"].items():
        told = {"judged": found["why"], "played": found["why"], "not run": f"not run: {found['why']}"}
        result = told.get(found["result"], f"{found['result']}: `{found['why']}`")
        rows.append(
            (f"`{name}`", result, found.get("failed", "") or "-", f"{found['game_s']} s" if found.get("game_s") else "-")
        )
    return _markdown(("configuration", "verdict", "criteria that failed", "played"), rows, _made("scenario-runner"))


def deadlock() -> str:
    """Ticks with a synchronous traffic manager of CARLA's client."""
    rows: Rows = []
    for vehicles, found in (*_figures("deadlock").items(), *_figures("deadlock-100").items()):
        hung = ", ".join(f"{ticks:,}" for ticks in found["ticks_until_hang"]) or "never"
        wanted = found["ticks_wanted"]
        made = f"{found['ticks']:,}" + (f" of {wanted:,} wanted" if found["ticks"] < wanted else "")
        respawned = f"{found['respawned']}; at least {found['fewest_vehicles']} were there"
        aborted = ", ".join(f"{ticks:,}" for ticks in found["ticks_until_abort"]) or "never"
        rate = _number(found["ticks_per_s"])
        who = (vehicles, str(found["beside_each_other"]))
        went = (hung, str(found["woken"]), aborted, respawned, rate)
        rows.append((*who, made, f"{found['ticks_in_one_go']:,}", *went))
    head = (
        "vehicles on autopilot", "servers at a time", "ticks", "of these in one go", "hung after", "woken",
        "the client aborted after", "vehicles put in for others", "ticks a second",
    )  # fmt: skip
    return _markdown(head, rows, _made("deadlock", "deadlock-100"))


def repeats() -> str:
    """Every scenario many times, each repeat in a process of its own."""
    rows: Rows = []
    for variant, found in _figures("repeats").items():
        most = max(len(outcomes) for outcomes in found["digests"].values())
        same = "yes" if found["same_everywhere"] else "**no**"
        counts = Counter(found["repeats"].values())
        each = ", ".join(f"{scenarios} scenarios {repeats:,} times" for repeats, scenarios in counts.most_common())
        rows.append((variant, each, str(most), same))
    head = ("variant", "run", "most outcomes of a scenario", "all as in the first row")
    return _markdown(head, rows, _made("repeats"))


def kills() -> str:
    """A study that is killed again and again."""
    found = _figures("kills")
    rows: Rows = [
        (
            f"`kill -9` at random moments of a study of {found['stored']} repeats, then a resume",
            str(found["kills"]),
        ),
        ("repeats lost or doubled", "none" if found["repeats_right"] else "**some**"),
        (
            "files of deterministic cells with the bytes of a study that nobody killed",
            f"{found['identical_files']} of {found['files']}",
        ),
        ("processes left behind", str(found["processes_left"])),
    ]
    return _markdown(("killed again and again", ""), rows, _made("kills"))


def fuzz() -> str:
    """Everything from outside, from grammars: how much was tried, and what came of it."""
    messages, nodes, files, maps = (_figures(name) for name in ("fuzz", "fuzz_node_messages", "fuzz_files", "fuzz_maps"))
    failures = [line for found in (nodes, files, maps) for line in found["failures"]]
    rows: Rows = [
        (
            "messages of clients",
            f"{messages['inputs']:,}",
            "",
            f"{messages['closed']:,} connections closed",
            f"{messages['clients_left']} clients left behind, memory {messages['growth_mib']:+.0f} MiB",
        ),
        (
            "messages of a node",
            f"{nodes['messages']:,}",
            f"{nodes['taken']:,}",
            f"{nodes['refused']:,}",
            f"{len(nodes['failures'])} failures, most of one: {nodes['most_bytes']:,} bytes, {nodes['most_calls']:,} calls",
        ),
        *(
            (
                kind,
                f"{files['files']:,}",
                f"{files[f'{kind}_read']:,}",
                f"{files[f'{kind}_refused']:,}",
                f"{sum(line.startswith(kind) for line in files['failures'])} failures",
            )
            for kind in ("recordings", "tables")
        ),
        (
            "maps (OpenDRIVE)",
            f"{maps['maps']:,}",
            f"{maps['taken']:,}",
            f"{maps['refused']:,}",
            f"{len(maps['failures'])} failures, most of one: {maps['slowest_s']:.1f} s of CPU",
        ),
    ]
    made = _made("fuzz", "fuzz_node_messages", "fuzz_files", "fuzz_maps")
    told = f"{made}; failed: {'; '.join(failures[:20])}" if failures else made
    return _markdown(("from a grammar", "tried", "taken", "refused in a line", "what came of it"), rows, told)


def hostile() -> str:
    """An honest client beside hostile messages, the server's memory, and SIGTERM."""
    found = _figures("hostile")

    def slowest_ms(attack: str, clock: str) -> str:
        calls = found[attack]["calls"].values()
        return " / ".join(f"{1e3 * max(call[f'{clock}_s'][share] for call in calls):.0f}" for share in ("p50", "p99", "max"))

    kinds = (("hostile", "hostile"), ("legal", "legal, but heavy"))
    rows: Rows = [
        (
            f"{found[attack]['messages']:,} {words} messages of {len(found[attack]['kinds'])} kinds",
            slowest_ms(attack, "attacked_processor"),
            slowest_ms(attack, "attacked_wall"),
            slowest_ms(attack, "quiet_wall"),
            f"{found[attack]['peak_growth_mib']:.0f} of {found['memory_mib']} MiB",
        )
        for attack, words in kinds
    ]
    columns = (
        "from four clients",
        "an honest client's slowest call: processor time of the server until its answer (median / p99 / most, ms)",
        "by the wall clock",
        "on a quiet server",
        "memory of `--memory-mib`",
    )
    load = f"other work kept the machine busy, load average {found['hostile']['load_average']:.0f}"
    ends = f"SIGTERM ended the server within {max(found['sigterm_s'].values()):.1f} s while any of these kinds came"
    return _markdown(columns, rows, f"{_made('hostile')}; {load}; {ends}")


def paper_script() -> str:
    """The script of the paper's authors, test by test."""
    found = _figures("paper-script")
    rows: Rows = []
    for case in found["tests"]:
        crash = ", with a crash" if case["crash"] else ""
        if "repeats" not in case:
            rows.append((f"{case['test']}{crash}", "", case["result"], "", ""))
            continue
        same = "all the same" if case["distinct"] == 1 else f"{case['distinct']} different"
        seconds = " and ".join(f"{float(value):g}" for value in case["seconds"])
        who = case["actors"].replace("0 cars, ", "").replace(", 0 people", "").replace("1 people", "1 person")
        rows.append((f"{case['test']}{crash}", who, case["result"], f"{seconds} s", f"{case['repeats']}, {same}"))
    head = ("test", "in it", "result", "simulated", "repeats in one session, to 1 mm")
    return _markdown(head, rows, f"carla {found['carla']}; {_made('paper-script')}")


def gpu_load() -> str:
    """What the study of GPU load found, cell by cell."""
    found = _figures("gpu-load")

    def share(value: float | None) -> str:
        return "-" if value is None else f"{100.0 * value:.0f} %"

    rows: Rows = [
        (
            str(cell["variant"]),
            " and ".join(f"{name.removesuffix('_load').upper()} {share(asked)}" for name, asked in cell["condition"].items()),
            f"{share(cell['cpu_load'])} / {share(cell['gpu_load'])}",
            str(cell["repeats"]),
            str(cell["outcomes"]),
            f"{cell['max_sigma_m']:.3g} m" if cell["max_sigma_m"] else "0",
            "-" if cell["draw_s_median"] is None else f"{1e3 * cell['draw_s_median']:.1f} ms",
        )
        for cell in found["cells"]
    ]
    head = ("variant", "asked", "measured, CPU / GPU", "repeats", "outcomes", "max sigma", "drawing, median")
    absent = "; ".join(f"{cell['name']}" for cell in found["missing"])
    words = "".join(f"- {line}\n" for line in found["ranks"])
    return f"{_markdown(head, rows, _made('gpu-load'))}\n{words}\nNot run there: {absent}.\n"


def cluster_simulation() -> str:
    """Schedules of whole clusters on virtual time, and how soon deliberate bugs are found."""
    found = _figures("cluster_simulation")
    mutations: dict[str, list[int | None]] = found["mutations"]
    tries = {name: [seed for seed in seeds if seed is not None] for name, seeds in mutations.items() if None not in seeds}
    ordered = sorted(tries, key=lambda name: (median(tries[name]), max(tries[name]), name))
    told = ", ".join(f"{name} {median(tries[name]):.0f} ({max(tries[name])})" for name in ordered)
    rows: Rows = [
        (
            "schedules played",
            f"{found['schedules']:,}: {found['ticks']:,} ticks, {found['events']:,} events, "
            f"{found['schedules_per_minute']:,} a minute",
        ),
        ("promises broken", str(found["violations"])),
        (
            "deliberate bugs found",
            f"{len(tries)} of {len(mutations)}; schedules until found, median of five starts (and the most): {told}",
        ),
    ]
    return _markdown(("whole clusters, simulated", ""), rows, _made("cluster_simulation"))


def traffic() -> str:
    """Traffic of our own: a full town, again and again."""
    found = _figures("traffic")
    alone, served = found["alone"], found["served"]
    nodes = " and ".join(str(run["nodes"]) for run in served)
    same = "one outcome" if len({run["digest"] for run in served}) == 1 else "several outcomes"
    rows: Rows = [
        ("processes, of them under load", f"{found['processes']}, {found['under_load']} (CPU {100 * found['cpu_load']:.0f} %)"),
        ("different outcomes", str(found["outcomes"])),
        ("touched, off the road", f"{alone['touched']}, {alone['off_road']}"),
        ("longest that anybody stood", f"{alone['stood_s']:.0f} s"),
        ("driven, leaves at junctions", f"{alone['driven_km']:.0f} km, {alone['junctions']:,}"),
        ("simulated time over one core's", f"{found['real_time_ratio']:.1f} ({found['ms_per_tick']:.1f} ms a tick)"),
        (f"served by {nodes} nodes, with cameras", same),
    ]
    head = (f"{found['vehicles']} cars, {found['walkers']} walkers, {found['seconds']} simulated s", "")
    return _markdown(head, rows, _made("traffic"))


def faults() -> str:
    """Clusters in many ways, then under faults: the bytes of one node."""
    return _faults("faults")


def faults_mixed() -> str:
    """Clusters whose nodes draw with a card and without, under faults."""
    return _faults("faults-mixed")


def _faults(name: str) -> str:
    found = _figures(name)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found["faults"].items()))
    rows: Rows = [
        (
            f"{found['trials']}, of which {found['equal']} equal",
            kinds,
            f"{found['frames']:,}",
            f"{found['reissued']:,}",
            f"{found['compared_states']:,}, {found['desynchronised']} differing",
        )
    ]
    head = (f"runs of {found['ticks']} ticks", "faults", "frames", "requests given again", "states of nodes compared")
    return _markdown(head, rows, _made(name))


def perception() -> str:
    """An ego that drives by what it sees, again and again, whoever draws it."""
    runs = _figures("perception")["runs"]
    scenarios = list(dict.fromkeys(name.partition(", ")[0] for name in runs))
    rows: Rows = []
    for scenario in scenarios:
        own = {name.partition(", ")[2]: run for name, run in runs.items() if name.partition(", ")[0] == scenario}
        outcomes = {outcome for run in own.values() for outcome in run["outcomes"]}
        rows.append(
            (
                f"`{scenario}`",
                ", ".join(f"{run['repeats']} {renderer}" for renderer, run in own.items()),
                str(len(outcomes)),
                f"{sum(run['frames'] for run in own.values()):,}",
                str(sum(run["collisions"] for run in own.values())),
            )
        )
    head = ("scenario", "repeats", "outcomes", "frames compared", "repeats with a collision")
    return _markdown(head, rows, _made("perception"))


def origins() -> str:
    """Every kept result: where it comes from, and with which command it is made."""
    rows: Rows = []
    for path in sorted(RESULTS.glob("*.json")):
        found = _result(path.stem)
        where, cpu, code = found["provenance"], found["provenance"]["cpu"], found["code"]
        by = f"{cpu['model']}, {cpu['cores_usable']} of {cpu['cores_logical']} cores"
        is_clean = "clean" if code["clean"] else "with changes"
        command = f"`{' '.join(where['command'])}`"
        rows.append((f"`{path.stem}`", where["date_utc"][:10], code["commit"][:9], is_clean, by, command))
    return _markdown(("result", "day", "commit", "tree", "machine", "command"), rows, f"{len(rows)} results")


def coverage() -> str:
    """How often each statement is wrong, in the worst world simulated."""
    found = _figures("coverage")
    rows: Rows = []
    for name, sentence in found["sentences"].items():
        mine = [row for row in found["rows"] if row["statement"] == name]
        drawn = [row for row in mine if row["studies"]]
        worst = max(drawn or mine, key=lambda row: row["simulated"])
        low, high = (_share(limit) for limit in worst["interval"])
        error = _share(worst["simulated"]) + (f" ({low} to {high})" if worst["studies"] else " (exact)")
        exact = [row["simulated"] for row in mine if not row["studies"]]
        searched = _share(max(exact)) if drawn and exact else ""
        before = max((row["before"] for row in mine if row["before"] is not None), default=None)
        rows.append(
            (
                sentence,
                str(len(mine)),
                _share(worst["promised"]),
                f"{error}: {worst['world']}",
                searched,
                "" if before is None else _share(before),
            )
        )
    head = ("statement", "worlds", "promised", "worst simulated (95 % interval)", "worst found by search", "uncorrected")
    return _markdown(head, rows, _made("coverage"))


def coverage_worlds() -> str:
    """The errors in the worlds that a reader would try first."""
    found = _figures("coverage")["rows"]
    rows: Rows = [
        (
            row["statement"],
            row["world"],
            f"{_share(row['simulated'])} ({_share(row['interval'][0])} to {_share(row['interval'][1])})",
            "" if row["before"] is None else _share(row["before"]),
        )
        for row in found
        if row["world"] in _WORLDS
    ]
    return _markdown(("statement", "world", "wrong (95 % interval)", "uncorrected"), rows, _made("coverage"))


_WORLDS: Final = (
    "10 % in each of 12 scenarios x 1 loads, 10 runs a cell",
    "5 % in each of 6 scenarios x 4 loads, 10 runs a cell",
    "2 % in each of 6 scenarios x 4 loads, 20 runs a cell",
    "three equal outcomes, 50 runs: upper bound",
    "ten equal outcomes, 100 runs: upper bound",
    "all 10 runs differ: upper bound",
    "until rate < 20 %, truth 15 %, 1 other outcome",
    "until rate < 30 %, truth 20 %, 1 other outcome",
    "normal, 10 repeats",
    "normal, 20 repeats",
    "uniform, 10 repeats",
    "Student's t, 3 degrees, 10 repeats",
    "log-uniform, 6 decades, 12 repeats",
)


def coverage_power() -> str:
    """In how many cells two real clusters are found."""
    found = _figures("coverage")["power"]
    worlds: dict[tuple[str, str], dict[str, str]] = {}
    for row in found:
        share, apart, repeats = row["world"].split(", ")
        worlds.setdefault((share, repeats), {})[apart] = _share(row["simulated"])
    columns = list(dict.fromkeys(row["world"].split(", ")[1] for row in found))
    rows: Rows = [(*key, *(cells[column] for column in columns)) for key, cells in worlds.items()]
    return _markdown(("second cluster", "repeats", *columns), rows, _made("coverage"))


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"


TABLES: Final[Mapping[str, Callable[[], str]]] = {
    writer.__name__: writer
    for writer in (
        instrument,
        world,
        isolation,
        overhead,
        server,
        cameras,
        lidar,
        gpu,
        gpu_load,
        faults,
        faults_mixed,
        perception,
        traffic,
        cluster_simulation,
        cluster_on_16_cores,
        cluster_on_two_cores,
        hosts,
        soak,
        replays,
        towns,
        compatibility,
        coverage,
        coverage_worlds,
        coverage_power,
        examples,
        openscenario,
        leaderboard,
        pdm_lite,
        programs,
        tutorials,
        scenario_runner,
        scenario_runner_repeats,
        paper_script,
        deadlock,
        repeats,
        kills,
        fuzz,
        hostile,
        view,
        stranger,
        pythons,
        sizes,
        licences,
        origins,
    )
}

if __name__ == "__main__":
    main()
