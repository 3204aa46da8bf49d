"""The table of methods: for each name of CARLA's protocol how its arguments are read, who answers and in which shape."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from samepath.core.errors import SamepathError
from samepath.simulator.carla import codec
from samepath.simulator.carla.codec import NOT_SUPPORTED, LargeArguments, Reader

if TYPE_CHECKING:
    from samepath.simulator.server.rpc import Sender

Handler = TypeVar("Handler", bound=Callable[..., Any])

VALUE, VOID, BARE = "value", "void", "bare"


@dataclass(frozen=True)
class Method:
    """One method.

    ``quick`` ones need only what the episode has published: they may be answered while the world is busy. ``aside`` ones need
    no world but may take long (files, maps): they are answered by a thread beside it. ``missing`` says why a method is not
    supported; then there is no handler. ``idle`` says why a handler does nothing, or always answers the same, on purpose:
    clients must be able to make the call, but in this simulator there is nothing that it could change.

    ``reads``: the handler changes nothing, so that an error of ours in it is answered like any other and the server goes on.
    Where a handler may have changed half of what it should, it must not, see :meth:`words`. ``sender``: the handler is told
    who calls, behind the episode.
    """

    name: str
    readers: tuple[Reader[Any], ...] = ()
    handler: Callable[..., Any] | None = None
    shape: str = VALUE
    quick: bool = False
    aside: bool = False
    missing: str = ""
    idle: str = ""
    reads: bool = False
    sender: bool = False

    def read(self, arguments: list[Any] | LargeArguments) -> tuple[Any, ...]:
        """Check the arguments of a call: their number before anything is made of them."""
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

    def call(self, host: object, sender: "Sender", arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - any answer
        """Call the handler. ``host`` is the episode, or what a rendering node knows of it."""
        if self.handler is None:
            raise codec.CallError(f"{NOT_SUPPORTED}: {self.name}: {self.missing}")
        return self.handler(host, sender, *arguments) if self.sender else self.handler(host, *arguments)

    def run(self, host: object, sender: "Sender", arguments: tuple[Any, ...], report: Callable[[str], None]) -> bytes:
        """Call the handler and return the packed result, or the packed error; what is no answer is raised."""
        try:
            return self.result(self.call(host, sender, arguments))
        except Exception as error:
            return self.error(self.words(error, report))

    def words(self, error: Exception, report: Callable[[str], None]) -> str:
        """What a client is told of an error in the handler; one that must not be answered is raised again.

        What a client did wrong is an answer to that client. Anything else is an error of ours. One in a method that only reads
        is reported and answered. One in a method that changes the world has left it half changed, and what follows from that
        would be wrong without a sign: it is raised, and whoever runs the episode stops (see ``commands.py``). So is the end of
        memory, and what is no ``Exception``, such as a panic of the physics.
        """
        if isinstance(error, SamepathError):
            return str(error)
        if not self.reads or isinstance(error, MemoryError):
            raise error
        report(f"error of ours in {self.name}: {type(error).__name__}: {error}")
        return f"internal error of samepath in {self.name}: {type(error).__name__}: {error}"


@dataclass
class Table:
    """Methods by name; filled by decorators where the handlers are."""

    methods: dict[str, Method] = field(default_factory=dict)

    def _add(self, method: Method) -> None:
        if method.name in self.methods:
            raise ValueError(f"method {method.name} is there twice")
        self.methods[method.name] = method

    def query(
        self, *readers: Reader[Any], quick: bool = False, sender: bool = False, idle: str = ""
    ) -> Callable[[Handler], Handler]:
        """A method that changes nothing and answers with a value; its name is the handler's."""
        return self._decorator(Method("", readers, shape=VALUE, quick=quick, idle=idle, reads=True, sender=sender))

    def value(self, *readers: Reader[Any], sender: bool = False, idle: str = "") -> Callable[[Handler], Handler]:
        """A method that changes something and answers with a value."""
        return self._decorator(Method("", readers, shape=VALUE, idle=idle, sender=sender))

    def void(self, *readers: Reader[Any], sender: bool = False, idle: str = "") -> Callable[[Handler], Handler]:
        """A method that changes something and answers that it was done."""
        return self._decorator(Method("", readers, shape=VOID, idle=idle, sender=sender))

    def bare(self, *readers: Reader[Any], sender: bool = False) -> Callable[[Handler], Handler]:
        """A method whose answer is not wrapped."""
        return self._decorator(Method("", readers, shape=BARE, sender=sender))

    def aside(self, *readers: Reader[Any], shape: str = VALUE) -> Callable[[Handler], Handler]:
        """A method that needs no world but may take long. What it returns may be a command to be applied to the world."""
        return self._decorator(Method("", readers, shape=shape, aside=True, reads=True))

    def _decorator(self, method: Method) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            self._add(replace(method, name=handler.__name__, handler=handler))
            return handler

        return add

    def missing(self, why: str, shape: str, names: Iterable[str]) -> None:
        """Methods that are not supported, and why; any number of arguments is taken."""
        for name in names:
            self._add(Method(name, shape=shape, quick=True, missing=why, reads=True))

    def __iter__(self) -> Iterator[Method]:
        return iter(self.methods.values())
