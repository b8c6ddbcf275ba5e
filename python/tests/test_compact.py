"""SetSep and Othello, compared with a dict."""

import numpy as np
import pytest
import scalebricks
from scalebricks import Othello, SetSep

CASES = [(SetSep, np.uint8, 1), (SetSep, np.uint8, 8), (Othello, np.uint16, 2), (Othello, np.uint16, 13)]


def keys_of(random, count):
    return random.permutation(np.unique(random.integers(0, 1 << 64, count, dtype=np.uint64)))


def check(table, oracle, dtype):
    keys = np.array(list(oracle), dtype=np.uint64)
    assert table.lookup(keys).tolist() == list(oracle.values())
    assert table.lookup(keys).dtype == dtype


@pytest.mark.parametrize(("kind", "dtype", "bits"), CASES)
def test_changes_reach_replicas_by_deltas(random, kind, dtype, bits):
    keys = keys_of(random, 6000)
    values = random.integers(0, 1 << bits, keys.size).astype(dtype)
    oracle = dict(zip(keys[:3000].tolist(), values[:3000].tolist()))
    owner = kind(keys[:3000], values[:3000], value_bits=bits, capacity=6000, partitions=4)
    replica = kind.from_snapshot(owner.snapshot())
    assert (owner.is_owner, replica.is_owner, owner.value_bits) == (True, False, bits)
    check(owner, oracle, dtype)
    check(replica, oracle, dtype)
    for _ in range(40):
        picked = random.choice(keys, 60, replace=False)
        here = np.array([key in oracle for key in picked.tolist()])
        fresh = random.integers(0, 1 << bits, 60).astype(dtype)
        gone = here & (random.random(60) < 0.4)
        changed = here & ~gone
        deltas = owner.remove(picked[gone]) + owner.update(picked[changed], fresh[changed])
        deltas += owner.insert(picked[~here], fresh[~here])
        for key in picked[gone].tolist():
            del oracle[key]
        oracle.update(zip(picked[~gone].tolist(), fresh[~gone].tolist()))
        assert all(type(delta) is bytes for delta in deltas)
        assert all(replica.apply(delta) for delta in deltas)
        assert not any(replica.apply(delta) for delta in deltas), "a delta that arrives twice changes nothing"
    check(owner, oracle, dtype)
    check(replica, oracle, dtype)
    assert len(owner) == len(oracle)
    stored = dict(zip(*(column.tolist() for column in owner.items())))
    assert stored == oracle
    assert all(owner.get(key) == oracle.get(key) for key in keys.tolist())
    assert replica.snapshot() == owner.snapshot(), "equal keys and histories give equal bits"
    assert [replica.position(at) for at in range(4)] == [owner.position(at) for at in range(4)]

    heir = kind.from_snapshot(owner.snapshot(keys=True))
    assert heir.is_owner and len(heir) == len(oracle)
    some = next(iter(oracle))
    oracle[some] ^= 1
    lost = heir.update(np.array([some], np.uint64), np.array([oracle[some]], dtype))
    oracle[some] ^= 1
    late = heir.update(np.array([some], np.uint64), np.array([oracle[some]], dtype))
    with pytest.raises(scalebricks.Gap, match="gap"):
        replica.apply(late[0])
    assert replica.apply(lost[0]) and replica.apply(late[0])
    check(replica, oracle, dtype)


@pytest.mark.parametrize(("kind", "dtype", "bits"), CASES)
def test_what_is_refused(random, kind, dtype, bits):
    keys = keys_of(random, 100)
    values = np.zeros(keys.size, dtype)
    owner = kind(keys, values, value_bits=bits)
    replica = kind.from_snapshot(owner.snapshot())
    absent = np.array([12345], np.uint64)
    with pytest.raises(ValueError, match="two entries have the hash"):
        kind(np.array([5, 5], np.uint64), values[:2], value_bits=bits)
    with pytest.raises(ValueError, match="bits"):
        kind(keys, values, value_bits=40)
    with pytest.raises(ValueError, match="same length, not 100 and 99"):
        kind(keys, values[1:], value_bits=bits)
    with pytest.raises(ValueError, match="power of two"):
        kind(keys, values, value_bits=bits, partitions=3)
    with pytest.raises(ValueError, match="already there"):
        owner.insert(keys[:1], values[:1])
    with pytest.raises(KeyError, match="operation 1: the key is not there"):
        owner.remove(np.append(keys[:1], absent))
    assert len(owner) == keys.size, "all or none"
    if bits < 8:
        with pytest.raises(ValueError, match=f"more than {bits} bits"):
            owner.update(keys[:1], np.array([1 << bits], dtype))
    for call in [lambda: replica.get(1), lambda: len(replica), replica.items, lambda: replica.remove(keys)]:
        with pytest.raises(ValueError, match="this table has no keys"):
            call()
    with pytest.raises(ValueError, match="takes no deltas"):
        owner.apply(owner.update(keys[:1], values[:1])[0])
    with pytest.raises(KeyError, match="no partition 9"):
        owner.position(9)
    snapshot = bytearray(owner.snapshot())
    snapshot[len(snapshot) // 2] ^= 1
    for damaged in [bytes(snapshot), owner.snapshot()[:-1], b"", b"something else"]:
        with pytest.raises(ValueError):
            kind.from_snapshot(damaged)
    with pytest.raises(ValueError, match="delta truncated"):
        replica.apply(b"short")
    other = SetSep if kind is Othello else Othello
    with pytest.raises(ValueError, match="not a snapshot of this structure"):
        other.from_snapshot(owner.snapshot())


def test_a_table_without_room_says_so(random):
    keys = keys_of(random, 5000)
    table = SetSep(keys[:0], np.zeros(0, np.uint8), value_bits=2, capacity=1000)
    with pytest.raises(scalebricks.TableFull, match="rebuild with more blocks"):
        table.insert(keys, np.zeros(keys.size, np.uint8))
    assert len(table) == 0


@pytest.mark.parametrize("name", ["linear", "dense", "paper", "brute"])
def test_formats(random, name):
    keys = keys_of(random, 20000)
    values = (keys % np.uint64(4)).astype(np.uint8)
    table = SetSep(keys, values, value_bits=2, format=name)
    assert np.array_equal(table.lookup(keys), values)
    assert 2 < table.bits_per_key < 8
    with pytest.raises(ValueError, match="not one of linear"):
        SetSep(keys, values, value_bits=2, format="best")


def test_results_do_not_depend_on_the_number_of_threads(random):
    keys = keys_of(random, 50000)
    values = (keys % np.uint64(8)).astype(np.uint8)
    snapshots = {SetSep(keys, values, value_bits=3, threads=threads).snapshot() for threads in (1, 2, 5)}
    assert len(snapshots) == 1
