"""The table of sessions, compared with a dict; records are indices of numpy arrays."""

import numpy as np
import pytest
from scalebricks import DHash

SEED = (3, 4)


def hosts(random, count, version):
    if version == 4:
        return random.integers(0, 1 << 32, count, dtype=np.uint32)
    return random.integers(0, 256, (count, 16), dtype=np.uint8)


def packets(random, count, known):
    """Packets between few hosts and ports, so that sessions repeat in both directions."""
    ends = [known[random.integers(0, len(known), count)] for _ in range(2)]
    ports = [random.choice(np.array([53, 80, 443, 5060], np.uint16), count) for _ in range(2)]
    return [*ends, *ports, random.choice(np.array([6, 17], np.uint8), count)]


def keys_of(columns):
    return [(a.tobytes(), b.tobytes(), int(m), int(n), int(p)) for a, b, m, n, p in zip(*columns)]


def turned(key):
    return (key[1], key[0], key[3], key[2], key[4])


@pytest.mark.parametrize("version", [4, 6])
def test_sessions_are_a_dict_of_both_directions(random, version):
    table, oracle, known_hosts = DHash(8000, seed=SEED, version=version), {}, hosts(random, 20, version)
    counts, wanted_counts = np.zeros(table.records, np.int64), {}
    for _ in range(30):
        columns = packets(random, 200, known_hosts)
        records, reverse, new = table.find_or_add(*columns)
        for key, record, against, first in zip(keys_of(columns), records.tolist(), reverse.tolist(), new.tolist()):
            known = key if key in oracle else turned(key)
            assert first == (known not in oracle)
            if first:
                known = key
                oracle[key] = record
                wanted_counts[key] = 0
            assert (record, against) == (oracle[known], known != key)
            wanted_counts[known] += 1
        np.add.at(counts, records, 1)
        assert len(table) == len(oracle)
        gone = packets(random, 40, known_hosts)
        removed = table.remove(*gone)
        for key, was in zip(keys_of(gone), removed.tolist()):
            known = key if key in oracle else turned(key)
            assert was == (known in oracle)
            if was:
                assert counts[oracle[known]] == wanted_counts.pop(known)
                counts[oracle.pop(known)] = 0
    asked = packets(random, 500, known_hosts)
    records, reverse = table.find(*asked)
    for key, record, against in zip(keys_of(asked), records.tolist(), reverse.tolist()):
        known = key if key in oracle else turned(key)
        assert record == oracle.get(known, -1)
        assert against == (known in oracle and known != key)
    assert len(set(oracle.values())) == len(oracle) and max(oracle.values()) < table.records
    assert table.table_bytes > len(table) * 16


def test_a_full_table_refuses_new_sessions_and_keeps_the_others(random):
    table = DHash(10, seed=SEED)
    columns = packets(random, 5000, hosts(random, 500, 4))
    records, _, new = table.find_or_add(*columns)
    assert (records == -1).any() and not new[records == -1].any()
    again, _ = table.find(*columns)
    assert np.array_equal(again[records >= 0], records[records >= 0])
    assert len(table) == new.sum() <= table.records


def test_what_is_refused(random):
    table = DHash(100, seed=SEED)
    columns = packets(random, 10, hosts(random, 5, 4))
    with pytest.raises(ValueError, match="source and protocol must have the same length, not 10 and 9"):
        table.find(*columns[:4], columns[4][1:])
    with pytest.raises(TypeError, match="destination_port must be a numpy array of uint16 .* not an array of int64"):
        table.find(*columns[:3], columns[3].astype(np.int64), columns[4])
    with pytest.raises(TypeError, match="source must be a numpy array of uint32"):
        table.find_or_add(*packets(random, 10, hosts(random, 5, 6)))
    with pytest.raises(ValueError, match="version is 0"):
        DHash(1, seed=SEED, version=0)
