"""Writes the exchange files anew: what the published clients ask for in a short run, and what the stand-ins answer.

They are written from the documentation of both programs, not recorded from them. To be run where both clients are installed,
after a change of the adapters that is meant to change what is asked for: ``python tests/simulators/write_exchanges.py``.
"""

from airsim_peer import AirSimPeer
from beamng_peer import BeamNGPeer
from peer_cars import listening, write_exchange

from samepath.simulators.airsim import AirSim
from samepath.simulators.beamng import BeamNG
from samepath.simulators.conformance import run_request
from samepath.simulators.interface import RunRequest

ABOUT = "written from the documented API of {}, not recorded from the program: requests of its client, answers of a stand-in"
SHORT = {"settle_s": 0.1}
REQUEST = RunRequest("table1-test2", 0, duration_s=0.25)
FILES = {"airsim.json": (AirSim, AirSimPeer, "AirSim"), "beamng.json": (BeamNG, BeamNGPeer, "BeamNG.tech")}


def main():
    for name, (simulator, peer, program) in FILES.items():
        with listening(peer()) as one:
            run_request(simulator({"port": one.port, **SHORT}), REQUEST)
            write_exchange(name, ABOUT.format(program), one.log)


if __name__ == "__main__":
    main()
