"""Writes the exchange files anew: what the published clients ask for in a short run, and what the stand-ins answer.

They are written from the documentation of both programs, not recorded from them. To be run where both clients are installed,
after a change of the adapters that is meant to change what is asked for: ``python -m tests.support.write_exchanges``.
"""

from samepath.engines.airsim import AirSim
from samepath.engines.beamng import BeamNG
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from tests.support.airsim_peer import AirSimPeer
from tests.support.beamng_peer import BeamNGPeer
from tests.support.peer_cars import listening, write_exchange

ABOUT = "written from the documented API of {}, not recorded from the program: requests of its client, answers of a stand-in"
SHORT = {"settle_s": 0.1}
REQUEST = RunRequest("table1-test2", 0, duration_s=0.25)
FILES = {"airsim.json": (AirSim, AirSimPeer, "AirSim"), "beamng.json": (BeamNG, BeamNGPeer, "BeamNG.tech")}


def main():
    for name, (simulator, peer, program) in FILES.items():
        with listening(peer()) as server:
            run_request(simulator({"port": server.port, **SHORT}), REQUEST)
            write_exchange(name, ABOUT.format(program), server.log)


if __name__ == "__main__":
    main()
