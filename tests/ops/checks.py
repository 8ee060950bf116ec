"""Faults, ports and waiting, for the scripts beside this file."""

import os
import socket
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
faults = []


def fault(text):
    faults.append(text)
    if len(faults) <= 30:
        print(f"  FAULT {text}", flush=True)


def check(is_right, text):
    if not is_right:
        fault(text)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(seconds, condition):
    """Whether a condition becomes true in time. A server that does not listen yet makes it false."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return True
        except OSError:
            pass
        time.sleep(0.02)
    return False
