"""The table of methods: for each name of CARLA's protocol how its arguments are read, who answers and in which shape."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from samepath.core.errors import SamepathError
from samepath.simulator.carla import codec
from samepath.simulator.carla.codec import NOT_SUPPORTED, Reader

Handler = TypeVar("Handler", bound=Callable[..., Any])

VALUE, VOID, BARE = "value", "void", "bare"


@dataclass(frozen=True)
class Method:
    """One method.

    ``quick`` ones need only what the episode has published: they may be answered while the world is busy. ``aside`` ones need
    no world but may take long (files, maps): they are answered by a thread beside it. ``missing`` says why a method is not
    supported; then there is no handler. ``idle`` says why a handler does nothing, or always answers the same, on purpose:
    clients must be able to make the call, but in this simulator there is nothing that it could change.
    """

    name: str
    readers: tuple[Reader[Any], ...] = ()
    handler: Callable[..., Any] | None = None
    shape: str = VALUE
    quick: bool = False
    aside: bool = False
    missing: str = ""
    idle: str = ""

    def read(self, arguments: list[Any]) -> tuple[Any, ...]:
        """Check the arguments of a call."""
        if len(arguments) != len(self.readers):
            raise codec.WireError(f"{self.name} takes {len(self.readers)} arguments, but {len(arguments)} came")
        try:
            return tuple([reader(argument) for reader, argument in zip(self.readers, arguments, strict=True)])
        except codec.WireError as error:
            raise codec.WireError(f"{self.name}: {error}") from None

    def result(self, value: object) -> bytes:
        """Pack what the handler returned."""
        if self.shape == VOID:
            return codec.void_result()
        return codec.pack(value) if self.shape == BARE else codec.value_result(value)

    def error(self, message: str) -> bytes:
        """Pack an error in the shape of this method."""
        return codec.void_error(message) if self.shape == VOID else codec.value_error(message)

    def run(self, host: object, arguments: tuple[Any, ...], report: Callable[[str], None]) -> bytes:
        """Run the handler and return the packed result; an error of ours is reported and does not stop the server."""
        error, result = self.attempt(host, arguments, report, self.result)
        return result if error is None else self.error(error)

    def attempt(
        self, host: object, arguments: tuple[Any, ...], report: Callable[[str], None], pack: Callable[[object], bytes]
    ) -> tuple[str | None, bytes]:
        """Run the handler; gives what went wrong, or nothing and the result packed as told."""
        if self.handler is None:
            return f"{NOT_SUPPORTED}: {self.name}: {self.missing}", b""
        try:
            return None, pack(self.handler(host, *arguments))
        except SamepathError as error:
            return str(error), b""
        except Exception as error:
            report(f"error of ours in {self.name}: {type(error).__name__}: {error}")
            return f"internal error of samepath in {self.name}: {type(error).__name__}: {error}", b""


@dataclass
class Table:
    """Methods by name; filled by decorators where the handlers are."""

    methods: dict[str, Method] = field(default_factory=dict)

    def _add(self, method: Method) -> None:
        if method.name in self.methods:
            raise ValueError(f"method {method.name} is there twice")
        self.methods[method.name] = method

    def value(self, *readers: Reader[Any], quick: bool = False, idle: str = "") -> Callable[[Handler], Handler]:
        """A method that answers with a value; its name is the handler's."""
        return self._decorator(Method("", readers, shape=VALUE, quick=quick, idle=idle))

    def void(self, *readers: Reader[Any], idle: str = "") -> Callable[[Handler], Handler]:
        """A method that answers that it was done."""
        return self._decorator(Method("", readers, shape=VOID, idle=idle))

    def bare(self, *readers: Reader[Any]) -> Callable[[Handler], Handler]:
        """A method whose answer is not wrapped."""
        return self._decorator(Method("", readers, shape=BARE))

    def aside(self, *readers: Reader[Any], shape: str = VALUE) -> Callable[[Handler], Handler]:
        """A method that needs no world but may take long."""
        return self._decorator(Method("", readers, shape=shape, aside=True))

    def _decorator(self, method: Method) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self._add(replace(method, name=handler.__name__, handler=handler))
            return handler

        return add

    def missing(self, why: str, shape: str, names: Iterable[str]) -> None:
        """Methods that are not supported, and why; any number of arguments is taken."""
        for name in names:
            self._add(Method(name, shape=shape, quick=True, missing=why))

    def __iter__(self) -> Iterator[Method]:
        return iter(self.methods.values())
