"""One table per published figure of the thesis: its numbers, and ours beside them."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, NamedTuple

from bench.thesis import published as p
from bench.thesis.plan import Resolution
from bench.thesis.records import MAIN
from bench.thesis.results import Repeats, Result, Series, ServerSeries

_SMALL, _LARGE = Resolution.of(p.SMALLEST), Resolution.of(p.LARGEST)
NONE = "-"


class Table(NamedTuple):
    """A table; ``figure`` is what it stands beside: the number of a figure, or a chapter."""

    figure: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables(result: Result) -> list[Table]:
    """All tables for which something was measured, in the order of the thesis."""
    makers = (
        _machines, _camera_times, _one_server, _servers, _each_server, _resolutions, _steps, _calls, _commands, _eight,
        _balance,
    )  # fmt: skip
    return [made for make in makers if (made := make(result)).rows]


def sentence(words: str) -> str:
    """Words with a capital and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def spread(values: Repeats | None, digits: int = 0) -> str:
    """The median of repeats, and from the least to the most where they differ as written."""
    if not values:
        return NONE
    middle, least, most = (f"{value:.{digits}f}" for value in (median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least}-{most})"


def _machines(result: Result) -> Table:
    rows = [(name, cpu, gpu, memory) for name, cpu, gpu, memory in p.SERVERS]
    rows += [(f"ours: {name}", words, "none: nodes draw on the processor", "") for name, words in result.layouts.items()]
    return Table(
        "8.1",
        "The machines",
        ("", "processor, or where it runs", "graphics card", "memory"),
        tuple(rows),
        sentence(result.traffic),
    )


def _kinds(result: Result) -> Iterable[tuple[str, str]]:
    present = {series.node_set.kind for series in result.of("lockstep")}
    return [
        (kind, words) for kind, words in (("equal", "one thread"), ("unequal", "the fastest of the unequal")) if kind in present
    ]


def _camera_times(result: Result) -> Table:
    rows = []
    for size in result.resolutions:
        alone = [result.find("lockstep", kind, 1, size) for kind, _ in _kinds(result)]  # type: ignore[arg-type]
        if any(alone):
            theirs = p.CAMERA_MS.get(str(size))
            cells = [spread(series.camera_ms if series else None, 2) for series in alone]
            rows.append((str(size), theirs.words if theirs else "11 to 14 ms", *cells))
    first = result.find("lockstep", "equal", 1, _SMALL)
    last = result.find("lockstep", "equal", 1, _LARGE)
    note = "Slope of the step time over the number of cameras, one node. Median of repeats, least and most in brackets."
    if first is not None and last is not None:
        ratio = median(last.camera_ms) / median(first.camera_ms)
        note += (
            f" From {p.SMALLEST} to {p.LARGEST} (64 times the pixels) a camera takes {p.SLOWDOWN.words} longer there and "
            f"{ratio:.1f} times as long here: a processor pays for pixels, a graphics card for the number of pictures."
        )
    columns = ("resolution", "thesis, ms a camera", *(f"ours: {words}, ms" for _, words in _kinds(result)))
    return Table("8.2", "What each added camera adds to a step", columns, tuple(rows), note)


def _one_server(result: Result) -> Table:
    rows = []
    for size in result.resolutions:
        theirs = p.ONE_SERVER_IMAGES_PER_S.get(str(size))
        row = [str(size), theirs.words if theirs else NONE, f"{p.ONE_SERVER_VEHICLES.words}"]
        found = False
        for kind, _ in _kinds(result):
            series = result.find("lockstep", kind, 1, size)  # type: ignore[arg-type]
            found = found or series is not None
            row += [spread(series.best_images_per_s) if series else NONE, _limit(series)]
        if found:
            rows.append(tuple(row))
    columns = ["resolution", "thesis: images/s, best", "vehicles at 10 frames/s"]
    for _, words in _kinds(result):
        columns += [f"ours, {words}: images/s, best", "vehicles at 10 frames/s"]
    note = 'One server. "40+": there were 10 frames a second still with as many vehicles as were tried.'
    return Table("8.3", "Images a second of one server", tuple(columns), tuple(rows), note)


def _limit(series: Series | None) -> str:
    if series is None:
        return NONE
    if series.limit is None:
        return "none"
    return f"{series.limit}+" if series.limit == series.vehicles[-1] else str(series.limit)


def _servers(result: Result) -> Table:
    rows = []
    for count in result.counts:
        theirs, full = p.SERVERS_IMAGES_PER_S.get(count), p.SATURATION_VEHICLES.get(count)
        row = [str(count), theirs.words if theirs else "in the picture only", full.words if full else NONE]
        found = False
        for kind, _ in _kinds(result):
            for size in (_SMALL, _LARGE):
                series = result.find("lockstep", kind, count, size)  # type: ignore[arg-type]
                found = found or series is not None
                row += [spread(series.best_images_per_s) if series else NONE, _saturation(series)]
        if found:
            rows.append(tuple(row))
    columns = ["nodes", f"thesis, {_SMALL}: images/s, best", "saturated at vehicles"]
    for kind, _ in _kinds(result):
        for size in (_SMALL, _LARGE):
            columns += [f"ours, {kind}, {size}: images/s, best", "saturated at vehicles"]
    note = (
        "Saturated: the first number of vehicles tried with 95 % of the largest throughput. Where every added vehicle still "
        'adds pictures, that is the last one tried, with a "+".'
    )
    return Table("8.4", "Images a second by number of servers", tuple(columns), tuple(rows), note)


def _saturation(series: Series | None) -> str:
    if series is None:
        return NONE
    return f"{series.saturation}{'+' if series.saturation == series.vehicles[-1] else ''}"


def _most(result: Result, kind: Any, size: Resolution) -> Series | None:  # noqa: ANN401 - a kind
    return next((series for count in reversed(result.counts) if (series := result.find("lockstep", kind, count, size))), None)


def _each_server(result: Result) -> Table:
    rows = []
    for size in (_SMALL, _LARGE):
        series = _most(result, "unequal", size) or _most(result, "equal", size)
        if series is None:
            continue
        for number, node in enumerate(series.nodes):
            theirs = p.CAMERAS_AT_LIMIT[str(size)]
            rates = [rate for rate in node.images_per_s if rate is not None]
            at_limit = [
                share for rate, frames in zip(node.images_per_s, series.middle("frames_per_s"), strict=True)
                if rate is not None and (share := rate / frames) and frames >= 10.0
            ]  # fmt: skip
            words = theirs[number] if number < len(theirs) else NONE
            rows.append((str(size), node.name, words, f"{max(rates, default=0.0):.0f}", f"{max(at_limit, default=0.0):.1f}"))
    note = (
        "With all nodes. In the thesis every server drew as many cameras as any other; here work goes where it is done "
        "soonest, so a slow node is given less and nobody waits for it. Cameras: those that the node drew in the last "
        "episode with 10 frames/s."
    )
    columns = ("resolution", "node", "thesis: cameras at 10 frames/s", "ours: images/s, best", "cameras at 10 frames/s")
    return Table("8.5, 8.6", "What each of unequal servers gives", columns, tuple(rows), note)


def _resolutions(result: Result) -> Table:
    rows = []
    for size in result.resolutions:
        found = [_most(result, kind, size) for kind, _ in _kinds(result)]
        if any(found):
            cells = [spread(series.best_images_per_s) if series else NONE for series in found]
            theirs = p.SERVERS_IMAGES_PER_S[4].words if size == _SMALL else "in the picture only"
            rows.append((str(size), theirs, *cells))
    columns = ("resolution", "thesis: images/s with four servers, best", *(f"ours, {kind}" for kind, _ in _kinds(result)))
    return Table("8.7", "All servers, by resolution", columns, tuple(rows), "With the largest number of nodes.")


def _steps(result: Result) -> Table:
    rows = []
    for size in (_SMALL, _LARGE):
        for kind, _ in _kinds(result):
            series = _most(result, kind, size)
            if series is not None:
                ends = [_pair(node.step_ms) for node in series.nodes]
                rows.append((str(size), str(series.node_set), f"{series.vehicles[0]} / {series.vehicles[-1]}", "; ".join(ends)))
    note = (
        f"Steps of the thesis' servers 3 and 4 rose to {p.UNRESPONSIVE_S.words}, and were left out of its figures; other "
        "numbers are not in the text."
    )
    columns = ("resolution", "nodes", "vehicles, fewest / most", "ours: step of each node, ms, fewest / most")
    return Table("8.8, 8.9", "Time of a step on each server", columns, tuple(rows), note)


def _pair(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    return f"{there[0]:.1f} / {there[-1]:.1f}" if there else NONE


def _calls(result: Result) -> Table:
    rows = []
    for size in (_SMALL, _LARGE):
        for mode in ("lockstep", "real time"):
            found = [series for series in result.of(mode, "equal") if series.resolution == size]  # type: ignore[arg-type]
            if not found:
                continue
            series = max(found, key=lambda series: series.node_set.nodes)
            nodes = [value for node in series.nodes for value in node.call_ms if value is not None]
            main = [value for server in series.servers if server.name == MAIN for value in server.call_ms if value is not None]
            worst = [value for server in series.servers for value in server.call_p99_ms if value is not None]
            through = [value for node in series.nodes for value in node.main_call_ms if value is not None]
            words = [f"{max(some):.2f}" if some else NONE for some in (nodes, main, worst, through)]
            rows.append(
                (f"{size}, {mode}, {series.node_set}", p.PING_MS[str(size)].words, words[0], p.PING_MAIN_MS.words, *words[1:])
            )
    note = (
        "A call that whoever is asked answers itself, mean of an episode, the highest over all numbers of vehicles. The "
        f"thesis: {p.PING_MOST_MS.words} everywhere. The last column is a call through a node that only the main server can "
        "answer, which it does between two "
        "steps: it waits for the step that is under way."
    )
    columns = (
        "", "thesis: highest of a rendering server", "ours, ms", "thesis: main server", "ours, ms",
        "ours: slowest hundredth, ms", "ours: answered by main, ms",
    )  # fmt: skip
    return Table("8.10, 8.11", "Latency of calls", columns, tuple(rows), note)


def _commands(result: Result) -> Table:
    rows = []
    for series in result.of("real time", "equal"):
        step_ms = 1e3 * float(result.plan["step_s"])
        for at, vehicles in enumerate(series.vehicles):
            main = [server for server in series.servers if server.name == MAIN]
            cells = [_command(servers, at, step_ms) for servers in (main, series.nodes)]
            if any(cell != NONE for cell in cells):
                rows.append((f"{series.node_set}, {series.resolution}, {vehicles} vehicles", *cells))
    note = (
        "From sending a command to the state that shows it, seen by a client of the same server: median, and the longest in "
        f"brackets. Steps of {1e3 * float(result.plan['step_s']):.0f} ms in real time. The thesis did not measure this; it "
        f"expects {p.COMMAND_STEPS.words}."
    )
    columns = ("real time", "ours: through the main server", "ours: through a node")
    return Table("chapter 9", "Latency of commands", columns, tuple(rows), note)


def _command(servers: Sequence[ServerSeries], at: int, step_ms: float) -> str:
    middles = [server.command_ms[at] for server in servers if server.command_ms[at] is not None]
    mosts = [value for server in servers if (value := server.command_most_ms[at]) is not None]
    if not middles:
        return NONE
    middle = median(value for value in middles if value is not None)
    return f"{middle:.0f} ms, {middle / step_ms:.1f} steps ({max(mosts):.0f} ms)"


def _eight(result: Result) -> Table:
    rows = []
    for size in sorted({trial.resolution for trial in result.eight}):
        best = result.eight_vehicles(size)
        nodes = next(trial.nodes for trial in result.eight if trial.resolution == size)
        vehicles = str(best.vehicles) if best else "none"
        rate = f"{best.received / best.due * best.vehicles * 80:.0f}" if best else NONE
        rows.append((str(size), "1 on one server, 2 on four", f"{vehicles} on {nodes} nodes, {result.cores} cores", rate))
    note = (
        "Ten pictures a second from each of eight cameras of every vehicle, in real time: at least 99 % of what was due came, "
        "and at most 1 % of it later than the next step. The number is found by halving, to an eighth of it."
    )
    columns = ("resolution", "thesis: vehicles with eight cameras", "ours", "images/s")
    return Table("chapter 9, eight cameras", "Vehicles with eight cameras in real time", columns, tuple(rows), note)


def _balance(result: Result) -> Table:
    rows = []
    for turns in result.of("lockstep", "by turns"):
        measured = result.find("lockstep", "unequal", turns.node_set.nodes, turns.resolution)
        if measured is not None:
            gain = median(measured.best_images_per_s) / median(turns.best_images_per_s)
            cells = (spread(turns.best_images_per_s), spread(measured.best_images_per_s), f"{gain:.2f}")
            rows.append((str(turns.resolution), str(turns.node_set.nodes), *cells))
    columns = ("resolution", "unequal nodes", "by turns, as in the thesis: images/s, best", "by measured cost", "times as many")
    note = "The thesis spread vehicles evenly over unequal servers, without load balancing, and asks for it in chapter 9."
    return Table("chapter 9, load balancing", "What sharing by measured cost gains", columns, tuple(rows), note)


def markdown(table: Table) -> str:
    """The table as Markdown."""
    place = f"Figure {table.figure}" if table.figure[0].isdigit() else table.figure.capitalize()
    head = f"### {place}: {table.title[0].lower()}{table.title[1:]}"
    lines = [head, "", "| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
    return "\n".join([*lines, "", table.note, ""])
