"""Compiling for a pinned processor, so that another machine gives the very same bytes.

numba compiles for the processor it runs on. Its arithmetic is strict (no fast-math, no fusing of products with sums), so the
bits should not depend on that; here it is made certain: functions marked here are built by a target of our own, for a fixed
instruction set without fused multiply-add. A fused a * b + c rounds once instead of twice and gives another last bit, which a
comparison of depths then turns into another pixel. The user's own use of numba in the same process is not touched.

Compiled code is kept on disk, in a folder named after the content of all sources it is made of, numba's version and the
instruction set. Each function is kept by itself, so that a build that was interrupted goes on where it ended; of processes
that need a function at once, one builds it and the others wait. A folder that belongs to root or to the user is read even
where nothing can be written. What cannot be kept is built anew by every process. ``sensors/building.py`` builds everything
ahead. Nothing may be allocated inside compiled functions: hand arrays in. ``NUMBA_DISABLE_JIT`` and ``NUMBA_BOUNDSCHECK`` work
as usual.
"""

import fcntl
import hashlib
import inspect
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
from llvmlite import binding
from numba.core import caching, codegen, config, cpu, dispatcher, registry, target_extension
from numba.core.compiler_lock import global_compiler_lock
from numba.core.utils import threadsafe_cached_property

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError

LOG: Final = logging.getLogger("samepath.sensors")
CPU_VARIABLE: Final = "SAMEPATH_RENDER_CPU"
CACHE_VARIABLE: Final = "SAMEPATH_CACHE_DIR"
# Levels of x86-64 and what they need. Neither may fuse; both give the same bytes, the first is for processors before 2013.
LEVELS: Final = {"x86-64": (), "x86-64-v3": ("avx2", "bmi", "bmi2", "lzcnt", "movbe")}
_NO_FUSING: Final = "-fma,-fma4,-avx512f"
_NAME: Final = "samepath-pinned-cpu"
_LOADING_S: Final = 1.0

Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def cpu_name() -> str:
    """The instruction set to build for: the highest level this machine has, or the one asked for in the environment."""
    able = binding.get_host_cpu_features()
    found = [name for name, needs in LEVELS.items() if all(able.get(need, False) for need in needs)]
    asked = os.environ.get(CPU_VARIABLE)
    if asked is None:
        return found[-1]
    if asked not in found:
        raise InputError(f"{CPU_VARIABLE}: one of {', '.join(found)} was wanted, but {asked!r} came")
    return asked


class PinnedCpu(target_extension.CPU):  # type: ignore[misc]
    """numba's CPU, built for a fixed instruction set."""


class _Codegen(codegen.JITCPUCodegen):  # type: ignore[misc]
    def _get_host_cpu_name(self) -> str:
        return cpu_name()

    def _get_host_cpu_features(self) -> str:
        return _NO_FUSING


class _Context(cpu.CPUContext):  # type: ignore[misc]
    def init(self) -> None:
        super().init()
        self._internal_codegen = _Codegen("samepath.exec")


class _Target(registry.CPUTarget):  # type: ignore[misc]
    @threadsafe_cached_property  # type: ignore[untyped-decorator]
    def _toplevel_target_context(self) -> _Context:
        return _Context(self.typing_context, self._target_name)


target_extension.target_registry[_NAME] = PinnedCpu


@cache
def _sources(folder: Path) -> str:
    """A name for the content of a folder's sources and of our own; constants of one module live in code of another."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{numba.__version__} {cpu_name()} {_NO_FUSING} {config.BOUNDSCHECK}".encode())
    # renderer.py lies outside of this folder, but its numbers (near plane, materials) are compiled in.
    ours = Path(__file__).parent
    for path in sorted({*ours.glob("*.py"), *folder.glob("*.py"), ours.parent / "renderer.py"}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def cache_folder(folder: Path) -> Path | None:
    """Where compiled code of a folder's sources is kept; None where it cannot be: then every process builds it.

    Code is loaded and run from here. So the folder must belong to this user or to root, and nobody else may write to it.
    """
    base = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        place = Path(base).expanduser() / "samepath" / f"{folder.name}-{_sources(folder)}"
        if not place.is_dir():
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = place.stat()
    except (OSError, RuntimeError):
        return None
    is_trusted = found.st_uid in (0, os.getuid()) and not found.st_mode & 0o022
    # An empty folder that cannot be written to is of no use.
    return place if is_trusted and (os.access(place, os.W_OK) or any(place.glob("*.nbi"))) else None


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_folder(Path(self._py_file).parent))

    def ensure_cache_path(self) -> None:
        """Not numba's check that the folder can be written to: code may have been built for a read-only installation."""

    def get_source_stamp(self) -> str:
        return _sources(Path(self._py_file).parent)


class _CacheImplementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class BuildProgress:
    """Logs what is built, and every ``EVERY_S`` how long that has taken so far. Of all threads, one builds at a time."""

    EVERY_S: Final = 10.0

    def __init__(self) -> None:
        self.log: Callable[[str], None] = lambda line: LOG.warning("samepath: %s", line)
        self.has_built = False
        self._has_waited = False
        self._start_s = 0.0
        self._done: threading.Event | None = None

    def begin(self, name: str, place: Path | None) -> None:
        """A function is not on disk, or cannot be there: it is built now."""
        if not self.has_built:
            self.has_built, self._start_s = True, SYSTEM_CLOCK.monotonic_s()
            kept = f"kept in {place.parent}" if place else "not kept: no folder can be written, SAMEPATH_CACHE_DIR names one"
            self.log(f"building the code of sensors for {cpu_name()}, once on this machine, about a minute; {kept}")
        if self._done is None:
            self._done = threading.Event()
            threading.Thread(target=self._tell, args=(name, self._done), name="samepath progress", daemon=True).start()

    def _tell(self, name: str, done: threading.Event) -> None:
        while not done.wait(self.EVERY_S):
            self.log(f"building the code of sensors: {name}, {SYSTEM_CLOCK.monotonic_s() - self._start_s:.0f} s so far")

    def end(self) -> None:
        """The function is there, or could not be built."""
        if self._done is not None:
            self._done.set()
            self._done = None

    def wait(self) -> None:
        """Another process builds."""
        if not self._has_waited:
            self._has_waited = True
            self.log("another process builds the code of sensors: waiting for it")


PROGRESS: Final = BuildProgress()


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImplementation

    def load_overload(self, signature: object, context: object) -> object:
        name = self._py_func.__name__
        try:
            found = super().load_overload(signature, context)
        except Exception as error:  # a file that a power cut has left half: what reading it raises depends on where it ends
            PROGRESS.log(f"the code of {name} in {self._cache_path} cannot be read ({type(error).__name__}): it is built again")
            found = None
            with suppress(OSError):
                self.flush()
        if found is None:
            PROGRESS.begin(name, Path(self._cache_path))
        return found

    def save_overload(self, signature: object, data: object) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:  # a full disk, or a folder that can only be read: the code is there for this process
            why = f"cannot be kept in {self._cache_path} ({error.strerror})"
            PROGRESS.log(f"the code of {self._py_func.__name__} {why}: every process builds it")


class _NoCache(caching.NullCache):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self._function = name

    def load_overload(self, signature: object, context: object) -> None:
        PROGRESS.begin(self._function, None)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a file as the only process to do so; where files cannot be held, go on without."""
    try:
        file = path.open("ab")
    except OSError:
        yield
        return
    with file:
        with suppress(OSError):
            if not _hold_soon(file.fileno()):
                PROGRESS.wait()
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _hold_soon(file: int) -> bool:
    """Hold a file, unless another process does so for longer than it takes to load code."""
    until_s = SYSTEM_CLOCK.monotonic_s() + _LOADING_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if SYSTEM_CLOCK.monotonic_s() > until_s:
                return False
            SYSTEM_CLOCK.sleep_s(0.01)
        else:
            return True


class _Dispatcher(dispatcher.Dispatcher):
    targetdescr = _Target(_NAME)
    _building = False

    def compile(self, sig: object) -> Callable[..., Any]:
        """Build, or load what was built. One process at a time: two that keep their first code at once would mix it up."""
        with global_compiler_lock:
            if self._building or not isinstance(self._cache, _Cache | _NoCache):
                return super().compile(sig)
            self._building = True
            try:
                if isinstance(self._cache, _NoCache):
                    return super().compile(sig)
                with _alone(Path(self._cache.cache_path) / f"{self.py_func.__name__}.lock"):
                    return super().compile(sig)
            finally:
                self._building = False
                PROGRESS.end()

    def enable_caching(self) -> None:
        kept = cache_folder(Path(inspect.getfile(self.py_func)).parent) is not None
        self._cache = _Cache(self.py_func) if kept else _NoCache(self.py_func.__name__)


def _jit(*_: object, **options: Any) -> Callable[[Function], Any]:  # noqa: ANN401 - numba's own options
    """What numba builds its own parts with when our code uses them."""
    kept = {name: value for name, value in options.items() if name not in {"cache", "target"}}
    return lambda function: _Dispatcher(py_func=function, targetoptions={"nopython": True, "boundscheck": None, **kept})


target_extension.dispatcher_registry[PinnedCpu] = _Dispatcher
target_extension.jit_registry[PinnedCpu] = _jit


def compiled(function: Function) -> Function:
    """Build a function for use inside others, which take it in whole: a call that hands over a dozen arrays is not cheap."""
    return _built(function, inline=True)


def compiled_apart(function: Function) -> Function:
    """Build a large function for use inside others, once."""
    return _built(function)


def compiled_entry(function: Function) -> Function:
    """Build a function that Python calls: it releases the interpreter's lock and is kept on disk."""
    return _built(function, entry=True)


def _built(function: Function, *, entry: bool = False, inline: bool = False) -> Function:
    if config.DISABLE_JIT:
        return function
    options = {
        "nopython": True,
        "nogil": entry,
        "boundscheck": None,
        "error_model": "numpy",
        "forceinline": inline,
        # Nothing is allocated inside: counting references to arrays would cost more than drawing.
        "_nrt": False,
    }
    made: Any = _Dispatcher(py_func=function, targetoptions=options)
    if entry:
        made.enable_caching()
    typed: Function = made
    return typed
