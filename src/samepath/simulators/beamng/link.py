"""The connection to BeamNG.tech, through BeamNGpy: its errors become one line of ours, and every wait has an end."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from samepath.base.errors import SimulatorError
from samepath.base.words import printable
from samepath.simulators.beamng.process import NAME, started
from samepath.simulators.beamng.settings import BeamNGSettings

_LONGEST_WORDS: Final = 200
# A connection ends before the process does that held it.
_MOMENT_S: Final = 2.0


class Link:
    """A client that is connected; :attr:`bng` may be used inside :meth:`asking`."""

    def __init__(self, settings: BeamNGSettings) -> None:
        try:
            import beamngpy
        except ImportError as error:
            raise SimulatorError(f"beamngpy cannot be imported ({error}): pip install 'samepath[beamng]'") from error
        self.api: Any = beamngpy
        self.settings = settings
        self._lost = False
        self._vehicles: list[Any] = []
        with ExitStack() as stack:
            self._process = stack.enter_context(started(settings)) if settings.home else None
            self.bng: Any = beamngpy.BeamNGpy(
                settings.host, settings.port, quit_on_close=False, socket_timeout=settings.timeout_s
            )
            stack.callback(self._let_go)
            with self.asking("when it was greeted"):
                self.bng.open(launch=False)
            self._stack = stack.pop_all()

    def connect(self, vehicle: Any) -> None:  # noqa: ANN401
        """Connect to a vehicle as its own method does, but with a time limit, which that leaves out."""
        from beamngpy.connection import Connection

        answer = self.bng.vehicles.start_connection(vehicle, None)
        vehicle.connection = Connection(self.settings.host, int(answer["result"]), timeout=self.settings.timeout_s)
        self._vehicles.append(vehicle)
        vehicle.connect(self.bng, tries=1)

    @contextmanager
    def asking(self, when: str) -> Iterator[None]:
        """Turn the client's errors into ours; ``when`` says what was going on."""
        try:
            yield
        except SimulatorError:
            raise
        except Exception as error:
            raise self._told(when, error) from error

    def _told(self, when: str, error: Exception) -> SimulatorError:
        where, words = f"{NAME} at {self.settings.address}", printable(" ".join(str(error).split()))[:_LONGEST_WORDS]
        gone = isinstance(error, OSError | self.api.logging.BNGDisconnectedError)
        self._lost = self._lost or gone
        if isinstance(error, TimeoutError):
            limit = f"gave no answer {when} within {self.settings.timeout_s:g} s"
            if self._process is not None:
                return self._process.trouble(limit)
            return SimulatorError(f"{where} {limit}: does it hang? timeout_s sets the limit")
        if gone and self._process is not None:
            return self._process.trouble(f"is gone {when}", _MOMENT_S)
        if gone:
            return SimulatorError(f"{where} is gone {when}: {words or type(error).__name__}")
        kind = "" if isinstance(error, self.api.logging.BNGError | self.api.logging.BNGValueError) else type(error).__name__
        return SimulatorError(f"{where} failed {when}: {': '.join(one for one in (kind, words) if one)}")

    def tidy(self, call: Callable[[], object]) -> None:
        """Make a last call, where the program is there to hear it."""
        if not self._lost:
            try:
                call()
            except Exception:
                self._lost = True

    def _let_go(self) -> None:
        for vehicle in self._vehicles:
            with suppress(Exception):
                vehicle.disconnect()
        with suppress(Exception):
            self.bng.disconnect()

    def close(self) -> None:
        """Close every connection, and end the program if it was started here."""
        self._stack.close()
