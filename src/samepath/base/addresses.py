"""Addresses: which of them let others in."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Can this address be reached from this machine only?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_everywhere(host: str) -> bool:
    """Does this address stand for all of a machine's?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host or host == "*"
