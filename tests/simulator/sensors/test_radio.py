"""Radio against formulas worked out by hand, and chance against its bounds."""

import math

import pytest

from samepath.core.errors import SamepathError
from samepath.core.states import Vector
from samepath.simulator.sensors.radio import BUILDING, CUSTOM_NAME, IN_SIGHT, PROFILES, VEHICLE, Link, Radio, link_between

WAVE_M = 299_792_458.0 / 5.9e9


def radio(**given):
    return Radio.from_attributes(CUSTOM_NAME, given)


def in_sight(distance_m, height_m=1.5):
    return Link(distance_m, height_m, height_m, IN_SIGHT)


@pytest.mark.parametrize(
    ("scenario", "state", "expected_db"),
    [
        ("highway", IN_SIGHT, 32.4 + 20 * math.log10(100) + 20 * math.log10(5.9)),
        ("urban", IN_SIGHT, 38.77 + 16.7 * math.log10(100) + 18.2 * math.log10(5.9)),
        ("rural", BUILDING, 36.85 + 30 * math.log10(100) + 18.9 * math.log10(5.9)),
    ],
)
def test_the_winner_model_is_that_of_the_standard(scenario, state, expected_db):
    assert radio(scenario=scenario).loss_db(Link(100.0, 1.5, 1.5, state)) == pytest.approx(expected_db, abs=1e-9)


def test_far_away_two_rays_fall_with_the_fourth_power():
    """Beyond 4 h h / wave the two rays cancel: d^4 / (h^2 h^2), that is 40 dB a decade."""
    model = radio(path_loss_model="geometric", filter_distance=1e5)
    near_db, far_db = (model.loss_db(in_sight(distance_m)) for distance_m in (2000.0, 20000.0))
    assert far_db - near_db == pytest.approx(40.0, abs=0.6)


def test_behind_a_building_loss_follows_the_exponent():
    model = radio(path_loss_model="geometric", path_loss_exponent=3.0)
    losses = [model.loss_db(Link(distance_m, 1.5, 1.5, BUILDING)) for distance_m in (1.0, 10.0)]
    assert losses[0] == pytest.approx(20 * math.log10(4 * math.pi / WAVE_M), abs=1e-9)
    assert losses[1] - losses[0] == pytest.approx(30.0, abs=1e-9)


def test_a_roof_at_the_line_of_sight_costs_six_decibels():
    clear = radio().loss_db(in_sight(100.0))
    grazing = link_between(Vector(0, 0, 1.5), Vector(100, 0, 1.5), 0.0, False, ((0.5, 1.5),))
    assert grazing.state == VEHICLE
    assert radio().loss_db(grazing) - clear == pytest.approx(6.0, abs=0.1)
    below = link_between(Vector(0, 0, 3.0), Vector(100, 0, 3.0), 0.0, False, ((0.5, 1.0),))
    assert radio().loss_db(below) == pytest.approx(clear, abs=1e-9)


def test_who_is_too_far_or_too_weak_is_not_heard():
    quiet = radio(use_etsi_fading=False, receiver_sensitivity=-60.0, filter_distance=500.0)
    # 21.5 + 10 - 32.4 - 20 log10(5.9) - 20 log10(d) = -60 at 247 m.
    reach_m = 10 ** ((21.5 + 10 + 60 - 32.4 - 20 * math.log10(5.9)) / 20)
    assert quiet.received_dbm(21.5, in_sight(reach_m - 1.0), 0.0) == pytest.approx(-60.0, abs=0.1)
    assert quiet.received_dbm(21.5, in_sight(reach_m + 1.0), 0.0) is None
    assert radio(filter_distance=50.0).received_dbm(21.5, in_sight(51.0), 0.0) is None


def test_a_base_station_hears_the_weak():
    assert radio(network_profile="5g").received_dbm(21.5, Link(400.0, 1.5, 1.5, BUILDING), 9.0) is not None
    assert radio().received_dbm(21.5, Link(400.0, 1.5, 1.5, BUILDING), 9.0) is None


@pytest.mark.parametrize("name", ["dsrc", "wifi", "5g"])
def test_latency_and_loss_are_those_of_the_profile(name):
    profile, model = PROFILES[name], radio(network_profile=name)
    late, lost, count = 0.0, 0, 4000
    for tick in range(count):
        _, is_lost, is_late = model.chance(1, 2, tick)
        arrival_s, _ = model.arrives_s(10.0, 0.0, 300, is_lost, is_late)
        if arrival_s is None:
            lost += 1
        else:
            assert arrival_s >= 10.0 + profile.least_s
            late += arrival_s - 10.0
    mean_s = 8 * 300 / profile.rate_bps + profile.least_s + profile.tail_s
    # Five standard deviations of each: sqrt(p / n), and the tail's mean / sqrt(n).
    assert abs(lost / count - profile.loss_ratio) < 5 * math.sqrt(profile.loss_ratio / count)
    assert abs(late / (count - lost) - mean_s) < 5 * profile.tail_s / math.sqrt(count)


def test_without_a_profile_messages_arrive_at_once():
    assert radio().arrives_s(3.0, 0.0, 300, 0.5, 0.5) == (3.0, 0.0)


def test_a_shared_channel_is_full_at_some_point():
    model, busy_s, arrived = radio(network_profile="dsrc"), 0.0, []
    for _ in range(5000):
        arrival_s, busy_s = model.arrives_s(0.0, busy_s, 300, 1.0, 0.0)
        arrived.append(arrival_s)
    # 6 Mbit/s are 2,500 messages of 300 bytes a second; who would wait for more than a second gives up.
    assert sum(arrival is not None for arrival in arrived) == pytest.approx(2501, abs=2)
    assert arrived[0] < arrived[100] < arrived[1000]
    assert busy_s <= 1.001


def test_chance_has_a_name_and_nobody_else_moves_it():
    assert radio().chance(1, 2, 3) == radio().chance(1, 2, 3)
    others = {radio().chance(*key) for key in ((1, 2, 3), (2, 1, 3), (1, 2, 4), (1, 3, 3))}
    assert len(others) == 4
    assert radio(noise_seed=1).chance(1, 2, 3) != radio().chance(1, 2, 3)


def test_what_cannot_be_is_refused_by_name():
    for given, words in (
        ({"network_profile": "6g"}, "did you mean '5g'"),
        ({"scenario": "moon"}, "scenario"),
        ({"frequency_ghz": "0"}, "frequency_ghz"),
    ):
        with pytest.raises(SamepathError, match=words):
            radio(**given)
