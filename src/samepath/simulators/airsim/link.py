"""The connection to AirSim, through the client that Cosys-Lab publishes: its errors become one line of ours.

The client talks MessagePack-RPC in an asyncio loop of its own and counts time-outs in whole seconds. Where a connection is
closed it connects again but does not ask again, so that it waits for its time-out then too.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

from samepath.base.errors import SimulatorError
from samepath.base.words import printable
from samepath.simulators.airsim.settings import AirSimSettings
from samepath.simulators.remote import find_server

HOW_TO: Final = "start AirSim in car mode, or give host and port in the settings"
_LONGEST_WORDS: Final = 200


class Link:
    """A client that is connected; :attr:`client` may be used inside :meth:`asking`."""

    def __init__(self, settings: AirSimSettings) -> None:
        self.api = _imported()
        self.settings = settings
        self._lost = False
        # The client takes the thread's loop, and finds none to speak of in newer Pythons.
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self.client: Any = self.api.CarClient(settings.host, settings.port, settings.timeout_s)

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
        where = f"AirSim at {self.settings.address}"
        words = printable(" ".join(str(error).split()))[:_LONGEST_WORDS]
        if "timed out" in words or "Retry connection" in words or "Stream is closed" in words:
            self._lost = True
            try:
                find_server("AirSim", self.settings.host, self.settings.port, HOW_TO)
            except SimulatorError:
                return SimulatorError(f"{where} is gone {when}: it gave no answer, and nobody listens there any more")
            return SimulatorError(
                f"{where} gave no answer that can be read {when} within {self.settings.timeout_s:g} s: "
                "does it hang? timeout_s sets the limit"
            )
        return SimulatorError(f"{where} failed {when}: {words or type(error).__name__}")

    def tidy(self, call: Callable[[], object]) -> None:
        """Make a last call, where the program is there to hear it."""
        if not self._lost:
            try:
                call()
            except Exception:
                self._lost = True

    def close(self) -> None:
        """Close the connection and end what the client left in its loop."""
        with suppress(Exception):
            self.client.client.close()
        if not self._loop.is_closed():
            with suppress(Exception):
                left = asyncio.all_tasks(self._loop)
                for task in left:
                    task.cancel()
                self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.close()
        asyncio.set_event_loop(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _imported() -> Any:  # noqa: ANN401
    """Import the client. What it imports puts the current folder on the path of modules, which is taken back."""
    path = list(sys.path)
    try:
        import cosysairsim
    except ImportError as error:
        raise SimulatorError(f"cosysairsim cannot be imported ({error}): pip install 'samepath[airsim]'") from error
    finally:
        sys.path[:] = path
    return cosysairsim
