"""Faults, ports and waiting, for the scripts beside this file."""

import itertools
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


numbers = itertools.count(os.getpid())


def free_port():
    """A port outside the range that the system takes ports of connections from: it is still free when it is used."""
    while True:
        port = 20000 + next(numbers) * 101 % 12000
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


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
