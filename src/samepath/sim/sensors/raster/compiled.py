"""Compiling for a pinned processor, so that another machine gives the very same bytes.

numba compiles for the processor it runs on. Its arithmetic is strict (no fast-math, no fusing of products with sums), so the
bits should not depend on that; here it is made certain: functions marked :func:`compiled` are built by a target of our own, for
a fixed instruction set without fused multiply-add. The user's own use of numba in the same process is not touched.

Compiled code is kept on disk, in a folder named after the content of all sources, numba's version and the instruction set.
"""

import hashlib
import logging
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numba
from llvmlite import binding
from numba.core import caching, codegen, config, cpu, dispatcher, registry, target_extension
from numba.core.utils import threadsafe_cached_property

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import InputError

LOG: Final = logging.getLogger("samepath.sensors")
CPU_VARIABLE: Final = "SAMEPATH_RENDER_CPU"
CACHE_VARIABLE: Final = "SAMEPATH_CACHE_DIR"
# Levels of x86-64 and what they need. Neither may fuse; both give the same bytes, the first is for processors before 2013.
LEVELS: Final = {"x86-64": (), "x86-64-v3": ("avx2", "bmi", "bmi2", "lzcnt", "movbe")}
_NO_FUSING: Final = "-fma,-fma4,-avx512f"

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


_NAME: Final = "samepath-pinned-cpu"
target_extension.target_registry[_NAME] = PinnedCpu


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


@cache
def _sources() -> str:
    """A name for the content of all sources that compiled code is made of; constants of one module live in code of another."""
    digest = hashlib.blake2b(digest_size=12)
    digest.update(f"{numba.__version__} {cpu_name()} {_NO_FUSING} {config.BOUNDSCHECK}".encode())
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        if "compiled" in path.read_text("utf-8"):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def cache_folder() -> Path | None:
    """Where compiled code is kept; None where nothing can be written, then it is built anew in every process."""
    base = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(base).expanduser() / "samepath" / f"render-{_sources()}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Code is loaded from here: the folder must be our own.
        if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK):
            return None
    except (OSError, RuntimeError):
        return None
    return folder


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any], path: str) -> None:
        self._py_file = path
        self._lineno = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        return _sources()


class _CacheImplementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    _impl_class = _CacheImplementation


class _Announced:
    """Says in the log when code has to be built, once, since that takes a while."""

    def __init__(self) -> None:
        self.said = False

    def start(self) -> float:
        if not self.said:
            self.said = True
            place = cache_folder()
            kept = f"kept in {place}" if place else "not kept: no folder can be written"
            LOG.warning("samepath: building the renderer for %s on first use, about half a minute (%s)", cpu_name(), kept)
        return SYSTEM_CLOCK.monotonic_s()


_ANNOUNCED: Final = _Announced()


class _Dispatcher(dispatcher.Dispatcher):  # type: ignore[misc]
    targetdescr = _Target(_NAME)
    entry = False

    def enable_caching(self) -> None:
        self.entry = True
        if cache_folder() is not None:
            self._cache = _Cache(self.py_func)

    def _compile_for_args(self, *args: object, **keywords: object) -> object:
        # Called once per signature of a function that Python calls; code on disk is found without building.
        before = sum(self.stats.cache_hits.values())
        start_s = SYSTEM_CLOCK.monotonic_s()
        result = super()._compile_for_args(*args, **keywords)
        if sum(self.stats.cache_hits.values()) == before:
            LOG.info("samepath: built %s in %.1f s", self.__name__, SYSTEM_CLOCK.monotonic_s() - start_s)
        return result

    def compile(self, signature: object) -> object:
        if self.entry and not self._cache_has(signature):
            _ANNOUNCED.start()
        return super().compile(signature)

    def _cache_has(self, signature: object) -> bool:
        del signature
        return cache_folder() is not None and any(cache_folder().glob(f"*{self.__name__}-*.nbc"))  # type: ignore[union-attr]


def _jit(*_: object, **options: Any) -> Callable[[Function], Function]:  # noqa: ANN401 - numba's own options
    """What numba builds its own parts with when our code uses them."""
    kept = {name: value for name, value in options.items() if name not in {"cache", "target"}}
    return lambda function: _Dispatcher(py_func=function, targetoptions={"nopython": True, "boundscheck": None, **kept})


target_extension.dispatcher_registry[PinnedCpu] = _Dispatcher
target_extension.jit_registry[PinnedCpu] = _jit


def compiled(function: Function) -> Function:
    """Build a function on first use, for use inside others."""
    return _built(function, entry=False)


def compiled_entry(function: Function) -> Function:
    """Build a function that Python calls: it releases the interpreter's lock and is kept on disk."""
    return _built(function, entry=True)


def _built(function: Function, *, entry: bool) -> Function:
    if config.DISABLE_JIT:
        return function
    options = {"nopython": True, "nogil": entry, "boundscheck": None, "error_model": "numpy", "forceinline": not entry}
    made: Any = _Dispatcher(py_func=function, targetoptions=options)
    if entry:
        made.enable_caching()
    typed: Function = made
    return typed
