"""A file is the old one or the new one, whatever happens while it is written."""

import errno
import os
import socket
from pathlib import Path

import pytest

from samepath.core import files
from samepath.core.errors import InputError, StoreError
from samepath.core.files import SystemDisk, make_folder_durably, regular, write_atomically, write_bytes_atomically
from samepath.core.streams import stream
from tests.support.disk import FOLDER, SimulatedDisk

PATH = FOLDER / "file"
OLD, NEW = b"o" * 700, b"n" * 1800


def by_bytes(data, disk):
    write_bytes_atomically(PATH, data, disk=disk)


def by_callback(data, disk):
    def write(partial):
        handle = disk.create(partial)
        try:
            while data_left := data[len(disk.read(partial)) :]:
                disk.append(handle, data_left)
        finally:
            disk.close(handle)

    write_atomically(PATH, write, disk=disk)


@pytest.mark.parametrize("write", [by_bytes, by_callback])
def test_a_power_cut_leaves_the_old_file_or_the_new_one(write):
    disk, chance, found = SimulatedDisk(), stream(1, "cuts"), set()
    write(OLD, disk)

    def cut():
        for _ in range(50):
            found.add(disk.after_power_cut(chance).read(PATH))

    disk.before_each = cut
    write(NEW, disk)
    assert found == {OLD, NEW}
    assert disk.synced().read(PATH) == NEW


@pytest.mark.parametrize("write", [by_bytes, by_callback])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_is_told_and_leaves_one_whole_file(write, error):
    whole = SimulatedDisk()
    write(OLD, whole)
    before = whole.operations
    write(NEW, whole)
    told = 0
    for operation in range(before + 1, whole.operations + 1):
        disk = SimulatedDisk()
        write(OLD, disk)
        disk.faults = {operation: error}
        try:
            write(NEW, disk)
        except StoreError as said:
            told += 1
            assert ("nothing there was changed" in str(said)) == (disk.read(PATH) == OLD)
        assert disk.read(PATH) in (OLD, NEW)
        assert disk.names(FOLDER) == ["file"]
        assert disk.open_handles == 0
    assert told > 2


def test_what_another_process_of_this_number_left_behind_is_written_over(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "getpid", lambda: 7)
    (tmp_path / ".file.7.partial").write_bytes(b"left behind")
    write_bytes_atomically(tmp_path / "file", NEW)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == NEW


def test_a_folder_is_made_with_its_parents_and_each_name_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(SystemDisk, "sync_folder", lambda self, folder: synced.append(folder))
    make_folder_durably(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    make_folder_durably(tmp_path / "a" / "b" / "c")
    assert len(synced) == 3


def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(tmp_path, monkeypatch):
    def refused(handle):
        raise OSError(refused.number, "no")

    monkeypatch.setattr(files.os, "fsync", refused)
    refused.number = errno.EINVAL
    SystemDisk().sync_folder(tmp_path)
    refused.number = errno.EIO
    with pytest.raises(OSError, match="no"):
        SystemDisk().sync_folder(tmp_path)


def test_what_has_no_end_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, kind in (
            ("pipe", "a named pipe"),
            ("link", "a named pipe"),
            ("socket", "a socket"),
            ("/dev/zero", "a device"),
        ):
            with pytest.raises(InputError, match=f"^{name}: expected a regular file, got {kind}: save its content to a file"):
                regular(Path(name))


def test_files_and_what_opening_refuses_with_a_reason_are_left_to_it(tmp_path):
    for path in (tmp_path, tmp_path / "missing", Path(__file__), Path("x" * 300), Path("a\0b")):
        assert regular(path) == path
