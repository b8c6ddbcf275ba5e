"""Arrays: what is accepted, written in place, and refused; and threads beside a function."""

import sys
import threading
import time

import numpy as np
import pytest
from scalebricks import Lpm, SetSep, hash_keys

KEYS = np.arange(1, 1001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@pytest.fixture
def table():
    return SetSep(KEYS, (KEYS % np.uint64(4)).astype(np.uint8), value_bits=2)


def test_out_is_written_in_place(table):
    out = np.full(1000, 9, np.uint8)
    assert table.lookup(KEYS, out) is out
    assert np.array_equal(out, table.lookup(KEYS))
    part = np.full(10, 9, np.uint8)
    table.lookup(KEYS[:4], out=part[3:7])
    assert (part[:3] == 9).all() and (part[7:] == 9).all() and np.array_equal(part[3:7], out[:4])
    hashes = np.zeros(3, np.uint64)
    assert hash_keys(KEYS[:3], (1, 2), hashes) is hashes and hashes.all()
    hops = np.zeros(2, np.int32)
    assert Lpm(4).lookup(np.zeros(2, np.uint32), hops) is hops and (hops == -1).all()


def test_arrays_that_may_only_be_read_are_read(table):
    keys = KEYS.copy()
    keys.flags.writeable = False
    assert np.array_equal(table.lookup(keys), table.lookup(KEYS))
    assert table.lookup(KEYS[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("keys", "error", "message"),
    [
        ([1, 2], TypeError, "keys must be a numpy array of uint64 with 1 dimension.*, not list"),
        (None, TypeError, "not NoneType"),
        (KEYS.astype(np.int64), TypeError, "not an array of int64 with 1 dimension"),
        (KEYS.astype(np.float64), TypeError, "not an array of float64"),
        (KEYS.reshape(10, 100), TypeError, "not an array of uint64 with 2 dimension"),
        (KEYS.byteswap().view(KEYS.dtype.newbyteorder()), TypeError, "not an array of >u8"),
        (KEYS[::2], ValueError, "keys is not contiguous: pass numpy.ascontiguousarray"),
        (np.zeros(17, np.uint8)[1:].view(np.uint64), ValueError, "keys is not aligned"),
    ],
)
def test_keys_that_are_refused(table, keys, error, message):
    with pytest.raises(error, match=message):
        table.lookup(keys)


def test_outs_that_are_refused(table):
    with pytest.raises(ValueError, match="out has 999 elements, not 1000"):
        table.lookup(KEYS, np.zeros(999, np.uint8))
    with pytest.raises(TypeError, match="out must be a numpy array of uint8 .* not an array of uint16"):
        table.lookup(KEYS, np.zeros(1000, np.uint16))
    with pytest.raises(ValueError, match="out is not contiguous"):
        table.lookup(KEYS, np.zeros(2000, np.uint8)[::2])
    fixed = np.zeros(1000, np.uint8)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only, or in use"):
        table.lookup(KEYS, fixed)
    with pytest.raises(ValueError, match="out is read-only, or in use"):
        hash_keys(KEYS, (1, 2), KEYS)


def test_other_threads_run_during_a_build():
    """This thread runs while another one builds. Neither is made to give way to the other: with an interval of hours, a
    thread runs only if the other one releases the interpreter of its own accord."""
    keys = np.arange(1, 1_500_001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values = np.zeros(keys.size, np.uint8)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10_000)
    try:
        for _ in range(50):
            states, state = [], ["before"]

            def build():
                state[0] = "during"
                SetSep(keys, values, value_bits=1, threads=1)
                state[0] = "after"

            thread = threading.Thread(target=build)
            thread.start()
            while thread.is_alive():
                states.append(state[0])
                time.sleep(0)
            thread.join()
            if "during" in states:
                return
    finally:
        sys.setswitchinterval(interval)
    pytest.fail("no other thread ran during fifty builds")


def test_lookups_beside_changes():
    """Values go from 1 to 2, key by key; a reader sees one or the other, and never goes back."""
    keys = KEYS
    ones = np.ones(keys.size, np.uint8)
    table = SetSep(keys, ones, value_bits=2)
    failures, done = [], threading.Event()

    def read():
        before = ones.copy()
        while True:
            last = done.is_set()
            now = table.lookup(keys)
            if not (((now == 1) | (now == 2)).all() and (now >= before).all()) or last and not (now == 2).all():
                failures.append(now)
            before = now
            if last:
                return

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for at in range(keys.size):
        table.update(keys[at : at + 1], ones[:1] + np.uint8(1))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
