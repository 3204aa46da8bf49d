"""Traces that a program wrote into files: CSV with our marks, or a Parquet table with the marks in a file beside it."""

from collections.abc import Iterator
from pathlib import Path

from samepath.base.errors import InputError
from samepath.simulators.command.lines import ActorLine, ColumnMap, EndLine, EventLine, Item, LineReader, Row
from samepath.simulators.command.settings import CommandSettings
from samepath.simulators.processes.process import MAX_LINE_BYTES
from samepath.traces.importers.table import read_table


def items_of(settings: CommandSettings, output: Path, events: Path) -> Iterator[Item]:
    """Return what was written: rows in the order of time, whatever their order in the file, then the rest, then the end."""
    if not output.is_file():
        raise InputError(f"no file {output.name} was written")
    found = list(_parquet(settings, output) if settings.trace == "parquet" else _lines(settings, output))
    if events.is_file():
        found += [item for item in _lines(settings, events) if not isinstance(item, Row)]
    rows = [item for item in found if isinstance(item, Row)]
    by_tick = not settings.resample and all(row.moment.tick is not None for row in rows)
    rows.sort(key=lambda row: (row.moment.tick if by_tick else row.moment.time_s) or 0)
    yield from (item for item in found if isinstance(item, ActorLine))
    yield from rows
    yield from (item for item in found if isinstance(item, EventLine))
    yield from (item for item in found if isinstance(item, EndLine))


def _lines(settings: CommandSettings, path: Path) -> Iterator[Item]:
    reader = LineReader(settings.channels, settings.columns)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            try:
                item = reader.read(line)
            except InputError as error:
                raise InputError(f"{path.name}, line {number}: {error}") from error
            if item is not None:
                yield item


def _parquet(settings: CommandSettings, path: Path) -> Iterator[Row]:
    try:
        log = read_table(path)
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name)) from error
    columns = ColumnMap(log.names, settings.channels, settings.columns)
    wanted = {column.name for column in (*columns.keys.values(), *columns.channels.values())}
    names = [name for name in log.names if name in wanted]
    for number, values in enumerate(zip(*(log.table[name].to_pylist() for name in names), strict=True), start=1):
        try:
            yield columns.row(dict(zip(names, values, strict=True)))
        except InputError as error:
            raise InputError(f"{path.name}, row {number}: {error}") from error
